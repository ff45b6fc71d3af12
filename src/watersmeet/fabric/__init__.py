"""Fabrics: fixed networks of processing blocks that queries are assigned to."""
