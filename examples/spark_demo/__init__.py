"""A streaming aggregation of orders on Spark, with a restart: `make demo-spark`."""
