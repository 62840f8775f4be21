"""Consumer groups of the new protocol (KIP-848), heartbeat by heartbeat."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.consumer import beat as _beat
from tests.kafka.recorded.consumer import describe as _describe
from tests.kafka.recorded.consumer import join_fully as _join_fully
from tests.kafka.recorded.consumer import joining as _joining
from tests.kafka.recorded.consumer import owns as _owns
from tests.kafka.recorded.consumer import topic as _topic
from tests.kafka.recorded.consumer import until_known as _until_known
from tests.kafka.recorded.world import Topic, World


def a_member_joins_beats_and_leaves(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    joined = world.note("join", _beat(world, group, "a", 0, **_joining(topic)))
    _describe(world, "described", group)
    epoch = joined.member_epoch
    world.note("beat", _beat(world, group, "a", epoch))
    world.note(
        "beat with what it owns",
        _beat(world, group, "a", epoch, topic_partitions=_owns(topic, 0, 1)),
    )
    world.note("full beat", _beat(world, group, "a", epoch, **_joining(topic)))
    _describe(world, "described once more", group)
    world.note("leave", _beat(world, group, "a", -1))
    _describe(world, "described at last", group)
    world.note("beat after", _beat(world, group, "a", epoch))


def in_v0_the_broker_names_the_member(world: World) -> None:
    topic, group = _topic(world), world.group()
    joined = world.note("join", _beat(world, group, "", 0, 0, **_joining(topic)))
    world.note("beat", _beat(world, group, joined.member_id, joined.member_epoch, 0))
    other = world.group()
    world.note("join with a name", _beat(world, other, "mine", 0, 0, **_joining(topic)))
    world.note("v1 without a name", _beat(world, other, "", 0, 1, **_joining(topic)))


def the_hand_over_to_a_second_member(world: World) -> None:
    topic, group = _topic(world, 4), world.group()
    first = world.note("a joins", _beat(world, group, "a", 0, **_joining(topic)))
    world.note(
        "a owns all",
        _beat(world, group, "a", first.member_epoch, topic_partitions=_owns(topic, 0, 1, 2, 3)),
    )
    second = world.note("b joins", _beat(world, group, "b", 0, **_joining(topic)))
    _describe(world, "after b joined", group)
    world.note("b beats", _beat(world, group, "b", second.member_epoch))
    told = world.note("a beats", _beat(world, group, "a", first.member_epoch))
    _describe(world, "after a was told", group)
    world.note("a beats before it has revoked", _beat(world, group, "a", told.member_epoch))
    kept = told.assignment.topic_partitions[0].partitions if told.assignment else [0, 1]
    a = world.note(
        "a has revoked",
        _beat(world, group, "a", told.member_epoch, topic_partitions=_owns(topic, *kept)),
    )
    b = world.note("b beats after that", _beat(world, group, "b", second.member_epoch))
    _describe(world, "at last", group)
    world.note("a beats at last", _beat(world, group, "a", a.member_epoch))
    world.note("b beats at last", _beat(world, group, "b", b.member_epoch))
    world.note("b leaves", _beat(world, group, "b", -1))
    world.note("a beats when b has left", _beat(world, group, "a", a.member_epoch))
    _describe(world, "when b has left", group)


def epochs_that_do_not_fit(world: World) -> None:
    topic, group = _topic(world), world.group()
    epoch = _join_fully(world, group, "a", topic).member_epoch
    world.note("greater", _beat(world, group, "a", epoch + 1))
    world.note("much smaller", _beat(world, group, "a", 1 if epoch > 2 else 99))
    world.note("unknown member", _beat(world, group, "b", epoch))
    world.note("unknown group", _beat(world, world.group(), "a", epoch))
    world.note("unknown member leaves", _beat(world, group, "b", -1))
    world.note("still there", _beat(world, group, "a", epoch))
    world.note("-3", _beat(world, group, "a", -3))


def the_previous_epoch_is_good_with_what_was_owned(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    old = _join_fully(world, group, "a", topic)
    # Another topic raises the epoch of the group, and of the member with its next heartbeat.
    more = _topic(world)
    world.note(
        "subscribes to more",
        _beat(world, group, "a", old.member_epoch, subscribed_topic_names=[topic.name, more.name]),
    )
    world.note("the older epoch, nothing said", _beat(world, group, "a", old.member_epoch))
    world.note(
        "the older epoch, as owned",
        _beat(world, group, "a", old.member_epoch, topic_partitions=_owns(topic, 0, 1)),
    )
    world.note(
        "the older epoch, too much owned",
        _beat(world, group, "a", old.member_epoch, topic_partitions=_owns(topic, 0, 1, 2)),
    )


def joining_again_with_epoch_0(world: World) -> None:
    topic, group = _topic(world), world.group()
    _join_fully(world, group, "a", topic)
    world.note("again", _beat(world, group, "a", 0, **_joining(topic)))
    _describe(world, "described", group)


def requests_that_make_no_sense(world: World) -> None:
    topic, group = _topic(world), world.group()
    good = _joining(topic)

    def refused(
        label: str, group: str = group, member: str = "a", epoch: int = 0, **f: Any
    ) -> None:
        world.note(label, _beat(world, group, member, epoch, **{**good, **f}))

    refused("empty group", group="")
    refused("no rebalance timeout", rebalance_timeout_ms=-1)
    refused("rebalance timeout 0", rebalance_timeout_ms=0)
    refused("owned partitions not told", topic_partitions=None)
    refused("partitions owned before joining", topic_partitions=_owns(topic, 0))
    refused("no topics", subscribed_topic_names=None)
    refused("an empty instance", instance_id="")
    refused("an empty rack", rack_id="")
    refused("an unknown assignor", server_assignor="mine")
    refused("an empty assignor", server_assignor="")
    refused("static without instance", epoch=-2)
    _describe(world, "nobody has joined", group)


def assignors_are_chosen_by_vote(world: World) -> None:
    topic, group = _topic(world, 4), world.group()
    world.note("range", _beat(world, group, "a", 0, **_joining(topic, server_assignor="range")))
    _describe(world, "range described", group)
    world.note("uniform", _beat(world, group, "b", 0, **_joining(topic, server_assignor="uniform")))
    world.note(
        "uniform too", _beat(world, group, "c", 0, **_joining(topic, server_assignor="uniform"))
    )
    _describe(world, "two for uniform", group)


def no_subscription_at_all_and_unknown_topics(world: World) -> None:
    topic, group = _topic(world), world.group()
    world.note("empty list", _beat(world, group, "a", 0, **_joining(subscribed_topic_names=[])))
    nowhere = Topic(world.name("nowhere"), uuid.UUID(int=7), 1)
    world.note("unknown topic", _beat(world, group, "b", 0, **_joining(nowhere)))
    world.note("both", _beat(world, group, "c", 0, **_joining(nowhere, topic)))
    _describe(world, "described", group)


def a_subscription_that_changes(world: World) -> None:
    topic, other, group = _topic(world), _topic(world), world.group()
    joined = _join_fully(world, group, "a", topic)
    told = world.note(
        "the other one",
        _beat(
            world,
            group,
            "a",
            joined.member_epoch,
            subscribed_topic_names=[other.name],
            topic_partitions=_owns(topic, 0),
        ),
    )
    revoked = world.note(
        "revoked", _beat(world, group, "a", told.member_epoch, topic_partitions=[])
    )
    world.note("and then", _beat(world, group, "a", revoked.member_epoch))
    _describe(world, "described", group)


def the_same_subscription_again_changes_nothing(world: World) -> None:
    topic, group = _topic(world), world.group()
    epoch = _join_fully(world, group, "a", topic).member_epoch
    world.note("again", _beat(world, group, "a", epoch, subscribed_topic_names=[topic.name]))
    world.note("another rack", _beat(world, group, "a", epoch, rack_id="rack-9"))
    _describe(world, "described", group)


def _topics_named(world: World, *kinds: str) -> list[str]:
    names = [world.name(kind) for kind in kinds]
    world.ask(
        "CreateTopics",
        7,
        timeout_ms=10_000,
        topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names],
    )
    for name in names:
        world.settle(name)
        _until_known(world, name)
    return names


def topics_by_regular_expression(world: World) -> None:
    group = world.group()
    red, _ = _topics_named(world, "red", "blue")
    run = red.removeprefix("red")
    joined = world.note(
        "join",
        _beat(
            world,
            group,
            "a",
            0,
            **_joining(subscribed_topic_names=[], subscribed_topic_regex=f"re.{run}|no.*{run}"),
        ),
    )
    epoch = joined.member_epoch
    answer: Any = joined
    for _ in range(2000):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        answer = _beat(world, group, "a", epoch)
        epoch = answer.member_epoch
    world.note("resolved", [len(each.partitions) for each in answer.assignment.topic_partitions])
    world.note(
        "no longer",
        _beat(
            world,
            group,
            "a",
            epoch,
            subscribed_topic_regex="",
            subscribed_topic_names=[],
        ),
    )


def regular_expressions_that_are_none(world: World) -> None:
    group = world.group()
    for text in ("[", "(?=a)b", "a{1001}", "*", "(?i)ok.*", r"\d+", ""):
        answer = _beat(
            world,
            group,
            f"m{text}",
            0,
            **_joining(subscribed_topic_names=None, subscribed_topic_regex=text),
        )
        world.note(text or "empty", [answer.error_code, answer.error_message is not None])


def static_members_come_back(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    static: dict[str, Any] = {"instance_id": "one"}
    joined = _join_fully(world, group, "a", topic, **static)
    world.note("joined", joined.member_epoch)
    world.note(
        "another while it is there", _beat(world, group, "b", 0, **_joining(topic, **static))
    )
    world.note("leaves for a while", _beat(world, group, "a", -2, **static))
    _describe(world, "gone for a while", group)
    back = world.note(
        "another comes back", _beat(world, group, "b", 0, **_joining(topic, **static))
    )
    world.note("the first one beats", _beat(world, group, "a", joined.member_epoch, **static))
    world.note("the first one leaves", _beat(world, group, "a", -1, **static))
    world.note("the second one beats", _beat(world, group, "b", back.member_epoch, **static))
    _describe(world, "back", group)
    world.note("leaves for good", _beat(world, group, "b", -1, **static))
    _describe(world, "gone", group)
    world.note("an unknown one leaves", _beat(world, group, "c", -2, instance_id="two"))


def offsets_of_members(world: World) -> None:
    topic, group = _topic(world), world.group()
    epoch = _join_fully(world, group, "a", topic).member_epoch

    def commit(label: str, member: str, epoch: int, version: int = 9) -> None:
        one = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        world.see(
            label,
            "OffsetCommit",
            version,
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[{"name": topic.name, "partitions": one}],
        )

    def fetch(label: str, member: str | None, epoch: int) -> None:
        asked = [{"name": topic.name, "partition_indexes": [0]}]
        world.see(
            label,
            "OffsetFetch",
            9,
            groups=[
                {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": asked}
            ],
        )

    commit("a member", "a", epoch)
    commit("newer epoch", "a", epoch + 1)
    commit("older epoch", "a", epoch - 1)
    commit("stranger", "x", epoch)
    commit("nobody", "", -1)
    commit("v8", "a", epoch, 8)
    commit("v8, newer epoch", "a", epoch + 1, 8)
    fetch("a member's fetch", "a", epoch)
    fetch("newer epoch's fetch", "a", epoch + 1)
    fetch("older epoch's fetch", "a", epoch - 1)
    fetch("stranger's fetch", "x", epoch)
    fetch("nobody's fetch", None, -1)
    world.see(
        "delete offsets",
        "OffsetDelete",
        0,
        group_id=group,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    )


def what_the_classic_apis_say_of_it(world: World) -> None:
    topic, group = _topic(world), world.group()
    _join_fully(world, group, "a", topic)
    world.see("describe v5", "DescribeGroups", 5, groups=[group])
    world.see("describe v6", "DescribeGroups", 6, groups=[group])
    listed = world.client.settled("ListGroups", 5).groups
    world.note("list", [each for each in listed if each.group_id == group])
    listed = world.client.settled("ListGroups", 5, types_filter=["Consumer"]).groups
    world.note("list by type", [each for each in listed if each.group_id == group])
    world.see("delete", "DeleteGroups", 2, groups_names=[group])
    world.see(
        "classic join",
        "JoinGroup",
        9,
        group_id=group,
        member_id="",
        protocol_type="x",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[{"name": "range", "metadata": b""}],
    )
    world.see("classic heartbeat", "Heartbeat", 4, group_id=group, member_id="a", generation_id=1)
    world.see(
        "classic sync",
        "SyncGroup",
        5,
        group_id=group,
        member_id="a",
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
    )
    world.see("classic leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": "a"}])
    _describe(world, "after the classic leave", group)


def an_empty_group_is_described_listed_and_deleted(world: World) -> None:
    topic, group = _topic(world), world.group()
    _join_fully(world, group, "a", topic)
    _beat(world, group, "a", -1)
    _describe(world, "empty", group)
    listed = world.client.settled("ListGroups", 5).groups
    world.note("list", [each for each in listed if each.group_id == group])
    world.see("delete", "DeleteGroups", 2, groups_names=[group])
    _describe(world, "deleted", group)


def groups_that_are_no_consumer_groups_are_not_described(world: World) -> None:
    topic, group = _topic(world), world.group()
    one = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    world.ask("OffsetCommit", 9, group_id=group, topics=[{"name": topic.name, "partitions": one}])
    _describe(world, "a group of offsets", group)
    _describe(world, "an unknown group", world.group())
    _describe(world, "no name", "")
    world.note("it becomes a consumer group", _beat(world, group, "a", 0, **_joining(topic)))


def new_partitions_reach_the_members(world: World) -> None:
    topic, group = _topic(world), world.group()
    epoch = _join_fully(world, group, "a", topic).member_epoch
    world.ask(
        "CreatePartitions",
        3,
        timeout_ms=10_000,
        topics=[{"name": topic.name, "count": 2, "assignments": None}],
    )
    world.settle(topic.name, 2)
    answer: Any = None
    for _ in range(2000):
        answer = _beat(world, group, "a", epoch)
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
    world.note("told", answer)


def range_and_uniform_assign(world: World) -> None:
    small, large = _topic(world, 2), _topic(world, 3)
    for assignor in ("range", "uniform"):
        group = world.group()
        epochs = {}
        for member in ("a", "b"):
            answer = _beat(
                world, group, member, 0, **_joining(small, large, server_assignor=assignor)
            )
            epochs[member] = answer.member_epoch
        targets = world.ask("ConsumerGroupDescribe", 1, group_ids=[group]).groups[0].members
        if assignor == "uniform":  # which topic comes first is decided by their random ids
            world.note(
                "uniform: how many",
                {
                    m.member_id: sum(
                        len(t.partitions) for t in m.target_assignment.topic_partitions
                    )
                    for m in sorted(targets, key=lambda each: each.member_id)
                },
            )
            continue
        world.note(
            "range: target",
            {
                m.member_id: [
                    {"topic": t.topic_name, "partitions": t.partitions}
                    for t in m.target_assignment.topic_partitions
                ]
                for m in sorted(targets, key=lambda each: each.member_id)
            },
        )


def a_member_that_does_not_revoke_in_time_is_removed(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    first = _join_fully(world, group, "a", topic, rebalance_timeout_ms=300)
    second = _beat(world, group, "b", 0, **_joining(topic))
    told = world.note("a is told to revoke", _beat(world, group, "a", first.member_epoch))
    answer: Any = second
    for _ in range(10_000):
        answer = _beat(world, group, "b", second.member_epoch)
        if answer.member_epoch != second.member_epoch or answer.assignment is not None:
            break
    world.note("b gets everything", answer)
    world.note("a is gone", _beat(world, group, "a", told.member_epoch))
    _describe(world, "described", group)


def three_members_share_and_one_leaves(world: World) -> None:
    topic, group = _topic(world, 3), world.group()
    epochs = {}
    for member in ("a", "b", "c"):
        epochs[member] = _beat(world, group, member, 0, **_joining(topic)).member_epoch
    # Each says it owns what it was given, until nothing changes any more.
    owned: dict[str, list[int]] = {"a": [0, 1, 2], "b": [], "c": []}
    for _ in range(6):
        for member in ("a", "b", "c"):
            answer = _beat(
                world,
                group,
                member,
                epochs[member],
                topic_partitions=_owns(topic, *owned[member]) if owned[member] else [],
            )
            epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                owned[member] = list(given[0].partitions) if given else []
    world.note("shared", [len(owned[member]) for member in ("a", "b", "c")])
    world.note("epochs", epochs)
    _describe(world, "described", group)
    world.note("a leaves", _beat(world, group, "a", -1))
    for member in ("b", "c"):
        world.note(f"{member} is told", _beat(world, group, member, epochs[member]))


def a_static_member_may_come_back_with_another_subscription(world: World) -> None:
    topic, other, group = _topic(world), _topic(world), world.group()
    static: dict[str, Any] = {"instance_id": "one"}
    _join_fully(world, group, "a", topic, **static)
    _beat(world, group, "a", -2, **static)
    world.note("back", _beat(world, group, "b", 0, **_joining(other, **static)))
    world.note("next", _beat(world, group, "b", 2, **static))
    _describe(world, "described", group)


def a_member_joins_a_group_of_classic_members(world: World) -> None:
    topic, group = _topic(world), world.group()
    joining: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "connect",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }
    member = world.ask("JoinGroup", 9, member_id="", **joining).member_id
    world.ask("JoinGroup", 9, member_id=member, **joining)
    world.note("join", _beat(world, group, "a", 0, **_joining(topic)))
    _describe(world, "described", group)
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": member}])
    world.note("join when it is empty", _beat(world, group, "a", 0, **_joining(topic)))
    _describe(world, "it has become another kind of group", group)


def a_classic_member_joins_an_empty_consumer_group(world: World) -> None:
    topic, group = _topic(world), world.group()
    _join_fully(world, group, "a", topic)
    _beat(world, group, "a", -1)
    joining: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "connect",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }
    member = world.see("first join", "JoinGroup", 9, member_id="", **joining).member_id
    world.see("second join", "JoinGroup", 9, member_id=member, **joining)
    world.see("described", "DescribeGroups", 6, groups=[group])
