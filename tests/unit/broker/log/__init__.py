"""Tests of one partition's log."""
