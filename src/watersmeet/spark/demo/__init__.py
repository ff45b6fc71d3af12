"""``watersmeet demo``: a join that Spark refuses, run on local Spark over two live streams, checked and drawn."""
