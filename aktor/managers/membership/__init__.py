"""The consumer's membership in its group: what both group protocols have in common."""
