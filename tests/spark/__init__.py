"""The data source for Spark, without a JVM. With one it is tested in tests/kafka/test_spark*.py."""
