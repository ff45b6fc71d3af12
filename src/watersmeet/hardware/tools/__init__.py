"""Verilog, proofs, resources and clock."""

from watersmeet.hardware.tools.formal import Proof, prove
from watersmeet.hardware.tools.synth import Synthesis, synth
from watersmeet.hardware.tools.verilog import verilog

__all__ = ["Proof", "Synthesis", "prove", "synth", "verilog"]
