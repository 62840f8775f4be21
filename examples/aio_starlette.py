"""Starlette: each client gets the records of a topic from now on, a line each.

KAFKA=localhost:9092 uvicorn examples.aio_starlette:app
curl -N localhost:8000/orders?from=earliest
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from aktor.aio import KafkaConsumer


async def lines(topic: str, begin: str, limit: int) -> AsyncIterator[bytes]:
    """The values, a line each. A client that goes away cancels this: the consumer stops."""
    async with KafkaConsumer(
        topic,
        bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
        auto_offset_reset=begin,
    ) as consumer:
        async for record in consumer:
            yield (record.value or b"") + b"\n"
            limit -= 1
            if not limit:
                return


async def stream(request: Request) -> StreamingResponse:
    """`?from=earliest` begins at the beginning; `?limit=10` ends after ten records."""
    asked = request.query_params
    found = lines(
        request.path_params["topic"], asked.get("from", "latest"), int(asked.get("limit", -1))
    )
    return StreamingResponse(found, media_type="text/plain")


app = Starlette(routes=[Route("/{topic}", stream)])
