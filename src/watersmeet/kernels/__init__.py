"""Numba kernels: plain functions over 1-D contiguous arrays. See ``jit.py`` for the rules they keep."""
