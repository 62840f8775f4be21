"""The settings of a consumer: kafka-python's keyword arguments, checked, made into `Settings`."""
