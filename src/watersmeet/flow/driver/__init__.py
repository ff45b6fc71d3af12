"""A flow from outside: rows in, written down and sent; results out."""
