"""How aktor tests itself with the simulation: storms, crash drills, recovery times."""
