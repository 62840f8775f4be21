"""The rebalances that a Spark job finds in traces."""
