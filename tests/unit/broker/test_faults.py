"""Faults by command: which request gets which, and that a refusal is an answer of the API's own."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from aktor.broker.codes import Code
from aktor.broker.faults import (
    Action,
    Corrupt,
    CorruptRecords,
    Delay,
    Drop,
    FailPartly,
    FailWith,
    Fault,
    FaultError,
    Faults,
    Swallow,
    Throttle,
    Truncate,
    error_response,
    from_json,
    to_json,
)
from aktor.broker.wire import APIS, Api

ACTIONS = [
    FailWith(Code.NOT_COORDINATOR),
    FailPartly(Code.UNSTABLE_OFFSET_COMMIT),
    Delay(1.5),
    Throttle(2.0),
    Drop(),
    Drop(before=False),
    Truncate(10),
    Corrupt(position=3),
    Corrupt(seed=7, count=2),
    CorruptRecords(),
    Swallow(),
]

API_VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]


def faults_with(*rules: Fault) -> Faults:
    faults = Faults()
    for rule in rules:
        faults.add(rule)
    return faults


def asked(faults: Faults, api: str = "Fetch", node: int = 1, request: Any = None) -> Action | None:
    return faults.match(api, node, "client", request)


def a_message(message: Any, version: int) -> Any:
    """With two items in every array, and something in every field."""
    values: dict[str, Any] = {}
    for name, field in message.fields.items():
        if not field.for_version_q(version):
            continue
        if field.is_struct_array():
            values[name] = [a_message(field.data_class, version) for _ in range(2)]
        elif field.is_struct():
            values[name] = a_message(field.data_class, version)
        elif field.is_array():
            values[name] = {"[]string": ["a", "b"], "[]int32": [7, 8]}.get(field.type_str, [])
        else:
            kinds = {"string": "s", "uuid": uuid.UUID(int=3), "bool": True}
            default = 5 if "int" in field.type_str else b""
            values[name] = kinds.get(field.type_str, default)
    return message(**values)


def as_read(request: Any, version: int) -> Any:
    """The request as a broker has it: decoded, defaults where the version has no field."""
    return type(request).decode(request.encode(version=version), version=version)


def codes_in(answer: Any, version: int) -> list[int]:
    found = []
    for name, field in answer.fields.items():
        if field.for_version_q(version):
            if name in ("error_code", "partition_error_code"):
                found.append(getattr(answer, name))
            elif field.is_struct_array():
                for item in getattr(answer, name):
                    found += codes_in(item, version)
    return found


# -- which requests


def test_a_fault_strikes_as_often_as_it_was_told_and_then_is_gone() -> None:
    faults = faults_with(Fault(api="Fetch", times=2, action=Swallow()))

    assert [asked(faults) for _ in range(3)] == [Swallow(), Swallow(), None]
    assert faults.rules() == {}


def test_a_fault_lets_by_as_many_as_it_was_told() -> None:
    faults = faults_with(Fault(api="Fetch", after=2, action=Swallow()))

    assert [asked(faults) for _ in range(4)] == [None, None, Swallow(), None]


def test_a_fault_without_times_strikes_for_ever_until_it_is_removed() -> None:
    faults = Faults()
    number = faults.add(Fault(times=None, action=Swallow()))

    assert [asked(faults) for _ in range(20)] == [Swallow()] * 20
    assert faults.remove(number)
    assert not faults.remove(number)
    assert asked(faults) is None


def test_requests_that_do_not_fit_are_not_counted() -> None:
    faults = faults_with(
        Fault(api="JoinGroup", node=2, client_id="client", after=1, action=Drop()),
    )

    assert asked(faults, "Fetch", 2) is None
    assert asked(faults, "JoinGroup", 1) is None
    assert faults.match("JoinGroup", 2, "other") is None
    assert faults.match("JoinGroup", 2, None) is None
    assert [asked(faults, "JoinGroup", 2) for _ in range(3)] == [None, Drop(), None]


def test_of_several_faults_that_fit_the_oldest_acts() -> None:
    faults = faults_with(
        Fault(api="Fetch", after=1, action=Delay(1)),
        Fault(action=Delay(2)),
        Fault(api="Fetch", times=None, action=Delay(3)),
    )

    assert [asked(faults) for _ in range(3)] == [Delay(2), Delay(1), Delay(3)]


def test_the_listing_says_what_is_left_of_each_rule() -> None:
    faults = faults_with(
        Fault(api="Fetch", times=3, action=Swallow()), Fault(api="JoinGroup", action=Drop())
    )
    asked(faults)

    assert faults.rules() == {
        1: Fault(api="Fetch", times=2, action=Swallow()),
        2: Fault(api="JoinGroup", action=Drop()),
    }
    faults.clear()
    assert faults.rules() == {}


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("Heartbeat", HeartbeatRequest(group_id="g")),
        (
            "OffsetFetch",
            OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")]),
        ),
        ("FindCoordinator", FindCoordinatorRequest(key="g", key_type=0)),
        ("FindCoordinator", FindCoordinatorRequest(key_type=0, coordinator_keys=["x", "g"])),
    ],
)
def test_a_fault_of_a_group_fits_requests_about_it(api: str, request_: Any) -> None:
    rule = Fault(group="g", times=None, action=Swallow())

    assert asked(faults_with(rule), api, request=request_) == Swallow()
    other = Fault(group="other", action=Swallow())
    assert asked(faults_with(other), api, request=request_) is None


def test_a_fault_of_a_group_fits_no_request_about_something_else() -> None:
    faults = faults_with(Fault(group="g", action=Swallow()))

    assert asked(
        faults, "FindCoordinator", request=FindCoordinatorRequest(key="g", key_type=1)
    ) is (None)
    assert asked(faults, "Metadata", request=MetadataRequest(topics=None)) is None
    assert asked(faults, "Heartbeat") is None


def test_a_fault_of_new_versions_fits_no_older_ones() -> None:
    faults = faults_with(Fault(api="ApiVersions", above=3, times=None, action=Drop()))

    assert faults.match("ApiVersions", 1, None, version=4) == Drop()
    assert faults.match("ApiVersions", 1, None, version=3) is None


# -- what makes no sense


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"api": "Fecth"}, "there is no API 'Fecth'; did you mean 'Fetch'?"),
        ({"api": "joingroup"}, "there is no API 'joingroup'; did you mean 'JoinGroup'?"),
        ({"api": "qqqqq"}, "there is no API 'qqqqq'; there are Produce, Fetch, "),
        ({"api": 1}, "there is no API 1"),
        ({"times": 0}, "times must be at least 1, or None for ever, not 0"),
        ({"times": "3"}, "times must be at least 1"),
        ({"after": -1}, "after must be 0 or more, not -1"),
        ({"node": "1"}, "node must be the id of a broker, not '1'"),
        ({"group": 5}, "group must be a string, not 5"),
        ({"above": "3"}, "above must be a version, -1 for all, not '3'"),
        ({"action": "Drop()"}, "action must be one of FailWith, FailPartly, Delay, "),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError) as refused:
        Fault(**{"action": Swallow(), **wrong})

    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        (FailWith, {"code": Code.NONE}),
        (FailWith, {"code": 16}),
        (FailPartly, {"code": Code.NONE}),
        (Throttle, {"seconds": -1}),
        (Delay, {"seconds": -1}),
        (Delay, {"seconds": float("inf")}),
        (Delay, {"seconds": "1"}),
        (Drop, {"before": 1}),
        (Truncate, {"keep": -1}),
        (Corrupt, {"position": -1}),
        (Corrupt, {"count": 0}),
        (Corrupt, {"seed": None}),
    ],
)
def test_an_action_that_makes_no_sense_is_refused(
    action: type[Any], arguments: dict[str, Any]
) -> None:
    with pytest.raises(FaultError, match=f"{action.__name__} wants"):
        action(**arguments)


# -- as JSON


@pytest.mark.parametrize("action", ACTIONS, ids=repr)
def test_a_fault_comes_back_from_json(action: Action) -> None:
    fault = Fault(
        api="Fetch",
        node=2,
        client_id="c",
        group="g",
        above=3,
        times=None,
        after=3,
        action=action,
    )

    assert from_json(json.loads(json.dumps(to_json(fault)))) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"action": "Swallow"}', Fault(action=Swallow())),
        (
            '{"api": "Fetch", "action": {"type": "FailWith", "code": "NOT_COORDINATOR"}}',
            Fault(api="Fetch", action=FailWith(Code.NOT_COORDINATOR)),
        ),
        (
            '{"times": 5, "action": {"type": "FailWith", "code": 16}}',
            Fault(times=5, action=FailWith(Code.NOT_COORDINATOR)),
        ),
        (
            '{"action": {"type": "Drop", "before": false}}',
            Fault(action=Drop(before=False)),
        ),
    ],
)
def test_json_may_leave_out_what_has_a_default(text: str, fault: Fault) -> None:
    assert from_json(json.loads(text)) == fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a fault must be a JSON object, not []"),
        ("{}", "a fault needs an action: one of FailWith, FailPartly, "),
        ('{"action": "Swalow"}', "there is no action 'Swalow'; did you mean 'Swallow'?"),
        ('{"action": 5}', "there is no action None; there are FailWith, "),
        ('{"action": {"type": ["Drop"]}}', "there is no action ['Drop']"),
        ('{"action": "FailWith"}', "FailWith needs code"),
        ('{"action": "Drop", "apis": "Fetch"}', "a fault has no 'apis'; did you mean 'api'?"),
        (
            '{"action": {"type": "Delay", "second": 1}}',
            "Delay has no 'second'; did you mean 'seconds'?",
        ),
        (
            '{"action": {"type": "FailWith", "code": "NOT_COORDINATR"}}',
            "there is no error code 'NOT_COORDINATR'; did you mean 'NOT_COORDINATOR'?",
        ),
        ('{"action": {"type": "FailWith", "code": 999}}', "there is no error code 999"),
        ('{"action": {"type": "FailWith", "code": 0}}', "FailWith wants an error code of Kafka"),
        ('{"action": {"type": "FailWith", "code": []}}', "there is no error code []"),
        ('{"action": "Drop", "times": []}', "times must be at least 1"),
    ],
)
def test_json_that_makes_no_sense_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(FaultError) as refused:
        from_json(json.loads(text))

    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


# -- answers


def test_an_answer_that_fails_partly_does_so_for_its_last_partition() -> None:
    partition = OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics
    one, other = (
        partition.OffsetFetchResponsePartitions(partition_index=index, committed_offset=7)
        for index in range(2)
    )
    topics = [partition(name="orders", partitions=[one, other])]
    group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=topics)

    FailPartly(Code.UNSTABLE_OFFSET_COMMIT).apply(OffsetFetchResponse(groups=[group]))

    assert (one.error_code, one.committed_offset) == (0, 7)
    assert (other.error_code, other.committed_offset) == (Code.UNSTABLE_OFFSET_COMMIT, -1)


def test_records_that_are_corrupted_are_those_of_the_last_partition_that_has_some() -> None:
    topic = FetchResponse.FetchableTopicResponse
    records = [b"abc", b"abc", b"", None]
    partitions = [
        topic.PartitionData(partition_index=n, records=one) for n, one in enumerate(records)
    ]

    CorruptRecords().apply(FetchResponse(responses=[topic(topic="orders", partitions=partitions)]))

    assert [one.records for one in partitions] == [
        b"abc",
        b"ab" + bytes([0xFF ^ ord("c")]),
        b"",
        None,
    ]


def test_an_answer_without_records_is_not_corrupted() -> None:
    CorruptRecords().apply(HeartbeatResponse(error_code=0))


def test_an_answer_about_one_thing_fails_as_a_whole() -> None:
    answer = HeartbeatResponse(error_code=0)

    FailPartly(Code.REBALANCE_IN_PROGRESS).apply(answer)

    assert answer.error_code == Code.REBALANCE_IN_PROGRESS


# -- frames


def test_a_truncated_frame_ends_where_it_was_told_to() -> None:
    assert Truncate(6).apply(b"\0\0\0\x06abcdef") == b"\0\0\0\x06ab"
    assert Truncate(0).apply(b"\0\0\0\x06abcdef") == b""
    assert Truncate(99).apply(b"\0\0\0\x06abcdef") == b"\0\0\0\x06abcdef"


def test_a_corrupted_byte_is_the_one_that_was_named() -> None:
    frame = b"\0\0\0\x03\x00\x0f\xff"

    assert Corrupt(position=1).apply(frame) == b"\0\0\0\x03\x00\xf0\xff"
    assert Corrupt(position=99).apply(frame) == b"\0\0\0\x03\x00\x0f\x00"


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_corrupts_the_same_bytes_each_time_and_never_the_length(seed: int) -> None:
    frame = b"\0\0\0\x14" + bytes(20)
    corrupt = Corrupt(seed=seed, count=5)

    corrupted = corrupt.apply(frame)

    assert corrupted == corrupt.apply(frame)
    assert corrupted[:4] == frame[:4]
    assert sum(a != b for a, b in zip(corrupted, frame, strict=True)) == 5


def test_a_frame_too_short_to_corrupt_stays_as_it_is() -> None:
    assert Corrupt(seed=1).apply(b"\0\0\0\0") == b"\0\0\0\0"
    assert Corrupt(seed=1, count=9).apply(b"\0\0\0\x01a")[4:] != b"a"


# -- the answer that says no


@pytest.mark.few_cases
@pytest.mark.parametrize(("api", "version"), API_VERSIONS)
def test_every_api_can_be_refused_in_every_version(api: Api, version: int) -> None:
    request = as_read(a_message(api.request, version), version)

    answer = error_response(request, version, Code.NOT_COORDINATOR)

    codes = codes_in(answer, version)
    assert codes
    assert set(codes) == {Code.NOT_COORDINATOR}
    encoded = answer.encode(version=version)
    if api.name != "ApiVersions":  # of which kafka-python reads a refusal as version 0
        assert codes_in(api.response.decode(encoded, version=version), version) == codes


@pytest.mark.few_cases
@pytest.mark.parametrize(("api", "version"), API_VERSIONS)
def test_a_code_of_a_partition_is_said_in_every_api(api: Api, version: int) -> None:
    request = as_read(a_message(api.request, version), version)

    answer = error_response(request, version, Code.NOT_LEADER_OR_FOLLOWER)

    assert Code.NOT_LEADER_OR_FOLLOWER in codes_in(answer, version)


def test_a_refused_fetch_names_each_partition_that_was_asked_for() -> None:
    topic_id = uuid.UUID(int=9)
    topic = FetchRequest.FetchTopic(
        topic_id=topic_id,
        partitions=[
            FetchRequest.FetchTopic.FetchPartition(partition=index, log_start_offset=7)
            for index in (0, 3)
        ],
    )
    request = FetchRequest(topics=[topic], session_id=5)

    answer = error_response(request, 17, Code.NOT_LEADER_OR_FOLLOWER)

    assert answer.error_code == 0
    assert [one.topic_id for one in answer.responses] == [topic_id]
    assert [
        (one.partition_index, one.error_code, one.high_watermark, one.log_start_offset, one.records)
        for one in answer.responses[0].partitions
    ] == [(0, 6, -1, -1, b""), (3, 6, -1, -1, b"")]


def test_a_fetch_that_names_no_partition_is_refused_as_a_whole() -> None:
    request = FetchRequest(topics=[], session_id=5, session_epoch=2)

    answer = error_response(request, 17, Code.NOT_LEADER_OR_FOLLOWER)

    assert (answer.error_code, answer.responses) == (6, [])


def test_a_refused_commit_names_each_partition() -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            topic(
                name="orders",
                partitions=[
                    topic.OffsetCommitRequestPartition(partition_index=2, committed_offset=41)
                ],
            )
        ],
    )

    answer = error_response(request, 8, Code.REBALANCE_IN_PROGRESS)

    (refused,) = answer.topics
    assert refused.name == "orders"
    assert [(one.partition_index, one.error_code) for one in refused.partitions] == [(2, 27)]


def test_a_refused_offset_fetch_of_all_topics_is_refused_by_group() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(groups=[group(group_id="g", topics=None)])

    answer = error_response(request, 9, Code.UNSTABLE_OFFSET_COMMIT)

    assert [(one.group_id, one.error_code, one.topics) for one in answer.groups] == [("g", 88, [])]


def test_unstable_offsets_are_said_of_partitions_and_not_of_their_group() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [group.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(groups=[group(group_id="g", topics=topics)])

    answer = error_response(request, 9, Code.UNSTABLE_OFFSET_COMMIT)

    assert answer.groups[0].error_code == 0
    assert [
        (one.partition_index, one.error_code, one.committed_offset)
        for one in answer.groups[0].topics[0].partitions
    ] == [(0, 88, -1), (1, 88, -1)]


def test_a_refused_look_up_names_each_key_and_no_broker() -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])

    answer = error_response(request, 4, Code.COORDINATOR_NOT_AVAILABLE)

    assert [
        (one.key, one.error_code, one.node_id, one.host, one.port) for one in answer.coordinators
    ] == [("a", 15, -1, "", -1), ("b", 15, -1, "", -1)]
