"""Aggregates with group-by that can take rows away again: exact, whatever the order, the batches and the retractions."""
