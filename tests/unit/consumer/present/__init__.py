"""What a consumer says of itself now."""
