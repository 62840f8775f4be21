"""Conditions on columns: of the option `where`, and those that Spark hands to the source."""
