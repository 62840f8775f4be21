"""Record batches built byte by byte, so that any field can be wrong, and kafka-python as judge."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam
from crc32c import crc32c
from kafka.consumer.fetcher import ConsumerRecord, Fetcher, IsolationLevel
from kafka.record import MemoryRecords
from kafka.structs import TopicPartition

from aktor.records.codecs import lz4_header_checksum
from aktor.records.reader import RecordReader

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

Headers = Sequence[tuple[str, bytes | None]]


try:
    from aktor.records import kernel

    READERS: dict[str, Any] = {"python": RecordReader, "compiled": kernel.RecordReader}
except ImportError:  # `test_choice` fails if there is a compiler
    READERS = {"python": RecordReader}

#: Those that must do what the one in Python does.
OTHERS = READERS.keys() - {"python"}

#: Which of them the tests are run with: the last item (see `conftest`).
in_use = [RecordReader]


def a_reader(data: bytes | memoryview, *, reader: str | None = None, **settings: Any) -> Any:
    fetch_offset = settings.pop("fetch_offset", 0)
    made = in_use[-1] if reader is None else READERS[reader]
    return made(data, topic="orders", partition=3, fetch_offset=fetch_offset, **settings)


def take_all(reader: Any, limit: int = 500) -> list[ConsumerRecord]:
    """Everything until the reader is exhausted; its error ends this too."""
    records = []
    while not reader.exhausted:
        records += reader.take(limit)
    return records


def kafka_python_takes(
    data: bytes,
    *,
    fetch_offset: int = 0,
    check_crcs: bool = True,
    read_committed: bool = False,
    aborted: Sequence[tuple[int, int]] = (),
) -> list[ConsumerRecord]:
    """What kafka-python's consumer makes of the same bytes."""
    records = Fetcher.PartitionRecords(
        fetch_offset,
        TopicPartition("orders", 3),
        MemoryRecords(data),
        check_crcs=check_crcs,
        isolation_level=(
            IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        ),
        aborted_transactions=[_Aborted(*transaction) for transaction in aborted],
    )
    taken: list[ConsumerRecord] = []
    while records:
        taken += records.take(500)
    return taken


@dataclass(frozen=True)
class _Aborted:
    producer_id: int
    first_offset: int


def varint(number: int) -> bytes:
    """Zigzag, then 7 bits a byte, the lowest first."""
    return unsigned_varint((number << 1) ^ (number >> 63))


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def a_record(
    delta: int = 0,
    value: bytes | None = b"value",
    *,
    key: bytes | None = None,
    headers: Headers = (),
    timestamp_delta: int = 0,
) -> bytes:
    body = b"\x00" + varint(timestamp_delta) + varint(delta) + sized(key) + sized(value)
    body += varint(len(headers))
    for name, content in headers:
        body += sized(name.encode()) + sized(content)
    return varint(len(body)) + body


def a_batch(
    records: Iterable[bytes] | None = None,
    *,
    base_offset: int = 0,
    codec: str = "none",
    flags: int = 0,
    leader_epoch: int = 5,
    count: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int = 1_700_000_000_999,
    producer_id: int = -1,
    magic: int = 2,
    crc: int | None = None,
    compress: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """A v2 batch; what is not given is right for the records given."""
    encoded = list([a_record()] if records is None else records)
    count = len(encoded) if count is None else count
    payload = (compress or compressor(codec))(b"".join(encoded))
    checked = struct.pack(
        ">hiqqqhii",
        flags | CODECS[codec],
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        -1 if producer_id < 0 else 0,
        -1,
        count,
    )
    checked += payload
    crc = crc32c(checked) if crc is None else crc
    rest = struct.pack(">ibI", leader_epoch, magic, crc) + checked
    return struct.pack(">qi", base_offset, len(rest)) + rest


def values(*contents: bytes) -> list[bytes]:
    """Records with these values at consecutive offsets."""
    return [a_record(delta, content) for delta, content in enumerate(contents)]


def with_right_checksum(batch: bytes) -> bytes:
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def a_marker(*, commit: bool, offset: int, producer_id: int) -> bytes:
    """The control batch which ends a transaction."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    return a_batch(
        [a_record(key=key, value=bytes(6))],
        base_offset=offset,
        flags=CONTROL | TRANSACTIONAL,
        producer_id=producer_id,
    )


def a_message(
    offset: int = 0,
    value: bytes | None = b"value",
    *,
    magic: int = 1,
    key: bytes | None = None,
    flags: int = 0,
    timestamp: int = 1_500_000_000_000,
    crc: int | None = None,
) -> bytes:
    """One message of format v0 or v1."""
    checked = struct.pack(">bb", magic, flags)
    if magic:
        checked += struct.pack(">q", timestamp)
    for part in (key, value):
        checked += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    crc = zlib.crc32(checked) if crc is None else crc
    return struct.pack(">qiI", offset, 4 + len(checked), crc) + checked


def a_wrapper(
    messages: Sequence[bytes], offset: int, *, codec: str = "gzip", flags: int = 0, **fields: Any
) -> bytes:
    """A message with compressed messages in it; `offset` is that of the last of them."""
    value = compressor(codec)(b"".join(messages))
    return a_message(offset, value, flags=flags | CODECS[codec], **fields)


def compressor(codec: str) -> Callable[[bytes], bytes]:
    return _COMPRESSORS[codec]


def xerial(data: bytes, block_size: int = 32 * 1024) -> bytes:
    """Snappy as the Java client writes it: a header, then blocks of raw snappy."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_size):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_size]))
        out += struct.pack(">i", len(block)) + block
    return out


def lz4_of_kafka(data: bytes, block_size: int = 64 * 1024) -> bytes:
    """LZ4 as Kafka's clients write it: a frame of independent blocks without checksums."""
    blocks = []
    for start in range(0, len(data), block_size):
        plain = data[start : start + block_size]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        blocks.append((block, False) if len(block) < len(plain) else (plain, True))
    return lz4_frame_of(blocks, block_size)


def lz4_frame_of(blocks: Iterable[tuple[bytes, bool]], block_size: int = 64 * 1024) -> bytes:
    """A frame of these blocks, each with whether it is stored as it is."""
    header = bytes((0x60, {1 << 16: 0x40, 1 << 18: 0x50, 1 << 20: 0x60, 1 << 22: 0x70}[block_size]))
    out = b"\x04\x22\x4d\x18" + header + bytes((lz4_header_checksum(header),))
    for block, stored in blocks:
        out += struct.pack("<I", len(block) | stored << 31) + block
    return out + bytes(4)


_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "snappy": xerial,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
