"""FastAPI: records are handled in the application's event loop; a probe looks at the consumer.

pip install 'fastapi[standard]'
KAFKA=localhost:9092 fastapi run examples/aio_fastapi.py
curl localhost:8000/billed  # how many records were handled
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request

from aktor.aio import ConsumerRecord, KafkaConsumer
from examples.health_check import ready

billed: list[bytes | None] = []


async def bill(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """What is done with one record. It may await databases and other services."""
    await asyncio.sleep(0)
    billed.append(record.value)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Uvicorn handles SIGTERM, and then goes on behind `yield`."""
    async with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        app.state.consumer = consumer
        app.state.reading = asyncio.create_task(consumer.process(bill, concurrency=20))
        yield
    await app.state.reading  # the consumer has stopped: what is finished is committed


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
async def is_ready(request: Request) -> str:
    """503 while no records are read."""
    state = request.app.state
    trouble = "process() has ended" if state.reading.done() else ready(state.consumer.status())
    if trouble:
        raise HTTPException(503, trouble)
    return "ok"


@app.get("/billed")
async def count() -> int:
    """How many records were handled."""
    return len(billed)
