"""Components compiled to machine code without a C compiler: Amaranth -> RTLIL -> Yosys's netlist -> LLVM, which Numba brings.

Owned instead of a generator of C or of Numba's Python: LLVM's integers have any width, so a netlist's cells map to instructions one
by one, and the same way works wherever Numba does. Verilator (``simulate/verilator.py``) is the independent second one.
"""
