"""aiohttp: the last order of each customer, kept up to date by a consumer in the same event loop.

python -m examples.aio_aiohttp localhost:9092 orders
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import web

from aktor.aio import KafkaConsumer

ORDERS = web.AppKey("ORDERS", dict[str, bytes])


def make_app(bootstrap: str, topic: str) -> web.Application:
    """Reads the whole topic first, so that no answer is older than the start."""

    async def keep(app: web.Application) -> AsyncIterator[None]:
        orders = app[ORDERS] = {}
        async with KafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            while any([await consumer.position(one) < end for one, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    orders |= {(one.key or b"").decode(): one.value or b"" for one in records}
            following = asyncio.create_task(follow(consumer, orders))
            yield
        await following  # the consumer has stopped, so the iteration has ended

    async def order(request: web.Request) -> web.Response:
        found = request.app[ORDERS].get(request.match_info["customer"])
        return web.Response(status=404) if found is None else web.Response(body=found)

    app = web.Application()
    app.cleanup_ctx.append(keep)
    app.add_routes([web.get("/{customer}", order)])
    return app


async def follow(consumer: KafkaConsumer[bytes | None, bytes | None], to: dict[str, bytes]) -> None:
    """Until the consumer is stopped."""
    async for record in consumer:
        to[(record.key or b"").decode()] = record.value or b""


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    web.run_app(make_app(*sys.argv[1:]))
