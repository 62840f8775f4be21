"""Who handles which request, and which broker may be asked."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.call import CLOSE, Call
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.topics import GROUP_OFFSETS, TRANSACTION_STATE
from aktor.broker.wire import APIS, Api
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import a_cluster, ask, send
from tests.unit.broker.harness import NOW

#: What is about a login, and what is only answered when something happens.
LOGIN = ("SaslHandshake", "SaslAuthenticate")

GROUP_REQUESTS = [
    ("JoinGroup", {"group_id": "g"}, 5),
    ("SyncGroup", {"group_id": "g"}, 3),
    ("Heartbeat", {"group_id": "g"}, 4),
    ("LeaveGroup", {"group_id": "g"}, 5),
    ("OffsetDelete", {"group_id": "g"}, 0),
    ("ConsumerGroupHeartbeat", {"group_id": "g", "member_id": "m"}, 0),
    ("OffsetFetch", {"group_id": "g", "topics": None}, 5),
]
TRANSACTION_REQUESTS = [
    ("InitProducerId", {"transactional_id": "t", "transaction_timeout_ms": 1000}, 4),
    ("AddOffsetsToTxn", {"transactional_id": "t", "group_id": "g"}, 3),
    ("EndTxn", {"transactional_id": "t"}, 3),
]


def coordinator_of(cluster: Cluster, topic: str, key: str) -> int:
    node = cluster.coordinator(topic, key)
    assert node is not None
    return node.node_id


def other_than(node: int) -> int:
    return node % 3 + 1


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api in APIS.values()
        for version in (max(api.min_version, 3 * (api.name == "Produce")), api.max_version)
        if api.name not in LOGIN
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_an_empty_request_of_any_api_is_answered_and_nothing_breaks(
    api: Api, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    message = api.request()
    if api.name == "ApiVersions":
        message.client_software_name = message.client_software_version = "1"

    send(a_cluster(), message, version)

    assert not [one for one in caplog.records if "request_failed" in one.getMessage()]


@pytest.mark.parametrize(("api", "fields", "version"), GROUP_REQUESTS)
def test_only_its_coordinator_speaks_for_a_group(api: str, fields: Any, version: int) -> None:
    cluster = a_cluster()
    coordinator = coordinator_of(cluster, GROUP_OFFSETS, "g")

    elsewhere = ask(cluster, request(api, **fields), version, other_than(coordinator))
    there = send(cluster, request(api, **fields), version, node=coordinator)

    assert elsewhere.error_code == Code.NOT_COORDINATOR
    assert there.answer.error_code != Code.NOT_COORDINATOR


@pytest.mark.parametrize(("api", "fields", "version"), TRANSACTION_REQUESTS)
def test_only_its_coordinator_speaks_for_a_transaction(api: str, fields: Any, version: int) -> None:
    cluster = a_cluster()
    coordinator = coordinator_of(cluster, TRANSACTION_STATE, "t")

    elsewhere = ask(cluster, request(api, **fields), version, other_than(coordinator))
    there = ask(cluster, request(api, **fields), version, coordinator)

    assert elsewhere.error_code == Code.NOT_COORDINATOR
    assert there.error_code != Code.NOT_COORDINATOR


def test_where_nobody_coordinates_that_is_said() -> None:
    cluster = a_cluster(brokers=2, replication_factor=1)
    group = next(
        name
        for name in (f"g{number}" for number in range(99))
        if coordinator_of(cluster, GROUP_OFFSETS, name) == 2
    )
    cluster.broker_down(2, NOW)

    answer = ask(cluster, request("Heartbeat", group_id=group, member_id="m"), 4)

    assert answer.error_code == Code.COORDINATOR_NOT_AVAILABLE


def test_any_broker_hands_out_producer_ids_to_who_has_no_transactions() -> None:
    cluster = a_cluster()
    message = request("InitProducerId", transactional_id=None, transaction_timeout_ms=1000)

    answers = [ask(cluster, message, 4, node) for node in (1, 2, 3)]

    assert {one.error_code for one in answers} == {Code.NONE}
    assert len({one.producer_id for one in answers}) == 3


def test_each_broker_lists_the_groups_it_coordinates() -> None:
    cluster = a_cluster()
    for number in range(12):
        group = f"g{number}"
        commit = request(
            "OffsetCommit",
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[
                {
                    "name": "orders",
                    "partitions": [{"partition_index": 0, "committed_offset": 1}],
                }
            ],
        )
        ask(cluster, commit, 8, coordinator_of(cluster, GROUP_OFFSETS, group))

    listed = {
        node: [one.group_id for one in ask(cluster, request("ListGroups"), 4, node).groups]
        for node in (1, 2, 3)
    }

    every = [group for groups in listed.values() for group in groups]
    assert sorted(every) == sorted(f"g{number}" for number in range(12))
    for node, groups in listed.items():
        assert all(coordinator_of(cluster, GROUP_OFFSETS, group) == node for group in groups)


def test_a_login_where_nobody_logs_in_is_refused() -> None:
    cluster = a_cluster()

    handshake = ask(cluster, request_of("SaslHandshake", mechanism="PLAIN"), 1)
    token = ask(cluster, request_of("SaslAuthenticate", auth_bytes=b"x"), 1)

    assert handshake.error_code == token.error_code == Code.ILLEGAL_SASL_STATE


def request_of(name: str, **fields: Any) -> Any:
    api = next(one for one in APIS.values() if one.name == name)
    return api.request(**fields)


def test_a_bug_in_a_handler_is_told_in_kafkas_words_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[Any] = []
    nonsense = request("Metadata", topics=[])
    nonsense.topics = [5]
    call = Call(nonsense, answer=answers.append, version=12, now=NOW)

    a_cluster().receive(call, "Metadata")

    (answer,) = answers
    assert [one.error_code for one in answer.topics] == [Code.UNKNOWN_SERVER_ERROR]
    assert any("broker.request_failed" in one.getMessage() for one in caplog.records)


def test_who_cannot_even_be_refused_is_hung_up_on() -> None:
    answers: list[Any] = []
    nonsense = request("Metadata", topics=[])
    nonsense.topics = 5
    call = Call(nonsense, answer=answers.append, version=12, now=NOW)

    a_cluster().receive(call, "Metadata")

    assert answers == [CLOSE]
