"""What the traces of a group's members say of its rebalances."""
