"""The application's half without its waiting: `poll`, positions, commits, rebalance steps."""
