"""Does the simulator find bugs? Historic ones, gross ones and our own, each put in by a patch.

A patch begins with one or two sentences: which bug it is, and what its users saw (of a gross one:
would see). It is written against `aktor` as it is now; `python -m tests.mutations` looks for a seed
that finds it.
"""
