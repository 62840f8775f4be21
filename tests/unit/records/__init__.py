"""Tests of the records package: bytes in, records out."""
