"""Who lets the nodes of a network move: threads, a test step by step, a simulation with a clock of its own."""
