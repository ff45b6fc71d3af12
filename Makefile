# Every target sets itself up: on a fresh machine it needs only a python3 (>= 3.11) and a package registry.
#   make test       unit and property tests, same seeds each time
#   make test-all   the slow tests too, with fresh random seeds and more examples
#   make test-kills the tests that kill processes of Spark, four times as many kills as test-all
#   make check      ruff, mypy, import direction
#   make demo       join two live streams on local Spark, check every result and draw a picture; needs no Java
#   make bench      the engine's quick benchmark; `.venv/bin/watersmeet bench engine` is the full one, `bench spark` Spark's
#   make clean      remove caches (not .venv); `make distclean` removes .venv too

BIN := .venv/bin
READY := .venv/.complete
WORKERS ?= 2
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup test test-all test-kills check format demo bench clean distclean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): pyproject.toml tools/setup.sh
	@bash tools/setup.sh

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-all: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m "" --hypothesis-profile=random $(PYTEST_ARGS)

test-kills: $(READY)
	WATERSMEET_KILLS=many $(BIN)/python -m pytest -m slow -n0 -s tests/spark/test_faults.py tests/spark/test_host_faults.py $(PYTEST_ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_imports.py
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(READY)
	$(BIN)/watersmeet demo

bench: $(READY)
	$(BIN)/watersmeet bench engine --quick

clean:
	rm -rf .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv
