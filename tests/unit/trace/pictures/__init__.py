"""Pictures of rebalances."""
