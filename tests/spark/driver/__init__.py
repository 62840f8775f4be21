"""Tests of `aktor.spark.driver`."""
