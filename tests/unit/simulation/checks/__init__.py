"""Units of the promises that histories are checked for: a module for each kind."""
