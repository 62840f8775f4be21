"""What members do: the loops of consumers, and their listeners; transactions that are written."""
