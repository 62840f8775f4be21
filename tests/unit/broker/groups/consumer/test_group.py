"""A consumer group from the first member to the last (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.codes import Code
from tests.unit.broker.groups.consumer.world import Client, ConsumerWorld, a_join, told
from tests.unit.broker.harness import Topics


def test_the_first_member_gets_everything_at_once() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")

    answer = alice.join()

    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (
        "alice",
        2,
        5000,
    )
    assert told(answer) == [0, 1, 2, 3]
    assert world.group.state == "Stable"


def test_a_heartbeat_that_changes_nothing_is_told_nothing_and_writes_nothing() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")
    alice.join()
    puts = world.journal.puts

    answer = alice.beat()

    assert (answer.member_epoch, told(answer)) == (2, None)
    assert world.journal.puts == puts


def test_a_second_member_gets_its_part_when_the_first_has_given_it_up() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()

    assert (told(bob.join()), bob.epoch, world.group.state) == ([], 3, "Reconciling")
    assert (told(alice.beat()), alice.epoch) == ([0, 1], 2)  # revoke first, in the old epoch
    assert (told(alice.hold()), alice.epoch) == (None, 2)  # not yet done
    assert told(bob.beat()) is None  # so nothing for bob
    assert (told(alice.beat()), alice.epoch) == (None, 3)  # given up
    assert told(bob.beat()) == [2, 3]
    assert world.group.state == "Stable"


def test_who_leaves_makes_room_at_once() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    bob.join()
    world.settle(alice, bob)

    answer = alice.leave()

    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("alice", -1, 0)
    assert world.group.state == "Assigning"
    assert told(bob.beat()) == [0, 1, 2, 3]
    bob.leave()
    assert world.group.state == "Empty"


def test_before_v1_a_member_without_an_id_is_given_one() -> None:
    world = ConsumerWorld()
    first, second = world.member(""), world.member("")

    first.join(version=0)
    second.join(version=0)

    assert len(first.id) == len(second.id) == 22
    assert first.id != second.id


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": "\t"}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_senseless_heartbeat_is_refused(fields: dict[str, Any], message: str) -> None:
    world = ConsumerWorld()

    answer = world.ask(**a_join(**fields))

    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, message)
    assert world.group.state == "Empty"
    assert world.kept() is None


def test_an_assignor_that_the_broker_lacks_is_refused_with_those_it_has() -> None:
    world = ConsumerWorld()

    answer = world.ask(**a_join(server_assignor="sticky"))

    assert answer.error_code == Code.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == (
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


def test_a_full_group_takes_no_more_but_keeps_whom_it_has() -> None:
    world = ConsumerWorld(consumer_max_size=1)
    alice = world.member("alice")
    alice.join()

    answer = world.member("bob").join()

    assert answer.error_code == Code.GROUP_MAX_SIZE_REACHED
    assert "maximum capacity of 1 members" in answer.error_message
    assert alice.join().error_code == Code.NONE


def test_a_stranger_with_an_epoch_is_unknown() -> None:
    world = ConsumerWorld()
    world.member("alice").join()

    answer = world.ask(member_id="bob", member_epoch=1)

    assert answer.error_code == Code.UNKNOWN_MEMBER_ID
    assert answer.error_message == "Member bob is not a member of group g."


@pytest.mark.parametrize(("epoch", "relation"), [(9, "greater"), (2, "smaller")])
def test_an_epoch_that_was_never_told_is_fenced(epoch: int, relation: str) -> None:
    world = ConsumerWorld()
    alice = a_member_of_a_changed_group(world, epochs=4)

    answer = world.ask(member_id="alice", member_epoch=epoch, topic_partitions=[])

    assert answer.error_code == Code.FENCED_MEMBER_EPOCH
    assert f"{relation} member epoch ({epoch})" in answer.error_message
    assert f"({alice.epoch})" in answer.error_message


def a_member_of_a_changed_group(world: ConsumerWorld, *, epochs: int) -> Client:
    alice = world.member("alice")
    alice.join()
    while alice.epoch < epochs:
        world.topics.create(f"t{alice.epoch}", 1)
        alice.beat(subscribed_topic_names=["t", f"t{alice.epoch}"])
        alice.beat()
    return alice


def test_the_epoch_before_is_good_enough_if_the_answer_was_lost_and_nothing_is_owned_too_much() -> (
    None
):
    world = ConsumerWorld()
    alice = a_member_of_a_changed_group(world, epochs=3)
    alice.epoch = 2

    assert alice.hold().member_epoch == 3
    alice.epoch = 2
    assert world.ask(member_id="alice", member_epoch=2).error_code == Code.FENCED_MEMBER_EPOCH
    alice.owned[next(iter(alice.owned))] = [0, 99]
    assert alice.hold().error_code == Code.FENCED_MEMBER_EPOCH


def test_who_says_all_of_itself_is_told_all_again() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")
    alice.join()

    answer = alice.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])

    assert told(answer) == [0, 1, 2, 3]


def test_a_topic_that_grows_is_given_out_with_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")
    alice.join()

    world.topics.grow("t", 6)

    assert told(alice.beat()) == [0, 1, 2, 3, 4, 5]
    assert alice.epoch == 3


def test_other_topics_do_not_disturb() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")
    alice.join()

    world.topics.create("other", 3)

    assert (told(alice.beat()), alice.epoch) == (None, 2)


def test_a_deleted_topic_is_given_up_and_one_of_the_same_name_is_another() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")
    alice.join()

    world.topics.delete("t")
    assert (told(alice.beat()), alice.epoch) == ([], 2)
    assert (told(alice.beat()), alice.epoch) == (None, 3)
    world.topics.create("t", 2)

    assert told(alice.beat()) == [0, 1]
    assert alice.partitions == {"t": [0, 1]}
    assert alice.epoch == 4


def test_a_topic_that_is_not_there_yet_is_given_when_it_comes() -> None:
    world = ConsumerWorld(Topics())
    alice = world.member("alice")

    assert told(alice.join()) == []
    world.topics.create("t", 2)

    assert told(alice.beat()) == [0, 1]


def test_who_unsubscribes_gives_up_first() -> None:
    world = ConsumerWorld(Topics(t=2, u=2))
    alice = world.member("alice", topics=["t", "u"])
    alice.join()

    answer = alice.beat(subscribed_topic_names=["u"])

    assert (alice.partitions, answer.member_epoch) == ({"u": [0, 1]}, 2)
    assert alice.beat().member_epoch == 3


def test_the_assignor_with_most_votes_assigns() -> None:
    world = ConsumerWorld(Topics(t=3, u=3))
    votes: list[str | None] = ["range", "range", "uniform"]
    members = [
        world.member(f"m{n}", topics=["t", "u"], assignor=vote) for n, vote in enumerate(votes)
    ]
    for member in members:
        member.join()

    world.settle(*members)

    assert world.group.describe()["assignor_name"] == "range"
    assert [member.partitions for member in members] == [{"t": [n], "u": [n]} for n in range(3)]


def test_who_does_not_give_up_its_partitions_in_time_is_put_out() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice", topics=["t"], rebalance_timeout=10), world.member("bob")
    alice.join()
    bob.join()
    alice.beat()

    world.pass_time(9.9)
    assert alice.hold().error_code == Code.NONE
    world.pass_time(0.2)

    assert alice.hold().error_code == Code.UNKNOWN_MEMBER_ID
    assert told(bob.beat()) == [0, 1, 2, 3]


def test_who_gave_up_in_time_is_not_put_out_later() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice", topics=["t"], rebalance_timeout=10), world.member("bob")
    alice.join()
    bob.join()
    alice.beat()
    alice.beat()

    world.pass_time(20)

    assert alice.beat().error_code == Code.NONE


def test_who_is_not_heard_of_is_put_out_when_its_session_ends_and_not_before() -> None:
    world = ConsumerWorld(consumer_session_timeout=30.0)
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    bob.join()
    world.settle(alice, bob)

    world.pass_time(20)
    bob.beat()
    world.pass_time(9.9)
    assert alice.beat().error_code == Code.NONE
    world.pass_time(30.1)

    assert world.group.state == "Empty"
    assert alice.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_a_refused_heartbeat_does_not_prolong_the_session() -> None:
    world = ConsumerWorld(consumer_session_timeout=30.0)
    alice = world.member("alice")
    alice.join()

    world.pass_time(29)
    assert world.ask(member_id="alice", member_epoch=7).error_code == Code.FENCED_MEMBER_EPOCH
    world.pass_time(2)

    assert world.group.state == "Empty"


def test_with_an_assignment_interval_those_who_join_meanwhile_wait_for_one_assignment() -> None:
    world = ConsumerWorld(consumer_assignment_interval=1.0)
    alice, bob, carol = world.member("alice"), world.member("bob"), world.member("carol")
    alice.join()

    assert (told(bob.join()), bob.epoch, world.group.state) == ([], 2, "Assigning")
    assert carol.join().member_epoch == 2
    assert told(alice.beat()) is None
    world.pass_time(1.0)
    world.settle(alice, bob, carol)

    assert (world.group.group_epoch, world.group.assignment_epoch) == (4, 4)
    assert sorted(len(ps) for m in (alice, bob, carol) for ps in m.told.values()) == [1, 1, 2]


def test_what_is_unsubscribed_is_given_up_though_the_assignment_is_older() -> None:
    world = ConsumerWorld(Topics(t=2, u=2), consumer_assignment_interval=1.0)
    alice = world.member("alice", topics=["t", "u"])
    alice.join()

    alice.beat(subscribed_topic_names=["u"])

    assert (alice.partitions, alice.epoch) == ({"u": [0, 1]}, 2)
    assert (told(alice.beat()), world.group.state) == (None, "Assigning")
    assert alice.partitions == {"u": [0, 1]}


def test_a_group_is_described_with_what_its_members_have_and_shall_have() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    bob.join()
    alice.beat()

    described = world.group.describe()

    assert {key: value for key, value in described.items() if key != "members"} == {
        "group_id": "g",
        "group_state": "Reconciling",
        "group_epoch": 3,
        "assignment_epoch": 3,
        "assignor_name": "uniform",
    }
    first, second = described["members"]
    assert (first.member_id, first.member_epoch, first.member_type) == ("alice", 2, 1)
    assert (first.client_id, first.client_host) == ("c", "/127.0.0.1")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["t"], "")
    assert by_name(first.assignment) == {"t": [0, 1, 2, 3]}  # with what it has still to give up
    assert by_name(first.target_assignment) == {"t": [0, 1]}
    assert (by_name(second.assignment), by_name(second.target_assignment)) == ({}, {"t": [2, 3]})


def by_name(assignment: Any) -> dict[str, list[int]]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


def test_the_group_knows_what_it_is_subscribed_to() -> None:
    world = ConsumerWorld()
    world.member("alice", topics=["t", "missing"]).join()
    world.member("bob", topics=["u"]).join()

    assert world.group.subscribed_topics() == {"t", "u", "missing"}
