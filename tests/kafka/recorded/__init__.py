"""What a real Apache Kafka says, recorded, and the embedded cluster held against it.

A scenario talks raw protocol to a cluster and notes what it observes. The same function runs on
the real Kafka and on the embedded one; `answers/` holds what the real one said.

    python -m tests.kafka.recorded --record       ask a real Kafka again and write the records
    python -m tests.kafka.recorded --embedded     hold the embedded cluster against them
    python -m tests.kafka.recorded --at HOST:PORT hold any cluster against them
"""
