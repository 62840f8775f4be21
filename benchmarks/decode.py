"""How fast record batches become `ConsumerRecord`s: kafka-python's way against aktor's.

Both check checksums, decompress, and take 500 records at a time, as `poll` does by default. The
rounds of the two alternate, so that what else the machine does hurts both.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from statistics import median
from typing import Final

import kafka.codec
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from aktor.records import RecordReader
from benchmarks.site import Site
from benchmarks.tables import Table, at_least, ratio, spread

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
RECORD_SIZES: Final = (100, 1000)
BATCH_BYTES: Final = 1024 * 1024
TAKE: Final = 500
ROUNDS: Final = 9

#: What aktor is to reach, in thousand records a second.
TARGETS: Final = {(100, "none"): 6_000, (1000, "none"): 3_000}
TARGET_OF_ONE: Final = 3_000


def tables(site: Site) -> list[Table]:
    """Records a second, for each codec and two sizes, and for batches of one record."""
    rounds = 2 if site.quick else ROUNDS
    rows = []
    for size in RECORD_SIZES:
        for codec in CODECS:
            what = f"{size} B, {codec}"
            if not getattr(kafka.codec, f"has_{codec}", lambda: True)():
                rows.append([what, "kafka-python has no library for it here", "", "", ""])
                continue
            ours, theirs = _compare(_a_batch(CODECS[codec], size), BATCH_BYTES // size, rounds)
            rows.append(_row(what, ours, theirs, TARGETS.get((size, codec))))
    ones = b"".join(_a_batch_of_one(100, offset) for offset in range(5_000))
    rows.append(_row("100 B, batches of one record", *_compare(ones, 5_000, rounds), TARGET_OF_ONE))
    return [
        Table(
            title=(
                f"decode: k records/s, one thread, batches of 1 MiB unless the row says otherwise,"
                f" {TAKE} at a time, "
                f"median (least-most) of {rounds} rounds"
            ),
            columns=["record", "aktor", "kafka-python", "ratio", "target"],
            rows=rows,
        )
    ]


def _row(what: str, ours: list[float], theirs: list[float], target: int | None) -> list[str]:
    aim = at_least(round(median(ours)), target, " k/s") if target is not None else ""
    return [what, spread(ours, 0), spread(theirs, 0), f"{ratio(ours, theirs):.2f}", aim]


def _compare(data: bytes, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Thousand records a second: aktor's, kafka-python's."""
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_rate(_take_all_by_kafka_python, data, count))
        ours.append(_rate(_take_all_by_aktor, data, count))
    return ours, theirs


def _rate(take_all: Callable[[bytes], int], data: bytes, count: int) -> float:
    start = time.perf_counter()
    taken = take_all(data)
    elapsed = time.perf_counter() - start
    assert taken == count, f"took {taken} of {count} records"
    return count / elapsed / 1000


def _take_all_by_kafka_python(data: bytes) -> int:
    partition = TopicPartition("orders", 0)
    records = Fetcher.PartitionRecords(0, partition, MemoryRecords(data), check_crcs=True)
    count = 0
    while records:
        count += len(records.take(TAKE))
    return count


def _take_all_by_aktor(data: bytes) -> int:
    reader = RecordReader(data, topic="orders", partition=0, fetch_offset=0)
    count = 0
    while not reader.exhausted:
        count += len(reader.take(TAKE))
    return count


def _a_batch_of_one(size: int, offset: int) -> bytes:
    builder = MemoryRecordsBuilder(2, 0, 2 * size)
    builder.append(1_700_000_000_000, None, b"v" * size)
    builder.close()
    # The first field of a batch, its offset, is not under the checksum.
    return struct.pack(">q", offset) + bytes(builder.buffer())[8:]


def _a_batch(codec: int, size: int) -> bytes:
    """A batch of JSON values of `size` bytes, without keys and headers."""
    builder = MemoryRecordsBuilder(2, codec, 2 * BATCH_BYTES)
    for number in range(BATCH_BYTES // size):
        start = json.dumps({"id": number, "user": f"u{number * 7919 % 10007}", "note": ""})
        note = f"{number * 2654435761 % 2**32:08x}" * (size // 8)
        value = (start[:-2] + note)[: size - 2] + '"}'
        builder.append(1_700_000_000_000 + number // 10, None, value.encode())
    builder.close()
    return bytes(builder.buffer())
