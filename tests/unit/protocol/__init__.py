"""Tests of the messages that are ours to parse."""
