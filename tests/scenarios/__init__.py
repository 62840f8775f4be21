"""Longer stories: a run under a seed with faults, then a check of its whole history."""
