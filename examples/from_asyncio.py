"""A consumer in a program of asyncio: each poll waits in a thread, and the event loop goes on.

An asyncio consumer does not exist yet. This is the way until then; where the work on a record is
a coroutine, `consumer.process(handler)` is another one.

python -m examples.from_asyncio localhost:9092 orders billing
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

from aktor import ConsumerRecord, KafkaConsumer

K = TypeVar("K")
V = TypeVar("V")


async def polls(
    consumer: KafkaConsumer[K, V], timeout_ms: float = 1000
) -> AsyncIterator[list[ConsumerRecord[K, V]]]:
    """The records of one poll after the other; an empty list when none came within `timeout_ms`.

    A task that is cancelled wakes the poll up, so that it does not go on in its thread.
    """
    while True:
        poll = asyncio.create_task(asyncio.to_thread(consumer.poll, timeout_ms))
        try:
            polled = await asyncio.shield(poll)
        except asyncio.CancelledError:
            consumer.wakeup()
            await asyncio.wait([poll])
            raise
        yield [record for records in polled.values() for record in records]


async def work(record: ConsumerRecord) -> None:
    """What is done with one record."""
    await asyncio.sleep(0)
    print(record.value)


async def main(bootstrap: str, topic: str, group: str, idle_ms: float = 10_000) -> int:
    """Print records until none has come for `idle_ms`; returns how many."""
    done = 0
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        async for records in polls(consumer, idle_ms):
            if not records:
                break
            for record in records:
                await work(record)
            done += len(records)
            await asyncio.to_thread(consumer.commit)
    finally:
        await asyncio.to_thread(consumer.close)
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(asyncio.run(main(*sys.argv[1:])))
