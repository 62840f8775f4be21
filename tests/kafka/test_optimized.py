"""A whole round trip where Python leaves out its asserts (`python -O`, PYTHONOPTIMIZE).

Many production images set PYTHONOPTIMIZE. An `assert` whose condition does something is missing
there, in our code or in kafka-python's, and so is one on which the code after it relies.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: Writes 300 records to a cluster of two brokers, reads them in a group, commits, and handles all
#: in `process`; reads them once more in an event loop.
PROGRAM = """
import asyncio
import sys
from aktor import KafkaConsumer, TopicPartition
from aktor.aio import KafkaConsumer as AsyncConsumer
from aktor.broker import EmbeddedKafka
from aktor.errors import WakeupError
from confluent_kafka import Producer  # kafka-python's cannot connect without asserts

if __debug__:
    sys.exit("asserts are not left out")

VALUES = [b"%d" % n for n in range(300)]

def consumer(**more):
    return KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_protocol=sys.argv[1],
        **more,
    )

with EmbeddedKafka(2, topics={"orders": 3}) as kafka:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n, value in enumerate(VALUES):
        producer.produce("orders", value, partition=n % 3)
    producer.flush(30)

    got = []
    with consumer(group_id="billing") as one:
        while len(got) < len(VALUES):
            for records in one.poll(1000).values():
                got += [record.value for record in records]
        one.commit()
        parts = [TopicPartition("orders", n) for n in range(3)]
        committed = one.committed(set(parts))
        ends = one.end_offsets(parts)
        one.seek_to_beginning(*parts)
        again = sum(len(records) for records in one.poll(5000).values())
        one.unsubscribe()

    handled = []
    with consumer(group_id="process") as two:
        def handle(record):
            handled.append(record.value)
            if len(handled) == len(VALUES):
                two.wakeup()
        try:
            two.process(handle)
        except WakeupError:
            pass

    async def by_asyncio():
        async with AsyncConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="aio",
            auto_offset_reset="earliest", group_protocol=sys.argv[1],
        ) as three:
            read = [(await three.getone()).value]
            async for record in three:
                read.append(record.value)
                if len(read) == len(VALUES):
                    await three.commit()
                    return read

    awaited = asyncio.run(by_asyncio())

print(sorted(got) == sorted(VALUES), sorted(handled) == sorted(VALUES), again > 0)
print(sorted(awaited) == sorted(VALUES))
print({part.partition: ends[part] for part in parts}, sorted(committed.values()) == [100] * 3)
"""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("level", ["1", "2"])
def test_records_are_read_committed_and_processed_without_asserts(
    level: str, protocol: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, protocol],
        env=os.environ | {"PYTHONOPTIMIZE": level},  # as -O and -OO
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.stdout == "True True True\nTrue\n{0: 100, 1: 100, 2: 100} True\n", run.stderr
