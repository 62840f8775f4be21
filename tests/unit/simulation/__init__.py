"""Units of the simulation."""
