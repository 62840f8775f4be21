"""FastAPI: a consumer that lives as long as the application, and a probe that looks at it.

KAFKA=localhost:9092 fastapi run examples/with_fastapi.py
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI, HTTPException

from examples.background_reader import BackgroundReader
from examples.health_check import ready

reader = BackgroundReader(
    print, "orders", bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"), group_id="billing"
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Uvicorn handles SIGTERM, and then comes here once more."""
    await anyio.to_thread.run_sync(reader.start)  # both wait for Kafka: not on the event loop
    yield
    await anyio.to_thread.run_sync(reader.stop)


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
def is_ready() -> str:
    """503 while no records are read. (A `def`, and no `async def`: status() may wait a second.)"""
    status = reader.status()
    trouble = str(reader.error or "") or ("starting" if status is None else ready(status))
    if trouble:
        raise HTTPException(503, trouble)
    return "ok"
