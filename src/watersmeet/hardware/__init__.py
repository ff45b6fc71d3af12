"""The papers' stream processors as hardware: designed with Amaranth, run cycle by cycle, compared with the engine.

What stays true: nothing of the engine imports this package, and whoever imports it has Amaranth (the extra ``hardware``).
"""

from watersmeet.extras import need

need("the hardware", "amaranth", "hardware")

from watersmeet.hardware.catalog import design, designs, figures, run  # noqa: E402
from watersmeet.hardware.on_fabric import QueryRun, run_queries  # noqa: E402
from watersmeet.hardware.ports import pack, unpack  # noqa: E402
from watersmeet.hardware.registry import Design, Figure, Parameter, Run  # noqa: E402
from watersmeet.hardware.simulate import Session, Trace, simulate  # noqa: E402
from watersmeet.hardware.tools import Synthesis, prove, synth, verilog  # noqa: E402

__all__ = [
    "Design",
    "Figure",
    "Parameter",
    "QueryRun",
    "Run",
    "Session",
    "Synthesis",
    "Trace",
    "design",
    "designs",
    "figures",
    "pack",
    "prove",
    "run",
    "run_queries",
    "simulate",
    "synth",
    "unpack",
    "verilog",
]
