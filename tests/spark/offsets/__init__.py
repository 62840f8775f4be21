"""Tests of `aktor.spark.offsets`."""
