"""The join itself: texts bound, a plan, rows in sub-windows, probes, and what a push does, in order."""
