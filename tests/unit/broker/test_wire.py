"""Frames to requests, and answers to frames."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import pytest

from aktor.broker.wire import APIS, Api, BadFrameError, read_request, write_response

EVERY_VERSION = [
    (api, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    if not (api.name == "Produce" and version < 3)
]


def named(name: str) -> Api:
    return next(api for api in APIS.values() if api.name == name)


def header(key: int, version: int, client_id: bytes | None = b"app", number: int = 7) -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, number, length) + (client_id or b"")


def frame_of(message: Any, version: int, client_id: str = "app") -> bytes:
    message.API_VERSION = version
    message.with_header(7, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))[4:]


def answered_by_kafka_python(api: Api, version: int) -> bytes:
    response = api.response()
    response.API_VERSION = version
    response.with_header(7)
    return bytes(response.encode(header=True, framed=True))


def refused(frame: bytes) -> str:
    with pytest.raises(BadFrameError) as error:
        read_request(memoryview(frame))
    return str(error.value)


def heartbeat(version: int = 4) -> bytes:
    request = named("Heartbeat").request
    return frame_of(request(group_id="g", generation_id=3, member_id="m"), version)


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("api", "version"), EVERY_VERSION, ids=lambda one: getattr(one, "name", one)
)
def test_every_api_is_read_and_answered_in_every_version(api: Api, version: int) -> None:
    incoming = read_request(memoryview(frame_of(api.request(), version)))

    assert (incoming.api, incoming.version) == (api, version)
    assert (incoming.correlation_id, incoming.client_id) == (7, "app")

    frame = write_response(api, version, 7, api.response())
    assert frame == answered_by_kafka_python(api, version)
    size, number = struct.unpack_from(">ii", frame)
    assert (size, number) == (len(frame) - 4, 7)
    api.response.decode(frame[4:], version=version, header=True)


def test_the_fields_of_a_request_come_through() -> None:
    for version in range(5):
        request = read_request(memoryview(heartbeat(version))).request

        assert (request.group_id, request.generation_id, request.member_id) == ("g", 3, "m")


def test_the_apis_are_in_the_order_of_their_keys() -> None:
    assert list(APIS) == sorted(APIS)
    assert all(key == api.key for key, api in APIS.items())


def test_a_client_may_have_no_name() -> None:
    frame = header(18, 0, None)

    assert read_request(memoryview(frame)).client_id == ""


@pytest.mark.parametrize("size", range(10))
def test_too_few_bytes_are_no_request(size: int) -> None:
    assert "too short" in refused(heartbeat()[:size])


@pytest.mark.parametrize("version", [0, 4])
def test_a_request_that_is_cut_off_anywhere_is_refused(version: int) -> None:
    whole = heartbeat(version)

    for size in range(10, len(whole) - (version == 4)):
        refused(whole[:size])


def test_a_key_that_nobody_knows_is_refused() -> None:
    assert "no API with key 999" in refused(header(999, 0))
    assert "no API with key -1" in refused(header(-1, 0))


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_version_that_is_not_spoken_is_refused_by_name(version: int) -> None:
    assert f"Heartbeat v{version} is not one of v0 to v4" in refused(header(12, version))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_is_announced_from_version_0_on_but_spoken_from_3_on(version: int) -> None:
    assert named("Produce").min_version == 0

    assert "not one of v3" in refused(header(0, version))


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_api_versions_in_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    incoming = read_request(memoryview(header(18, version) + b"what is this"))

    assert (incoming.api.name, incoming.version, incoming.request) == ("ApiVersions", 0, None)
    assert incoming.correlation_id == 7


def test_a_client_id_that_is_no_text_or_too_long_is_refused() -> None:
    assert "not UTF-8" in refused(header(12, 0, b"\xff\xfe"))
    assert "does not fit" in refused(struct.pack(">hhih", 12, 0, 7, 100) + b"app")


def test_tags_in_the_header_that_nobody_knows_are_skipped() -> None:
    whole = heartbeat(4)
    start = len(header(12, 4))
    assert whole[start] == 0, "no tags"
    tags = b"\x02" + b"\x05\x03abc" + b"\xac\x02\x00"

    request = read_request(memoryview(whole[:start] + tags + whole[start + 1 :])).request

    assert (request.group_id, request.member_id) == ("g", "m")


def test_lengths_without_end_are_refused() -> None:
    start = header(12, 4)

    refused(start + b"\xff" * 20)
    refused(start + b"\x00" + b"\xff" * 20)


@pytest.mark.parametrize(
    ("api", "version", "body", "what"),
    [
        ("DeleteTopics", 1, struct.pack(">ii", -1, 0), "topic_names may not be null"),
        ("DeleteTopics", 1, struct.pack(">ihi", 1, -1, 0), "nothing in topic_names may be null"),
        ("Heartbeat", 0, struct.pack(">hih", -1, 1, 0), "group_id may not be null"),
        ("DeleteRecords", 0, struct.pack(">ihi", 1, -1, 0), "name may not be null"),
        ("DeleteRecords", 0, struct.pack(">ih1sii", 1, 1, b"t", -1, 0), "partitions may not be"),
    ],
)
def test_a_null_where_none_may_be_is_refused(
    api: str, version: int, body: bytes, what: str
) -> None:
    assert what in refused(header(named(api).key, version) + body + bytes(4))


def test_a_null_where_one_may_be_is_read() -> None:
    metadata = read_request(memoryview(header(3, 1) + struct.pack(">i", -1))).request
    produce = struct.pack(">hhiih1siii", -1, 1, 1000, 1, 1, b"t", 1, 0, -1)

    assert metadata.topics is None
    (topic,) = read_request(memoryview(header(0, 3) + produce)).request.topic_data
    assert topic.partition_data[0].records is None


def test_an_array_that_claims_to_be_huge_is_refused_at_once() -> None:
    names = struct.pack(">i", 2**31 - 1)

    for key, version in ((3, 1), (15, 0), (42, 0), (20, 1), (9, 1)):
        refused(header(key, version) + names)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_bytes_are_there_is_a_request_or_a_refusal(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(250):
        api, version = rng.choice(EVERY_VERSION)
        frame = bytearray(frame_of(api.request(), version))
        for _ in range(rng.randrange(1, 5)):
            frame[rng.randrange(10, len(frame))] = rng.randrange(256)
        frame += rng.randbytes(rng.randrange(8))

        with contextlib.suppress(BadFrameError):
            incoming = read_request(memoryview(frame))
            assert incoming.request is not None or incoming.api.name == "ApiVersions"
