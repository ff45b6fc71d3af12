"""Verilog, proofs, resources and clock."""
