"""Record batches to send, sound and unsound, and what a fetched one says of itself."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

__all__ = ["CODECS", "THEN", "batch", "legacy_batch", "patched", "read_batches"]

#: By the number in a batch's attributes.
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

#: Where the fields of a version 2 batch are: offset and format.
_FIELDS: Final = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "first_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "count": (57, ">i"),
}
_CRC_FROM: Final = 21
_OVERHEAD: Final = 12

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20

#: When records were made, unless told otherwise (ms): an hour ago, which is neither so old that
#: the next record would begin a new segment nor within the minute that is called "now".
THEN: Final = (int(time.time()) - 3600) * 1000


def batch(
    *values: bytes | str | None,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    codec: str = "none",
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    **fields: int,
) -> bytes:
    """A batch (version 2) of these values; timestamps are ms, `producer` is (id, epoch).

    `fields` overwrite those of the header (`attributes=0x20`), before the checksum is made.
    """
    builder = DefaultRecordBatchBuilder(
        2, CODECS.index(codec), transactional, *producer, sequence, 1 << 24
    )
    for index, value in enumerate(values):
        key = keys[index] if keys else None
        at = timestamps[index] if timestamps else THEN + index
        data = value.encode() if isinstance(value, str) else value
        builder.append(index, at, key, data, list(headers))
    return patched(bytes(builder.build()), **fields)


def patched(data: bytes, **fields: int) -> bytes:
    """The batch with some fields of its header overwritten, and the checksum made good again."""
    changed = bytearray(data)
    for name, value in fields.items():
        struct.pack_into(_FIELDS[name][1], changed, _FIELDS[name][0], value)
    if "crc" not in fields:
        struct.pack_into(
            ">I", changed, _FIELDS["crc"][0], crc32c.crc32c(bytes(changed[_CRC_FROM:]))
        )
    return bytes(changed)


def legacy_batch(*values: bytes, magic: int = 1) -> bytes:
    """Messages of the formats before Kafka 0.11 (magic 0 or 1)."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, THEN, None, value)
    return bytes(builder.build())


def read_batches(data: bytes | memoryview | None) -> list[dict[str, Any]]:
    """What stands in fetched records, batch by batch; the last one may be cut off."""
    return list(_batches(bytes(data or b"")))


def _batches(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at < len(data):
        if len(data) - at < _OVERHEAD:
            yield {"cut off": True}
            return
        end = at + _OVERHEAD + struct.unpack_from(">i", data, at + 8)[0]
        if end > len(data):
            yield {"cut off": True}
            return
        yield _batch(data[at:end])
        at = end


def _batch(data: bytes) -> dict[str, Any]:
    has = {name: struct.unpack_from(form, data, at)[0] for name, (at, form) in _FIELDS.items()}
    if has["magic"] != 2:
        return {"magic": has["magic"], "bytes": len(data)}
    attributes = has["attributes"]
    said: dict[str, Any] = {
        "base_offset": has["base_offset"],
        "last_offset": has["base_offset"] + has["last_offset_delta"],
        "leader_epoch": has["leader_epoch"],
        "crc": "right" if has["crc"] == crc32c.crc32c(data[_CRC_FROM:]) else "wrong",
    }
    if codec := attributes & _CODEC_MASK:
        said["codec"] = CODECS[codec]
    for name, bit in (("transactional", _TRANSACTIONAL), ("control", _CONTROL)):
        if attributes & bit:
            said[name] = True
    said["timestamp_type"] = "LogAppendTime" if attributes & _LOG_APPEND_TIME else "CreateTime"
    said |= {"first_timestamp": has["first_timestamp"], "max_timestamp": has["max_timestamp"]}
    if has["producer_id"] != -1:
        said |= {n: has[n] for n in ("producer_id", "producer_epoch", "base_sequence")}
    said["records"] = list(_records(data, control=bool(attributes & _CONTROL)))
    return said


def _records(data: bytes, *, control: bool) -> Iterator[dict[str, Any]]:
    for record in DefaultRecordBatch(data):
        said: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
        if control:
            version, kind = struct.unpack_from(">hh", record.key)
            said["marker"] = {0: "abort", 1: "commit"}.get(kind, kind)
            said["marker_version"] = version
            value_version, epoch = struct.unpack_from(">hi", record.value)
            said |= {"value_version": value_version, "coordinator_epoch": epoch}
        else:
            said |= {"key": record.key, "value": record.value}
            if record.headers:
                said["headers"] = [list(header) for header in record.headers]
        yield said
