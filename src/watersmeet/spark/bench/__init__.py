"""``watersmeet bench spark``: the same joins by Watersmeet, by Spark alone and by the usual workaround, in one run."""
