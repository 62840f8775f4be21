"""The parser of Fetch responses, against kafka-python's and against damaged bytes."""

from __future__ import annotations

import struct
import tracemalloc
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchResponse

from aktor.protocol.fetch import MAX_BY_NAME, NodeEndpoint, parse_fetch_response

VERSIONS = range(4, 19)
ID = uuid.UUID(int=77)
Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData
Aborted = Partition.AbortedTransaction

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)

partitions = st.builds(
    lambda **fields: Partition(**fields),
    partition_index=int32s,
    error_code=st.integers(-1, 129),
    high_watermark=int64s,
    last_stable_offset=int64s,
    log_start_offset=int64s,
    aborted_transactions=st.none()
    | st.lists(
        st.builds(lambda p, o: Aborted(producer_id=p, first_offset=o), int64s, int64s), max_size=3
    ),
    preferred_read_replica=int32s,
    records=st.none() | st.binary(max_size=300),
)
responses = st.builds(
    lambda **fields: FetchResponse(**fields),
    throttle_time_ms=int32s,
    error_code=st.integers(0, 129),
    session_id=int32s,
    responses=st.lists(
        st.builds(
            lambda topic, topic_id, partitions: Topic(
                topic=topic, topic_id=topic_id, partitions=partitions
            ),
            st.text(max_size=20),
            st.uuids(),
            st.lists(partitions, max_size=3),
        ),
        max_size=3,
    ),
)


def encoded(response: Any, version: int) -> memoryview:
    return memoryview(bytes(response.encode(version=version)))


def a_response() -> Any:
    return FetchResponse(
        throttle_time_ms=3,
        error_code=0,
        session_id=7,
        responses=[
            Topic(
                topic="orders",
                topic_id=ID,
                partitions=[
                    Partition(
                        partition_index=0,
                        error_code=0,
                        high_watermark=10,
                        last_stable_offset=9,
                        log_start_offset=2,
                        aborted_transactions=[Aborted(producer_id=4, first_offset=5)],
                        preferred_read_replica=-1,
                        records=b"records",
                    ),
                    Partition(
                        partition_index=1,
                        error_code=6,
                        high_watermark=-1,
                        last_stable_offset=-1,
                        log_start_offset=-1,
                        aborted_transactions=None,
                        preferred_read_replica=2,
                        records=None,
                    ),
                ],
            )
        ],
    )


@pytest.mark.few_cases
@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None, max_examples=40)
@given(response=responses)
def test_it_reads_what_kafka_python_reads(version: int, response: Any) -> None:
    body = encoded(response, version)
    theirs = FetchResponse.decode(bytes(body), version=version)

    ours = parse_fetch_response(body, version)

    assert ours.throttle_time_ms == theirs.throttle_time_ms
    if version >= 7:
        assert (ours.error_code, ours.session_id) == (theirs.error_code, theirs.session_id)
    flat = [(_name(topic, version), one) for topic in theirs.responses for one in topic.partitions]
    assert len(ours.partitions) == len(flat)
    for mine, (topic, other) in zip(ours.partitions, flat, strict=True):
        assert (mine.topic, mine.partition) == (topic, other.partition_index)
        assert mine.error_code == other.error_code
        assert mine.high_watermark == other.high_watermark
        assert mine.last_stable_offset == other.last_stable_offset
        assert mine.log_start_offset == (other.log_start_offset if version >= 5 else -1)
        aborted = [(one.producer_id, one.first_offset) for one in other.aborted_transactions or ()]
        assert list(mine.aborted) == aborted
        replica = other.preferred_read_replica if version >= 11 else -1
        assert mine.preferred_read_replica == replica
        assert bytes(mine.records) == (other.records or b"")


def _name(topic: Any, version: int) -> str | bytes:
    if version <= MAX_BY_NAME:
        return str(topic.topic)
    return bytes(16) if topic.topic_id is None else bytes(topic.topic_id.bytes)


def test_the_records_are_a_view_of_the_response() -> None:
    buffer = bytearray(encoded(a_response(), 12))

    parsed = parse_fetch_response(memoryview(buffer), 12)
    buffer[buffer.index(b"records")] = ord("R")

    assert bytes(parsed.partitions[0].records) == b"Records"


def test_the_new_leader_and_the_diverging_epoch_are_read() -> None:
    response = a_response()
    moved = response.responses[0].partitions[1]
    moved.current_leader = Partition.LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    moved.diverging_epoch = Partition.EpochEndOffset(epoch=5, end_offset=44)

    stays, moves = parse_fetch_response(encoded(response, 12), 12).partitions

    assert (stays.current_leader, stays.diverging_epoch) == (None, None)
    assert (moves.current_leader, moves.diverging_epoch) == ((2, 7), (5, 44))


@pytest.mark.parametrize("version", range(16, 19))
def test_the_addresses_of_the_new_leaders_are_read(version: int) -> None:
    response = a_response()
    endpoint = FetchResponse.NodeEndpoint
    response.node_endpoints = [
        endpoint(node_id=2, host="b2.example", port=9092, rack="east"),
        endpoint(node_id=3, host="b3", port=19092, rack=None),
    ]

    read = parse_fetch_response(encoded(response, version), version)

    assert read.node_endpoints == (
        NodeEndpoint(node_id=2, host="b2.example", port=9092, rack="east"),
        NodeEndpoint(node_id=3, host="b3", port=19092),
    )
    assert parse_fetch_response(encoded(a_response(), version), version).node_endpoints == ()


def test_what_a_later_version_appends_to_an_address_is_skipped() -> None:
    unknown = b"\x01\x63\x03xyz"
    address = struct.pack(">i", 2) + b"\x02h" + struct.pack(">i", 9092) + b"\x00" + unknown
    endpoints = b"\x02" + address + b"more"
    body = struct.pack(">ihi", 0, 0, 1) + b"\x01" + b"\x02\x00" + bytes([len(endpoints)])
    body += endpoints + b"\x63\x01?"

    read = parse_fetch_response(memoryview(body), 16)

    assert read.node_endpoints == (NodeEndpoint(node_id=2, host="h", port=9092),)


def test_unknown_tags_everywhere_and_longer_known_ones_are_skipped() -> None:
    unknown = b"\x01\x63\x03xyz"  # one tag, number 99, three bytes
    leader = struct.pack(">ii", 2, 7) + unknown  # a field that a later version appends
    tags = b"\x02\x01" + bytes([len(leader)]) + leader + b"\x63\x01?"
    aborted = b"\x02" + struct.pack(">qq", 4, 5) + unknown
    partition = struct.pack(">ihqqq", 3, 0, 10, 9, 2) + aborted + struct.pack(">i", -1) + b"\x03ab"
    topic = b"\x02t" + b"\x02" + partition + tags + unknown
    body = struct.pack(">ihi", 0, 0, 1) + b"\x02" + topic + unknown

    (read,) = parse_fetch_response(memoryview(body), 12).partitions

    assert read.current_leader == (2, 7)
    assert read.aborted == ((4, 5),)
    assert bytes(read.records) == b"ab"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_cut_off_anywhere_is_a_value_error(version: int) -> None:
    body = encoded(a_response(), version)

    for end in range(len(body)):
        with pytest.raises(ValueError):
            parse_fetch_response(body[:end], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_after_the_end_are_a_value_error(version: int) -> None:
    body = bytes(encoded(a_response(), version))

    with pytest.raises(ValueError, match="1 bytes after the end"):
        parse_fetch_response(memoryview(body + b"\0"), version)


@pytest.mark.parametrize("version", [3, 19])
def test_a_version_without_isolation_or_of_tomorrow_is_a_value_error(version: int) -> None:
    with pytest.raises(ValueError, match=f"v{version} is not one of"):
        parse_fetch_response(encoded(a_response(), 12), version)


@pytest.mark.few_cases
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("noise", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x07"])
def test_a_huge_or_negative_length_anywhere_is_refused_without_allocating(
    version: int, noise: bytes
) -> None:
    body = bytes(encoded(a_response(), version))

    tracemalloc.start()
    try:
        for at in range(len(body) - len(noise)):
            damaged = body[:at] + noise + body[at + len(noise) :]
            _parses_or_raises_value_error(damaged, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(noise=st.binary(max_size=400))
def test_noise_is_a_value_error_or_a_response(version: int, noise: bytes) -> None:
    _parses_or_raises_value_error(noise, version)


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(data=st.data())
def test_a_flipped_byte_is_a_value_error_or_a_response(version: int, data: Any) -> None:
    body = bytearray(encoded(a_response(), version))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))

    _parses_or_raises_value_error(bytes(body), version)


def test_a_length_of_more_than_five_bytes_is_refused() -> None:
    body = struct.pack(">ihi", 0, 0, 1) + b"\x80" * 5 + b"\x01\x00"

    with pytest.raises(ValueError, match="more than five bytes"):
        parse_fetch_response(memoryview(body), 12)


def _parses_or_raises_value_error(body: bytes, version: int) -> None:
    try:
        parsed = parse_fetch_response(memoryview(body), version)
    except ValueError:
        return
    assert sum(len(one.records) for one in parsed.partitions) <= len(body)
