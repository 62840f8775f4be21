"""A service of asyncio: records are worked on in the event loop, and committed after each batch.

python -m examples.from_asyncio localhost:9092 orders billing
"""

from __future__ import annotations

import asyncio
import sys

from aktor.aio import ConsumerRecord, KafkaConsumer


async def work(record: ConsumerRecord) -> None:
    """What is done with one record."""
    await asyncio.sleep(0)
    print(record.value)


async def main(bootstrap: str, topic: str, group: str, idle_ms: float = 10_000) -> int:
    """Print records until none has come for `idle_ms`; returns how many."""
    done = 0
    async with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while batch := await consumer.getmany(timeout_ms=idle_ms):
            for records in batch.values():
                async with asyncio.TaskGroup() as tasks:
                    for record in records:
                        tasks.create_task(work(record))
                done += len(records)
            await consumer.commit()
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(asyncio.run(main(*sys.argv[1:])))
