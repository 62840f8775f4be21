"""A loop that consumes, transforms and produces, and the simulation that tells right from wrong."""
