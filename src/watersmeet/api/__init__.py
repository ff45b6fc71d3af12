"""What users see: ``StreamJoin`` and its results, in words, in numbers and as files."""
