"""Tests of `aktor.spark.tasks`."""
