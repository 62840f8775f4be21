"""A call of the user's code, or of a library of the user's, that must end in time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafka.errors import KafkaTimeoutError

__all__ = ["call_within"]


def call_within(timeout: float, call: Callable[[], None], *, what: str) -> None:
    """Call it on a thread of its own, and wait for its end.

    Such a call knows nothing of our deadline: `KafkaProducer.send` may wait `max_block_ms` for
    metadata, a serializer for a registry. If it is not done in time it goes on in the background,
    and what becomes of it is not known.

    Raises:
        KafkaTimeoutError: `what` was not done within `timeout` seconds.
        What the call raises.
    """
    ended = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="aktor-dead-letter", daemon=True).start()
    if not ended.wait(min(timeout, threading.TIMEOUT_MAX)):
        raise KafkaTimeoutError(f"{what} within {timeout:g} s")
    if errors:
        raise errors.pop()
