"""What the product says of 20 faults, caused one by one on a real Kafka: `python -m
tests.kafka.told` prints it.

A tool to be run by hand, and no test: it takes a quarter of an hour. `__main__` prints, `faults`
has a function for each fault, `group` the members (`member`: one of them as a process).
"""
