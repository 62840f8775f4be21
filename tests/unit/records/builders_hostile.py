"""That readers return records or raise a typed error, whatever the bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.errors import KafkaError, UnsupportedCodecError

from aktor.errors import BatchTooLargeError, CorruptBatchError
from tests.unit.records.builders_twins import assert_alike, kinds
from tests.unit.records.building import a_reader

EXPECTED = (CorruptBatchError, BatchTooLargeError, UnsupportedCodecError)


def assert_harmless(data: bytes, **how: Any) -> None:
    """Each reader gives records or one of the expected errors, at a place that is asked for."""
    for reader, kind in kinds().items():
        made = a_reader(data, reader=reader, **how)
        _assert_ends(made, partial(made.take, 50), how.get("fetch_offset", 0))
        made = a_reader(data, reader=reader, **how)
        _assert_ends(made, partial(made.fill, kind(100, None)), how.get("fetch_offset", 0))
    assert_alike(data, **how)


def _assert_ends(made: Any, step: Callable[[], Any], offset: int) -> None:
    error = error_of(step)
    if error is None:
        assert made.exhausted
    else:
        assert "orders-3" in str(error)
        assert getattr(error, "offset", offset) >= offset
    assert made.next_offset >= offset


def error_of(step: Callable[[], Any]) -> KafkaError | None:
    try:
        for _ in range(9):
            step()
    except EXPECTED as error:
        return error
    return None
