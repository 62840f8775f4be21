"""The single records in a batch, for the few times a broker has to look at them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from aktor.broker.log.batches import assemble
from aktor.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)
from aktor.records.codecs import decompress
from aktor.records.faults import CodecUnavailable, Malformed, Oversized
from aktor.records.records import read_varint

__all__ = [
    "UNREADABLE",
    "Headers",
    "Marker",
    "StoredRecord",
    "build_batch",
    "build_marker",
    "marker_in",
    "records_in",
    "with_records",
]

Headers = Sequence[tuple[str, bytes | None]]

#: What may come out of `records_in` for a batch that a client has got past the checks.
UNREADABLE: Final = (Malformed, Oversized, CodecUnavailable)

#: A batch that decompresses to more is left alone: honest ones have 1 MB compressed.
_MAX_BATCH_BYTES: Final = 256 * 1024 * 1024

_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


class StoredRecord(NamedTuple):
    """A record as it is in its batch; `rest` are its bytes from the offset delta on."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    rest: bytes

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, read when they are asked for. Raises Malformed."""
        found = []
        _, pos = _signed(self.rest, 0, 5)
        _, pos = _sized(self.rest, pos)
        _, pos = _sized(self.rest, pos)
        try:
            count, pos = _signed(self.rest, pos, 5)
            for _ in range(count):
                key, pos = _sized(self.rest, pos)
                value, pos = _sized(self.rest, pos)
                found.append(((key or b"").decode(), value))
        except (IndexError, UnicodeDecodeError):
            raise Malformed("the headers of a record are not what they say") from None
        return found


class Marker(NamedTuple):
    """The end of a transaction."""

    commit: bool
    coordinator_epoch: int


def records_in(header: BatchHeader, batch: Buffer) -> list[StoredRecord]:
    """All records of a batch. Raises one of UNREADABLE."""
    payload = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec:
        data = bytes(decompress(header.codec, payload, _MAX_BATCH_BYTES))
    else:
        data = bytes(payload)
    records = []
    pos = 0
    try:
        for _ in range(header.record_count):
            record, pos = _record_at(data, pos)
            records.append(record)
    except IndexError:
        raise Malformed("a record runs beyond its batch") from None
    if pos != len(data):
        raise Malformed("there are bytes after the last record")
    return records


def _record_at(data: bytes, pos: int) -> tuple[StoredRecord, int]:
    length, start = _signed(data, pos, 5)
    end = start + length
    if length < 0 or end > len(data):
        raise Malformed("a record runs beyond its batch")
    timestamp_delta, rest = _signed(data, start + 1, 10)
    offset_delta, pos = _signed(data, rest, 5)
    if offset_delta < 0:
        raise Malformed("a record with a negative offset delta")
    key, pos = _sized(data, pos)
    value, pos = _sized(data, pos)
    if pos > end:
        raise Malformed("a record is not as long as it says")
    return StoredRecord(offset_delta, timestamp_delta, key, value, data[rest:end]), end


def _signed(data: bytes, pos: int, longest: int) -> tuple[int, int]:
    raw, pos = read_varint(data, pos, longest)
    return (raw >> 1) ^ -(raw & 1), pos


def _sized(data: bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = _signed(data, pos, 5)
    if size < 0:
        return None, pos
    return data[pos : pos + size], pos + size


def with_records(
    header: BatchHeader, records: Sequence[StoredRecord], *, delete_horizon: int | None = None
) -> bytearray:
    """The batch with only these records of it, as the cleaner leaves it.

    Offsets, sequence numbers and codec stay. `delete_horizon` in ms becomes its base timestamp.
    """
    attributes, base = header.attributes, header.base_timestamp
    shift = 0
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
        base, shift = delete_horizon, header.base_timestamp - delete_horizon
    newest = max((base + shift + record.timestamp_delta for record in records), default=-1)
    payload: Buffer = b"".join(
        _framed(record.timestamp_delta + shift, record.rest) for record in records
    )
    if not records:
        attributes &= ~(CODEC_MASK | DELETE_HORIZON)
        base, newest = -1, header.max_timestamp
    elif header.codec:
        payload = _compressed(header.codec, payload)
    return assemble(
        payload,
        count=len(records),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base,
        max_timestamp=header.max_timestamp if header.log_append_time else newest,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int = 0,
    timestamps: Sequence[int] | None = None,
    headers: Headers = (),
    codec: int = 0,
    transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """A batch of (key, value)s as a producer sends it.

    All have the same `timestamp` in ms, unless there are `timestamps`.
    """
    pairs = list(records)
    times = [timestamp] * len(pairs) if timestamps is None else list(timestamps)
    base = times[0] if times else -1
    payload: Buffer = b"".join(
        _framed(time - base, _rest(delta, key, value, headers))
        for delta, ((key, value), time) in enumerate(zip(pairs, times, strict=True))
    )
    return assemble(
        _compressed(codec, payload) if codec else payload,
        count=len(pairs),
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        base_timestamp=base,
        max_timestamp=max(times, default=-1),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp: int
) -> bytearray:
    """The control batch that ends a transaction (EndTransactionMarker)."""
    key = _CONTROL_KEY.pack(0, _COMMIT if commit else _ABORT)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return assemble(
        _framed(0, _rest(0, key, value, ())),
        count=1,
        attributes=TRANSACTIONAL | CONTROL,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def marker_in(header: BatchHeader, batch: Buffer) -> Marker | None:
    """What a control batch says, None if it was emptied or is of another kind."""
    try:
        records = records_in(header, batch)
    except UNREADABLE:
        return None
    if not records or records[0].key is None or len(records[0].key) < _CONTROL_KEY.size:
        return None
    _, kind = _CONTROL_KEY.unpack_from(records[0].key)
    value = records[0].value
    if kind not in (_ABORT, _COMMIT) or value is None or len(value) < _MARKER_VALUE.size:
        return None
    return Marker(kind == _COMMIT, _MARKER_VALUE.unpack_from(value)[1])


def _framed(timestamp_delta: int, rest: bytes) -> bytes:
    body = b"\x00" + _varint(timestamp_delta) + rest
    return _varint(len(body)) + body


def _rest(delta: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    parts = [_varint(delta), *_sized_parts(key), *_sized_parts(value), _varint(len(headers))]
    for name, content in headers:
        parts += (*_sized_parts(name.encode()), *_sized_parts(content))
    return b"".join(parts)


def _sized_parts(data: bytes | None) -> tuple[bytes, ...]:
    return (b"\x01",) if data is None else (_varint(len(data)), data)


def _varint(number: int) -> bytes:
    """Zigzag, then 7 bits a byte, the lowest first."""
    raw = (number << 1) ^ (number >> 63)
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _compressed(codec: int, data: Buffer) -> Buffer:
    if codec == 1:
        return gzip.compress(data, mtime=0)
    try:
        import cramjam
    except ImportError:
        raise CodecUnavailable("compressed in a way that needs cramjam") from None
    if codec == 2:
        return _xerial(cramjam, data)
    if codec == 3:
        # The Java client reads frames of independent blocks only (Lz4BlockInputStream).
        lz4 = cramjam.lz4.Compressor(block_linked=False)
        lz4.compress(data)
        return memoryview(lz4.finish())
    return memoryview(cramjam.zstd.compress(data))


def _xerial(cramjam: Any, data: Buffer) -> bytes:
    """Snappy as the Java client has it: a header, then blocks of raw snappy."""
    out = bytearray(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), 32 * 1024):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + 32 * 1024]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)
