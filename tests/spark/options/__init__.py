"""Tests of `aktor.spark.options`."""
