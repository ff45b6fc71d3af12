"""Streams that are made up, each a function of its row numbers: for sources, demos, tests and benchmarks."""
