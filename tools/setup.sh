#!/usr/bin/env bash
# Makes .venv with Watersmeet (editable) and everything its tests, demo and benchmarks need. `make setup` calls this when
# pyproject.toml is newer than the last complete set-up. PYTHON=... names the interpreter to use.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
extras=dev,bench,pandas,plot,spark

# A name on PATH is not yet an interpreter: a pyenv shim may point at nothing, a distribution may leave out venv.
usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python /usr/bin/python3}; do
        if usable "$name"; then
            command -v "$name"
            return
        fi
    done
    echo "setup: a Python of at least 3.11 with the venv module must be on PATH; found none" \
        "(tried: ${PYTHON:-python3, python3.11 to python3.14, python}). Install one, or name it: make setup PYTHON=..." >&2
    return 1
}

if ! usable "$venv/bin/python"; then
    python=$(find_python)
    echo "setup: creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "setup: installing watersmeet[$extras] into $venv; the first time takes a few minutes"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 --editable ".[$extras]"
touch "$venv/.complete"
