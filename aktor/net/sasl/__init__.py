"""What programs import from `kafka.net.sasl`: the base class of token providers."""
