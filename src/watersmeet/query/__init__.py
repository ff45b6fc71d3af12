"""Continuous queries: SQL over live streams that several queries share, added, changed and dropped while rows come."""
