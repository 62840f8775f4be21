"""ApiVersions, versions nobody speaks, and frames that are no requests."""

from __future__ import annotations

import struct
from typing import Final

from kafka.protocol.metadata import ApiVersionsResponse

from tests.kafka.recorded.client import Said
from tests.kafka.recorded.world import World

#: What an ordinary client asks for: APIs by their keys.
_OURS: Final = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit",
    9: "OffsetFetch", 10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup",
    14: "SyncGroup", 15: "DescribeGroups", 16: "ListGroups", 18: "ApiVersions",
    19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords", 22: "InitProducerId",
    23: "OffsetForLeaderEpoch", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
    28: "TxnOffsetCommit", 32: "DescribeConfigs", 37: "CreatePartitions", 42: "DeleteGroups",
    47: "OffsetDelete", 60: "DescribeCluster", 65: "DescribeTransactions",
    66: "ListTransactions", 68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe",
    75: "DescribeTopicPartitions",
}  # fmt: skip


def _header(api_key: int, version: int, number: int = 7, client_id: bytes = b"me") -> bytes:
    return struct.pack(">hhih", api_key, version, number, len(client_id)) + client_id


def versions_of_the_apis_that_clients_use(world: World) -> None:
    answer = world.ask("ApiVersions", 3, client_software_name="a", client_software_version="1")
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    world.note("ranges", {name: list(ranges.get(key, ())) for key, name in _OURS.items()})
    world.note("error", answer.error_code)


def features_of_the_cluster(world: World) -> None:
    answer = world.ask("ApiVersions", 3, client_software_name="a", client_software_version="1")
    ours = ("group.version", "transaction.version")
    world.note(
        "finalized",
        {
            each.name: [each.min_version_level, each.max_version_level]
            for each in answer.finalized_features
            if each.name in ours
        },
    )
    world.note(
        "supported v3",
        {
            each.name: [each.min_version, each.max_version]
            for each in answer.supported_features
            if each.name in ours
        },
    )
    answer = world.ask("ApiVersions", 4, client_software_name="a", client_software_version="1")
    world.note(
        "supported v4",
        {
            each.name: [each.min_version, each.max_version]
            for each in answer.supported_features
            if each.name in ours
        },
    )


def all_versions_of_api_versions(world: World) -> None:
    for version in range(5):
        answer = world.ask(
            "ApiVersions",
            version,
            f"v{version}",
            client_software_name="a",
            client_software_version="1",
        )
        world.note(f"v{version}", [answer.error_code, len(answer.api_keys) > 30])


def the_name_of_the_client_must_be_well_formed(world: World) -> None:
    for name, version in (("", "1"), ("a b", "1"), ("a", ""), ("-a", "1"), ("a.b-c", "1.0-x")):
        # Read by hand: kafka-python takes every answer with an error for version 0.
        world.send("ApiVersions", 3, client_software_name=name, client_software_version=version)
        frame = world.client.receive_bytes()
        assert isinstance(frame, bytes), frame
        (error_code,) = struct.unpack_from(">h", frame, 4)
        world.note(
            f"{name!r} {version!r}",
            {"error_code": error_code, "the answer in full": frame[4:].hex() if error_code else ""},
        )


def an_unknown_version_of_api_versions_is_answered_in_version_0(world: World) -> None:
    world.client.send_bytes(_header(18, 99) + b"\0")
    frame = world.client.receive_bytes()
    assert isinstance(frame, bytes), frame
    answer = ApiVersionsResponse.decode(frame, version=0, header=True)
    world.note("correlation id", answer.header.correlation_id)
    world.note("error", answer.error_code)
    world.note(
        "apis",
        [
            [api.api_key, api.min_version, api.max_version]
            for api in answer.api_keys
            if api.api_key == 18
        ],
    )
    world.note("the connection goes on", world.ask("ListGroups", 4).error_code)


def _frame_then(world: World, label: str, frame: bytes, size: int | None = None) -> None:
    world.client.send_bytes(frame, label, size=size)
    said = world.client.receive_bytes(label)
    world.note(label, said if isinstance(said, Said) else "an answer")


def versions_that_nobody_speaks_close_the_connection(world: World) -> None:
    _frame_then(world, "Metadata v99", _header(3, 99) + b"\0\0\0\0\0\0")
    _frame_then(world, "Metadata v-1", _header(3, -1) + b"\0\0\0\0")
    _frame_then(world, "Fetch v3", _header(1, 3) + b"\0" * 20)
    _frame_then(world, "Produce v2", _header(0, 2) + b"\0" * 20)
    _frame_then(world, "ListOffsets v0", _header(2, 0) + b"\0" * 20)


def apis_that_nobody_knows_close_the_connection(world: World) -> None:
    _frame_then(world, "key 999", _header(999, 0))
    _frame_then(world, "key -1", _header(-1, 0))
    _frame_then(world, "LeaderAndIsr", _header(4, 0) + b"\0" * 20)


def frames_that_are_no_requests_close_the_connection(world: World) -> None:
    _frame_then(world, "no bytes", b"")
    _frame_then(world, "one byte", b"\0")
    _frame_then(world, "half a header", _header(3, 9)[:9])
    _frame_then(world, "half a body", _header(3, 1) + b"\0\0\0\1\0\5ab")
    _frame_then(world, "negative size", b"", size=-1)
    _frame_then(world, "enormous size", b"", size=2**31 - 1)
    _frame_then(world, "HTTP", b"GET / HTTP/1.1\r\n\r\n", size=int.from_bytes(b"GET ", "big"))


def what_follows_the_body_is_ignored(world: World) -> None:
    # Metadata v1 for no topics, with bytes that nobody asked for.
    _frame_then(world, "ApiVersions v0", _header(18, 0) + b"abc")
    world.note("connection", "open")


def a_client_id_may_be_missing_or_strange(world: World) -> None:
    for label, client_id in (("empty", b""), ("unicode", "ü✓".encode())):
        world.client.send_bytes(_header(16, 0, client_id=client_id), label)
        said = world.client.receive_bytes(label)
        world.note(label, isinstance(said, bytes))
    world.client.send_bytes(struct.pack(">hhih", 16, 0, 7, -1), "null")
    world.note("null", isinstance(world.client.receive_bytes("null"), bytes))


def requests_of_one_connection_are_answered_in_order(world: World) -> None:
    topic = world.topic()
    slow = world.send_fetch(topic, 0, "main", max_wait_ms=300)
    quick = world.send("ListGroups", 4)
    world.note("the fetch comes first", slow.answer())
    world.note("then the other", quick.answer().error_code)


def sasl_on_a_plaintext_listener(world: World) -> None:
    # SaslHandshake v1 for PLAIN, SaslAuthenticate v0: there is nobody to shake hands with.
    for label, request in (
        ("handshake", _header(17, 1) + b"\0\5PLAIN"),
        ("authenticate", _header(36, 0) + b"\0\0\0\0"),
    ):
        world.client.send_bytes(request, label)
        frame = world.client.receive_bytes(label)
        assert isinstance(frame, bytes), frame
        world.note(label, {"error_code": struct.unpack_from(">h", frame, 4)[0]})
