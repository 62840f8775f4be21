"""What a real Apache Kafka says, recorded, and the embedded cluster held against it.

A scenario talks raw protocol to a cluster and notes what it observes. The same function runs on
the real Kafka and on the embedded one; `recorded/` holds what the real one said.

    python -m tests.reality --record       ask a real Kafka again and write the records
    python -m tests.reality --embedded     hold the embedded cluster against them
    python -m tests.reality --at HOST:PORT hold any cluster against them
"""
