"""A release: what is built, and a program that tries it where it was installed."""
