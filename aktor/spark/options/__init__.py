"""The options of the source and of the sink, read and checked before a job starts."""
