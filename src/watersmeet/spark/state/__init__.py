"""What a core keeps between batches, as files. Values in, files out; no running join, no Spark."""
