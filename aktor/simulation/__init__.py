"""Simulation in virtual time."""
