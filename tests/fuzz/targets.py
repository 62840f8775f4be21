"""What is fuzzed: a function of bytes that must not raise, for each kind of input.

The compiled reader runs beside its twin in Python, of which the fuzzer measures what it has
covered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from aktor.protocol.fetch import (
    MAX_BY_NAME,
    MAX_VERSION,
    MIN_VERSION,
    parse_fetch_response,
)
from aktor.records.extent import extent
from tests.unit.managers.fetch.builders import FetchHarness
from tests.unit.records.builders_hostile import assert_harmless
from tests.unit.records.builders_samples import SAMPLES
from tests.unit.records.building import a_batch, a_marker, lz4_of_kafka, values, with_right_checksum

__all__ = ["CORPUS", "TARGETS", "corpus", "seeds"]

CORPUS: Final = Path(__file__).parent / "corpus"

#: The first byte of an input for `records` says how it is read, by these bits.
_NO_CHECK, _RIGHT_CHECKSUM, _READ_COMMITTED, _IN_THE_MIDDLE = 1, 2, 4, 8


def records(data: bytes) -> None:
    """Record batches: both readers, by rows and by columns, end alike and in a typed error."""
    how, batch = data[0] if data else 0, data[1:]
    if how & _RIGHT_CHECKSUM and len(batch) > 61 and batch[16] == 2:
        size = struct.unpack_from(">i", batch, 8)[0] + 12
        if 61 <= size <= len(batch):
            batch = with_right_checksum(batch[:size]) + batch[size:]
    assert_harmless(
        batch,
        check_crcs=not how & _NO_CHECK,
        read_committed=bool(how & _READ_COMMITTED),
        aborted=[(1, 0)] if how & _READ_COMMITTED else (),
        fetch_offset=8 if how & _IN_THE_MIDDLE else 0,
        max_batch_bytes=1 << 20,
    )
    following, size, *_ = extent(memoryview(batch), 0)
    assert 0 <= size <= len(batch)
    assert following >= 0


def fetch(data: bytes) -> None:
    """The answer to a Fetch, from its bytes on: refused as a whole, or filed by the manager."""
    version = MIN_VERSION + (data[0] if data else 0) % (MAX_VERSION - MIN_VERSION + 1)
    with suppress(ValueError):
        response = parse_fetch_response(memoryview(data[1:]), version)
        ids = {"orders": TOPIC_ID} if version > MAX_BY_NAME else None
        harness = FetchHarness.reading({0: 1, 1: 1}, ids=ids)
        harness.answer(
            harness.the_request(),
            *response.partitions,
            error_code=response.error_code,
            session_id=response.session_id,
            endpoints=response.node_endpoints,
        )
        harness.tick(after=1.0)


#: Of the topic that is read, in versions that name topics by their ids.
TOPIC_ID: Final = UUID(int=7)

#: From this version on an answer says where the new leaders are.
_NAMES_LEADERS: Final = 16

TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {"records": records, "fetch": fetch}


def corpus(target: str) -> Iterator[tuple[str, bytes]]:
    """The inputs that are kept: where fuzzing begins, and what it has found."""
    for path in sorted((CORPUS / target).iterdir()):
        yield path.name, path.read_bytes()


def seeds() -> Iterator[tuple[str, str, bytes]]:
    """Target, name and content of the inputs that are made here."""
    samples = {name.replace(" ", "-"): sample for name, sample in SAMPLES.items()}
    samples["marker"] = a_marker(commit=False, offset=7, producer_id=1)
    samples["two"] = a_batch(values(b"a", b"b")) + a_batch(values(b"c"), base_offset=2)
    samples["lz4-of-kafka"] = a_batch(
        values(b"to be read, to be read", bytes(99)), codec="lz4", compress=lz4_of_kafka
    )
    for name, sample in samples.items():
        how = _READ_COMMITTED if name == "marker" else _RIGHT_CHECKSUM
        yield "records", name, bytes((how,)) + sample
        yield "records", f"{name}-unchecked", bytes((_NO_CHECK | _IN_THE_MIDDLE,)) + sample
    for version in (MIN_VERSION, 7, 11, MAX_BY_NAME, MAX_VERSION):
        answer = _answer(samples["two"], version)
        yield "fetch", f"v{version}", bytes((version - MIN_VERSION,)) + answer


def _answer(batches: bytes, version: int) -> bytes:
    from kafka.protocol.consumer.fetch import FetchResponse

    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    partitions = [
        partition(
            partition_index=index,
            error_code=error_code,
            high_watermark=3,
            last_stable_offset=3,
            log_start_offset=0,
            aborted_transactions=[partition.AbortedTransaction(producer_id=1, first_offset=0)],
            preferred_read_replica=-1,
            records=content,
        )
        for index, error_code, content in ((0, 0, batches), (0, 0, b""), (1, 6, None), (7, 0, b"x"))
    ]
    response = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=7,
        responses=[topic(topic="orders", topic_id=TOPIC_ID, partitions=partitions)],
    )
    if version >= _NAMES_LEADERS:
        partitions[2].current_leader = partition.LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
        response.node_endpoints = [
            FetchResponse.NodeEndpoint(node_id=2, host="b2", port=9092, rack=None)
        ]
    return bytes(response.encode(version=version))
