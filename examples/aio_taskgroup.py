"""A TaskGroup: a task reads, another one tells how far it is; if one fails, all end.

python -m examples.aio_taskgroup localhost:9092 orders billing
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from aktor.aio import ConsumerRecord, KafkaConsumer

Record = ConsumerRecord[bytes | None, bytes | None]
Consumer = KafkaConsumer[bytes | None, bytes | None]


async def read(consumer: Consumer, handle: Callable[[Record], Awaitable[None]]) -> None:
    """Handle records one by one. An error of `handle` ends the whole program."""
    async for record in consumer:
        await handle(record)


async def tell(consumer: Consumer, seconds: float = 1.0) -> None:
    """Print how many records are still to be read."""
    while True:
        await asyncio.sleep(seconds)
        ends = await consumer.end_offsets(consumer.assignment())
        behind = [end - await consumer.position(partition) for partition, end in ends.items()]
        print(f"{sum(behind)} records behind")


async def main(
    bootstrap: str, topic: str, group: str, handle: Callable[[Record], Awaitable[None]]
) -> None:
    """The consumer is around the tasks: they have ended when it commits and leaves the group."""
    async with (
        KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(read(consumer, handle))
        tasks.create_task(tell(consumer))


async def show(record: Record) -> None:
    """What is done with one record."""
    print(record.value)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:], show))
