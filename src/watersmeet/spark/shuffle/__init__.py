"""From rows to cores: which core gets which rows, and how they travel there. Values only; no files, no Spark."""
