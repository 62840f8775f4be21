"""The messages of KIP-848, written and read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aktor.protocol.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

TOPIC = UUID(int=0x00112233445566778899AABBCCDDEEFF)
VERSIONS = (0, 1)


def again(message: Any, version: int) -> Any:
    """The message as the other side reads it."""
    return type(message).decode(message.encode(version), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_says_all_it_has_to_say(version: int) -> None:
    topic = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=TOPIC, partitions=[0, 2])
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=3,
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        subscribed_topic_regex="t.*",
        server_assignor="range",
        topic_partitions=[topic],
    )

    read = again(request, version)

    assert (read.group_id, read.member_id, read.member_epoch) == ("g", "m", 3)
    assert (read.instance_id, read.rack_id, read.rebalance_timeout_ms) == ("i", "r", 60_000)
    assert (read.subscribed_topic_names, read.server_assignor) == (["t"], "range")
    assert read.subscribed_topic_regex == (None if version == 0 else "t.*")
    assert [(t.topic_id, t.partitions) for t in read.topic_partitions] == [(TOPIC, [0, 2])]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_heartbeat_leaves_out_is_as_before(version: int) -> None:
    read = again(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), version)

    assert (read.member_epoch, read.rebalance_timeout_ms) == (0, -1)
    assert [
        read.instance_id,
        read.rack_id,
        read.subscribed_topic_names,
        read.subscribed_topic_regex,
        read.server_assignor,
        read.topic_partitions,
    ] == [None] * 6


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_of_nothing_is_not_no_assignment(version: int) -> None:
    kind = ConsumerGroupHeartbeatResponse.Assignment
    topic = kind.TopicPartitions(topic_id=TOPIC, partitions=[7])

    def read(assignment: Any) -> Any:
        return again(ConsumerGroupHeartbeatResponse(assignment=assignment), version).assignment

    assert read(None) is None
    assert read(kind(topic_partitions=[])).topic_partitions == []
    (given,) = read(kind(topic_partitions=[topic])).topic_partitions
    assert (given.topic_id, given.partitions) == (TOPIC, [7])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_is_refused_with_a_reason(version: int) -> None:
    read = again(ConsumerGroupHeartbeatResponse(error_code=110, error_message="stale"), version)

    assert (read.error_code, read.error_message, read.member_id) == (110, "stale", None)


def test_the_bytes_are_those_of_the_protocol() -> None:
    response = ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=2,
        heartbeat_interval_ms=5000,
        assignment=ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[]),
    )

    assert response.encode(1) == bytes.fromhex(
        "00000000"  # throttle time
        "0000"  # error
        "00"  # no message
        "026d"  # member
        "00000002"  # epoch
        "00001388"  # interval
        "01"  # an assignment
        "01"  # of no topics
        "00"  # its tags
        "00"  # tags
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_are_asked_for_by_id(version: int) -> None:
    read = again(
        ConsumerGroupDescribeRequest(group_ids=["a", "b"], include_authorized_operations=True),
        version,
    )

    assert (read.group_ids, read.include_authorized_operations) == (["a", "b"], True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_described_with_its_members(version: int) -> None:
    group = ConsumerGroupDescribeResponse.DescribedGroup
    assignment = group.Member.Assignment
    topic = assignment.TopicPartitions(topic_id=TOPIC, topic_name="t", partitions=[1])
    member = group.Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        assignment=assignment(topic_partitions=[topic]),
        target_assignment=assignment(topic_partitions=[]),
        member_type=1,
    )
    described = group(
        group_id="g",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="uniform",
        members=[member],
    )

    (read,) = again(ConsumerGroupDescribeResponse(groups=[described]), version).groups

    assert (read.group_id, read.group_state, read.assignor_name) == ("g", "Stable", "uniform")
    assert (read.group_epoch, read.assignment_epoch) == (4, 4)
    assert read.authorized_operations == -(2**31)
    (one,) = read.members
    assert (one.member_id, one.instance_id, one.member_epoch) == ("m", None, 4)
    assert one.member_type == (-1 if version == 0 else 1)
    (owned,) = one.assignment.topic_partitions
    assert (owned.topic_id, owned.topic_name, owned.partitions) == (TOPIC, "t", [1])
    assert one.target_assignment.topic_partitions == []


def test_the_messages_are_known_by_kafkas_keys_and_versions() -> None:
    assert {
        kind.name: (kind.API_KEY, kind.valid_versions)
        for kind in (ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest)
    } == {
        "ConsumerGroupHeartbeatRequest": (68, (0, 1)),
        "ConsumerGroupDescribeRequest": (69, (0, 1)),
    }
