"""What Spark users call: ``stream_join`` and what it checks, types on both sides, joins of joins, ``explain``."""
