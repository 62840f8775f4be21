"""Consumer groups as the broker sees them: members, generations and epochs, committed offsets."""
