"""What members do: the consumer loops, listeners and producers of simulations."""
