"""Tests of `aktor.spark.filters`."""
