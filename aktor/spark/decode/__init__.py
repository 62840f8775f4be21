"""Values of records as columns: the option `decode`."""
