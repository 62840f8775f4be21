"""Tests of `aktor.spark.sink`."""
