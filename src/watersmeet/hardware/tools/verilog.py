"""A component as Verilog: shared modules once, under their own names; memories as arrays."""

from typing import Any

from watersmeet.hardware.simulate.compiled.netlist import text_of, yosys


def verilog(design: Any) -> str:
    """Verilog of the component (its module is ``top``) and of everything inside."""
    text = text_of(design, watch=False)
    return yosys(
        f"read_rtlil <<rtlil\n{text.rtlil}\nrtlil\nhierarchy -top top\n"
        "proc -nomux -norom\nmemory_collect\nwrite_verilog -norename -noattr\n"
    )
