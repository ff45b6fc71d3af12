"""What Spark's tasks do: pack the rows of a map partition; join one core's share of a batch."""
