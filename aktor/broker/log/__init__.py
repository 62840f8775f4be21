"""One partition's log: record batches as bytes, and what must be known of them."""
