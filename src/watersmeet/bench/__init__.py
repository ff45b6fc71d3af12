"""Workloads, peers and measurements: one registry of workloads serves the benchmarks and the tests alike."""
