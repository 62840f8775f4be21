"""Foreign clients against the embedded cluster: whatever speaks to Kafka must not notice."""
