"""Records as a decoder is given them, and what it makes of them."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa


class Decoder(Protocol):
    """`AvroValues` and `ProtobufValues`."""

    def columns(self, rows: pa.RecordBatch) -> dict[str, pa.Array]: ...


def rows_of(values: list[bytes | None]) -> pa.RecordBatch:
    """Records of orders-3 from offset 100 on, with these values."""
    count = len(values)
    columns = [
        pa.array(values, pa.binary()),
        pa.array(["orders"] * count).dictionary_encode(),
        pa.array([3] * count, pa.int32()),
        pa.array(range(100, 100 + count), pa.int64()),
    ]
    return pa.record_batch(columns, names=["value", "topic", "partition", "offset"])


def decoded(
    values: list[bytes | None], decoder: Decoder
) -> tuple[list[Any], list[str | None], list[bytes | None]]:
    """The values, their errors, and the bytes of those that have one."""
    found = decoder.columns(rows_of(values))
    for column in found.values():
        column.validate(full=True)
    value, error, raw = (found[name].to_pylist() for name in ("value", "valueError", "rawValue"))
    return value, error, raw
