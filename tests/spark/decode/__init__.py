"""Tests of `aktor.spark.decode`."""
