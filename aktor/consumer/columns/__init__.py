"""Records as columns: pyarrow batches and tables, JSON values as typed columns."""
