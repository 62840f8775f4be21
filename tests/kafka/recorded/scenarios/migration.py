"""Groups in which members of both protocols meet: a group changes its kind while it works."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment as Assignment,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolSubscription as Subscription,
)

from tests.kafka.recorded import consumer
from tests.kafka.recorded.classic import beat, joining, new_id
from tests.kafka.recorded.consumer import join_fully, owns
from tests.kafka.recorded.consumer import topic as _topic
from tests.kafka.recorded.world import Topic, World


class _Classic:
    """A classic member on a connection of its own; it rejoins with what it has."""

    def __init__(self, world: World, group: str, name: str, *topics: Topic, **fields: Any) -> None:
        self.world = world
        self.group = group
        self.name = name
        self.topics = list(topics)
        self.instance: dict[str, str] = {}
        if "group_instance_id" in fields:
            self.instance["group_instance_id"] = fields["group_instance_id"]
        self.protocols = fields.pop("protocols", ["range"])
        self.metadata_version = fields.pop("metadata_version", 3)
        self.fields = fields
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}

    def said(self) -> dict[str, Any]:
        metadata = Subscription(
            version=self.metadata_version,
            topics=[topic.name for topic in self.topics],
            owned_partitions=[
                Subscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in self.owned.items()
            ],
            generation_id=self.generation,
        ).encode()
        protocols = [{"name": name, "metadata": metadata} for name in self.protocols]
        return joining(self.group, self.member_id, protocols=protocols, **self.fields)

    def send_join(self, version: int = 9) -> Any:
        return self.world.send("JoinGroup", version, self.name, **self.said())

    def take(self, answer: Any) -> Any:
        if answer.error_code == 0:
            self.generation = answer.generation_id
        self.member_id = answer.member_id or self.member_id
        return answer

    def join(self, version: int = 9) -> Any:
        return self.take(self.send_join(version).answer())

    def enter(self) -> Any:
        """Join with the detour over MEMBER_ID_REQUIRED."""
        self.join()
        return self.join()

    def send_sync(self, assigned: dict[str, bytes] | None = None, **fields: Any) -> Any:
        return self.world.send(
            "SyncGroup",
            5,
            self.name,
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "protocol_type": "consumer",
                "protocol_name": self.protocols[0],
                "assignments": [
                    {"member_id": m, "assignment": a} for m, a in (assigned or {}).items()
                ],
                **self.instance,
                **fields,
            },
        )

    def sync(self, assigned: dict[str, bytes] | None = None, **fields: Any) -> Any:
        return self.send_sync(assigned, **fields).answer()

    def see_sync(self, label: str, **fields: Any) -> None:
        """Sync, and own what is given."""
        answer = self.sync(**fields)
        given = None
        if answer.assignment:
            self.owned = _read(answer.assignment)
            given = [{"topic": t, "partitions": ps} for t, ps in sorted(self.owned.items())]
            answer.assignment = b""
        self.world.note(label, {"answer": answer, "given": given})

    def beat(self) -> Any:
        return beat(
            self.world, self.group, self.member_id, self.generation, self.name, **self.instance
        )

    def commit(self, topic: Topic, version: int = 8, **fields: Any) -> Any:
        partition = {"partition_index": 0, "committed_offset": 7}
        return self.world.ask(
            "OffsetCommit",
            version,
            self.name,
            **{
                "group_id": self.group,
                "generation_id_or_member_epoch": self.generation,
                "member_id": self.member_id,
                "topics": [{"name": topic.name, "partitions": [partition]}],
                **self.instance,
                **fields,
            },
        )

    def leave(self) -> Any:
        members = [{"member_id": self.member_id, **self.instance}]
        return self.world.ask("LeaveGroup", 5, self.name, group_id=self.group, members=members)


def _read(assignment: bytes) -> dict[str, list[int]]:
    given = Assignment.decode(bytes(assignment)).assigned_partitions
    return {each.topic: sorted(each.partitions) for each in given}


def _assigned(topic: Topic, *partitions: int, user_data: bytes | None = None) -> bytes:
    one = Assignment.TopicPartition(topic=topic.name, partitions=list(partitions))
    made = Assignment(version=0, assigned_partitions=[one], user_data=user_data)
    return bytes(made.encode())


def _alone(world: World, topic: Topic, **fields: Any) -> _Classic:
    """A stable classic group of one, which has all of the topic."""
    member = _Classic(world, world.group(), "one", topic, **fields)
    member.join()
    if member.generation < 0:
        member.join()
    all_of_it = range(topic.partitions)
    answer = member.sync({member.member_id: _assigned(topic, *all_of_it)})
    assert answer.error_code == 0, answer
    member.owned = {topic.name: list(all_of_it)}
    return member


def _new(world: World, group: str, topic: Topic, member: str = "a", **fields: Any) -> Any:
    return consumer.beat(world, group, member, 0, **consumer.joining(topic, **fields))


def _beat(world: World, group: str, epoch: int, member: str = "a", **fields: Any) -> Any:
    return consumer.beat(world, group, member, epoch, **fields)


def _describe(world: World, label: str, group: str) -> None:
    consumer.describe(world, f"{label}, as a consumer group", group)
    world.see(f"{label}, as a classic group", "DescribeGroups", 6, groups=[group])


def _roll(world: World, label: str, group: str) -> None:
    """Of each member the protocol, the epoch, and how many partitions it has and shall have.

    Who gets which is decided by the order of a hash table when several have none.
    """
    described = world.ask("ConsumerGroupDescribe", 1, group_ids=[group]).groups[0]
    members = [
        {
            "member_type": member.member_type,
            "epoch": member.member_epoch,
            "has": _count(member.assignment),
            "target": _count(member.target_assignment),
        }
        for member in described.members
    ]
    world.note(
        label,
        {
            "state": described.group_state,
            "epochs": [described.group_epoch, described.assignment_epoch],
            "members": sorted(members, key=lambda member: sorted(member.items())),
        },
    )


def _count(assignment: Any) -> int:
    return sum(len(topic.partitions) for topic in assignment.topic_partitions)


def a_consumer_joins_a_classic_group(world: World) -> None:
    topic = _topic(world, 4)
    one = _alone(world, topic)
    a = world.note("a joins", _new(world, one.group, topic))
    _describe(world, "then", one.group)
    world.note("the old generation may commit", one.commit(topic))
    world.note("heartbeat", one.beat())
    world.note("sync", one.sync())
    world.note("rejoins, owns all", one.join())
    _describe(world, "rejoined", one.group)
    one.see_sync("is told what it keeps")
    world.note("heartbeat while it revokes", one.beat())
    world.note("a still waits", _beat(world, one.group, a.member_epoch))
    world.note("rejoins, has revoked", one.join())
    one.see_sync("syncs again")
    world.note("heartbeat at last", one.beat())
    world.note("a gets its part", _beat(world, one.group, a.member_epoch))
    _describe(world, "at last", one.group)
    world.note("commit", one.commit(topic))
    world.note("commit in the old generation", one.commit(topic, generation_id_or_member_epoch=1))
    world.note("commit of a newer generation", one.commit(topic, generation_id_or_member_epoch=9))


def a_member_that_owns_nothing_when_it_rejoins_needs_one_round(world: World) -> None:
    topic = _topic(world, 4)
    one = _alone(world, topic, metadata_version=1)
    a = _new(world, one.group, topic)
    one.owned = {}
    world.note("rejoins", one.join())
    one.see_sync("sync")
    world.note("heartbeat", one.beat())
    world.note("a beats", _beat(world, one.group, a.member_epoch))
    world.note("sync again", one.sync())


def a_group_without_consumers_is_a_classic_one_again(world: World) -> None:
    topic = _topic(world, 4)
    one = _alone(world, topic)
    a = _new(world, one.group, topic)
    one.owned = {}
    one.join()
    one.sync()
    _beat(world, one.group, a.member_epoch)
    world.note("a leaves", _beat(world, one.group, -1))
    _describe(world, "then", one.group)
    world.note("a is forgotten", _beat(world, one.group, a.member_epoch))
    world.note("commit", one.commit(topic))
    world.note("heartbeat", one.beat())
    world.note("sync", one.sync())
    world.note("rejoins", one.join())
    world.note("assigns", one.sync({one.member_id: _assigned(topic, 0, 1, 2, 3)}))
    world.note("heartbeat at last", one.beat())
    world.see("stable", "DescribeGroups", 6, groups=[one.group])


def a_group_becomes_classic_before_anybody_rejoined(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    a = _new(world, one.group, topic)
    world.note("a leaves", _beat(world, one.group, -1))
    world.note("a's epoch", a.member_epoch)
    world.see("then", "DescribeGroups", 6, groups=[one.group])
    world.note("heartbeat", one.beat())
    world.note("commit", one.commit(topic))
    world.note("rejoins", one.join())


def a_group_that_changes_twice_forgets_what_a_member_still_has(world: World) -> None:
    # It has both partitions all the time; its target becomes what it was assigned, which is one.
    topic = _topic(world, 2)
    one = _alone(world, topic)
    _new(world, one.group, topic)
    _beat(world, one.group, -1)
    world.note("given away", _new(world, one.group, topic, "b"))
    consumer.describe(world, "then", one.group)
    world.note("heartbeat", one.beat())


def a_classic_member_joins_a_consumer_group(world: World) -> None:
    topic, group = _topic(world, 4), world.group()
    first = join_fully(world, group, "a", topic)
    _beat(world, group, first.member_epoch, topic_partitions=owns(topic, 0, 1, 2, 3))
    one = _Classic(world, group, "one", topic)
    world.note("asks", one.join())
    consumer.describe(world, "nobody came", group)
    world.note("joins", one.join())
    _describe(world, "then", group)
    one.see_sync("sync")
    world.note("heartbeat while it waits", one.beat())
    told = world.note("a is told", _beat(world, group, first.member_epoch))
    world.note("heartbeat while a revokes", one.beat())
    world.note(
        "a has revoked",
        _beat(world, group, told.member_epoch, topic_partitions=owns(topic, 0, 1)),
    )
    world.note("heartbeat when it is free", one.beat())
    world.note("rejoins", one.join())
    one.see_sync("gets its part")
    world.note("heartbeat at last", one.beat())
    world.note("rejoins for nothing", one.join())
    _describe(world, "at last", group)
    world.note("leaves", one.leave())
    world.note("heartbeat after", one.beat())
    consumer.describe(world, "without it", group)


def joins_in_old_versions(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    join_fully(world, group, "a", topic)
    for version in (2, 3, 4, 6):
        one = _Classic(world, group, f"v{version}", topic, metadata_version=0)
        world.note(f"v{version}", one.join(version))
        if version < 4:
            world.see(
                f"heartbeat v{version}",
                "Heartbeat",
                version - 1,
                group_id=group,
                generation_id=one.generation,
                member_id=one.member_id,
            )
            world.see(
                f"leave v{version}",
                "LeaveGroup",
                version - 1,
                group_id=group,
                member_id=one.member_id,
            )


def joins_that_are_refused(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    join_fully(world, group, "a", topic)
    one = _Classic(world, group, "one", topic, protocols=["range", "roundrobin"])
    world.note("joins", one.enter())

    def refused(label: str, **fields: Any) -> None:
        world.see(label, "JoinGroup", 9, **{**one.said(), "member_id": "stranger", **fields})

    metadata = one.said()["protocols"][0]["metadata"]
    refused("another type", protocol_type="connect")
    refused("no type", protocol_type="")
    refused("no protocols", protocols=[])
    refused("other protocols", protocols=[{"name": "sticky", "metadata": metadata}])
    refused("session too short", session_timeout_ms=1)
    refused("an unknown static member", group_instance_id="ghost")
    refused("no metadata", protocols=[{"name": "range", "metadata": b""}])
    refused("bad metadata", protocols=[{"name": "range", "metadata": b"range"}])
    _roll(world, "then", group)
    refused("another name first", protocols=[{"name": "roundrobin", "metadata": metadata}])
    world.note("both must share it", _Classic(world, group, "two", topic).join())


def any_member_id_will_do(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    join_fully(world, group, "a", topic)
    one = _Classic(world, group, "one", topic)
    one.member_id = "stranger"
    world.note("joins", one.join())
    consumer.describe(world, "then", group)


def requests_of_those_who_are_no_classic_members(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    group = one.group
    epoch = _new(world, group, topic).member_epoch
    one.owned = {}
    one.join()
    world.note("wrong generation", beat(world, group, one.member_id, 1))
    world.note("newer generation", beat(world, group, one.member_id, 9))
    world.note("a consumer's heartbeat", beat(world, group, "a", epoch))
    world.note("a stranger's heartbeat", beat(world, group, "stranger", epoch))
    static = {"group_instance_id": "ghost"}
    world.note("a ghost's heartbeat", beat(world, group, one.member_id, epoch, **static))
    world.note("sync of the wrong generation", one.sync(generation_id=1))
    world.note("sync of the consumer", one.sync(member_id="a"))
    world.note("sync of a stranger", one.sync(member_id="stranger"))
    world.note("sync of a ghost", one.sync(group_instance_id="ghost"))
    world.note("sync with another type", one.sync(protocol_type="connect"))
    world.note("sync with another protocol", one.sync(protocol_name="roundrobin"))
    world.note("sync without protocol", one.sync(protocol_name=None))
    world.see(
        "sync in v3",
        "SyncGroup",
        3,
        group_id=group,
        generation_id=one.generation,
        member_id="stranger",
    )
    world.note("commit as the consumer", one.commit(topic, member_id="a"))
    world.note("commit of a stranger", one.commit(topic, member_id="stranger"))
    world.note(
        "commit of nobody", one.commit(topic, 8, member_id="", generation_id_or_member_epoch=-1)
    )


def groups_that_cannot_be_converted(world: World) -> None:
    topic = _topic(world, 2)
    one = _Classic(world, world.group(), "one", topic)
    one.enter()
    one.sync({one.member_id: _assigned(topic, 0, user_data=b"mine")})
    world.note("user data", _new(world, one.group, topic))
    world.note("heartbeat", one.beat())
    one.join()
    one.sync({one.member_id: b"mine"})
    world.note("bad assignment", _new(world, one.group, topic))
    one.join()
    one.sync({one.member_id: b""})
    world.note("no assignment", _new(world, one.group, topic).member_epoch)
    _roll(world, "that will do", one.group)

    group = world.group()
    member_id = new_id(world, group)
    joined = world.ask("JoinGroup", 9, **joining(group, member_id))
    world.note("bad metadata", _new(world, group, topic))
    world.note("heartbeat of the member", beat(world, group, member_id, joined.generation_id))
    world.note("with another epoch", _beat(world, group, 5))
    world.note("leaves", _beat(world, group, -1))


def user_data_in_the_subscription_does_no_harm(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    metadata = Subscription(version=0, topics=[topic.name], user_data=b"mine").encode()
    protocols = [{"name": "mine", "metadata": metadata}]
    member_id = new_id(world, group)
    joined = world.ask("JoinGroup", 9, **joining(group, member_id, protocols=protocols))
    assert joined.error_code == 0
    world.note("a joins", _new(world, group, topic).member_epoch)
    _roll(world, "then", group)


def a_group_is_converted_while_members_join(world: World) -> None:
    topic = _topic(world, 3)
    one = _alone(world, topic)
    two = _Classic(world, one.group, "two", topic)
    two.join()
    waiting = two.send_join()
    world.note("waits", waiting.answer(0.2))
    world.note("a joins", _new(world, one.group, topic))
    world.note("is called again", waiting.answer())
    _roll(world, "then", one.group)
    world.note("the first one's heartbeat", one.beat())
    one.owned = {}
    world.note("the first one rejoins", one.join().generation_id)
    world.note("joins again", two.join().generation_id)
    world.note("its sync", two.sync().error_code)


def a_group_is_converted_while_the_assignment_is_awaited(world: World) -> None:
    topic = _topic(world, 3)
    one = _alone(world, topic)
    two = _Classic(world, one.group, "two", topic)
    two.join()
    waiting = two.send_join()
    world.note("waits", waiting.answer(0.2))
    one.owned = {}
    one.join()
    two.take(waiting.answer())
    syncing = two.send_sync()
    world.note("waits for the assignment", syncing.answer(0.2))
    world.note("a joins", _new(world, one.group, topic).member_epoch)
    world.note("its sync", syncing.answer())
    _roll(world, "then", one.group)
    world.note("the leader's sync", one.sync({one.member_id: _assigned(topic, 0, 1, 2)}))
    world.note("commit", one.commit(topic))
    world.note("the leader's heartbeat", one.beat())
    world.note("rejoins", two.join())
    world.note("syncs", two.sync().error_code)


def a_static_member_changes_its_protocol_and_changes_back(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic, group_instance_id="i")
    world.note("as a consumer", _new(world, one.group, topic, instance_id="i"))
    _describe(world, "converted", one.group)
    world.note("the old one's heartbeat", one.beat())
    world.note("the old one joins", one.join())
    one.member_id, one.generation, one.owned = "", -1, {}
    world.note("as a classic member", one.join())
    _describe(world, "converted back", one.group)
    one.see_sync("sync")
    world.note("heartbeat", one.beat())
    world.note("commit", one.commit(topic))
    world.note("the consumer", _beat(world, one.group, 2, instance_id="i"))


def a_static_member_changes_protocol_and_topics(world: World) -> None:
    topic, other = _topic(world), _topic(world)
    one = _alone(world, topic, group_instance_id="i")
    _new(world, one.group, topic, instance_id="i")
    one.member_id, one.generation, one.owned, one.topics = "", -1, {}, [other]
    world.note("as a classic member", one.join())
    world.see("described", "DescribeGroups", 6, groups=[one.group])
    world.note("heartbeat", one.beat())
    world.note("sync", one.sync())
    world.note("rejoins", one.join())


def a_static_member_among_others_changes_its_protocol(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    join_fully(world, group, "a", topic)
    first = _new(world, group, topic, "b", instance_id="i")
    one = _Classic(world, group, "one", topic, group_instance_id="i")
    world.note("b has", first.member_epoch)
    world.note("joins", one.join())
    _roll(world, "then", group)
    world.note("b", _beat(world, group, first.member_epoch, "b", instance_id="i"))
    one.member_id = ""
    world.note("once more", one.join())
    world.note("heartbeat", one.beat())
    two = _Classic(world, group, "two", topic, group_instance_id="j")
    world.note("another one", two.join())
    world.note("one rejoins", one.join())
    world.note(
        "leaves by its name",
        world.ask(
            "LeaveGroup", 5, group_id=group, members=[{"member_id": "", "group_instance_id": "i"}]
        ),
    )
    _roll(world, "at last", group)


def a_member_id_goes_from_one_protocol_to_the_other(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    _new(world, one.group, topic)
    world.note("as a consumer", _new(world, one.group, topic, one.member_id))
    world.note("heartbeat", one.beat())
    _describe(world, "both are consumers", one.group)
    one.owned = {}
    world.note("joins", one.join())
    _describe(world, "one of each", one.group)


def a_consumer_heartbeat_with_a_classic_members_epoch(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    _new(world, one.group, topic)
    world.note("beat", _beat(world, one.group, 1, one.member_id))
    _describe(world, "then", one.group)


def all_members_become_classic_ones(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    join_fully(world, group, "a", topic)
    one = _Classic(world, group, "one", topic)
    one.member_id = "a"
    world.note("a joins as a classic member", one.join())
    _describe(world, "then", group)
    one.see_sync("sync")
    world.note("heartbeat", one.beat())
    two = _Classic(world, group, "two", topic)
    world.note("another joins", two.enter())
    consumer.describe(world, "two", group)
    world.note("leaves", two.leave())
    _describe(world, "at last", group)


def a_member_that_does_not_rejoin_is_removed(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic, rebalance_timeout_ms=300)
    epoch = _new(world, one.group, topic).member_epoch
    world.note("heartbeat", one.beat())
    _until_alone(world, one.group, epoch)
    world.note("heartbeat after", one.beat())


def a_member_that_does_not_sync_is_removed(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    epoch = join_fully(world, group, "a", topic).member_epoch
    one = _Classic(world, group, "one", topic, rebalance_timeout_ms=300)
    one.enter()
    _until_alone(world, group, epoch)
    world.note("sync after", one.sync())


def a_member_that_is_silent_is_removed(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic, session_timeout_ms=500)
    epoch = _new(world, one.group, topic).member_epoch
    _until_alone(world, one.group, epoch)
    world.note("heartbeat after", one.beat())


def _until_alone(world: World, group: str, epoch: int) -> None:
    """Beat as "a" until it is the only member; described then."""
    for _ in range(10_000):
        epoch = max(epoch, _beat(world, group, epoch).member_epoch)
        answer = world.ask("ConsumerGroupDescribe", 1, group_ids=[group])
        if len(answer.groups[0].members) == 1:
            break
    _beat(world, group, epoch)
    consumer.describe(world, "alone", group)


def the_last_consumer_is_removed(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    epoch = join_fully(world, group, "a", topic, rebalance_timeout_ms=300).member_epoch
    one = _Classic(world, group, "one", topic)
    one.enter()
    one.sync()
    world.note("a is told to revoke", _beat(world, group, epoch))
    for _ in range(10_000):
        if one.beat().error_code != 0:
            break
    world.see("described", "DescribeGroups", 6, groups=[group])
    world.note("rejoins", one.join())


def several_leave_at_once(world: World) -> None:
    topic = _topic(world, 3)
    one = _alone(world, topic)
    _new(world, one.group, topic)
    _new(world, one.group, topic, "b")
    world.see(
        "both consumers and a stranger",
        "LeaveGroup",
        5,
        group_id=one.group,
        members=[{"member_id": "a"}, {"member_id": "b"}, {"member_id": "stranger"}],
    )
    world.see("classic again", "DescribeGroups", 6, groups=[one.group])
    one = _alone(world, topic)
    _new(world, one.group, topic)
    world.see(
        "all",
        "LeaveGroup",
        5,
        group_id=one.group,
        members=[{"member_id": "a"}, {"member_id": one.member_id}],
    )
    _describe(world, "empty", one.group)


def what_the_members_may_commit_and_fetch(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    epoch = _new(world, one.group, topic).member_epoch
    for version in (2, 5, 8, 9):
        world.note(f"commit v{version}", one.commit(topic, version))
    partitions = [{"partition_index": p, "committed_offset": 1} for p in (0, 1, 9)]
    several = [{"name": topic.name, "partitions": partitions}]
    world.note("of several partitions", one.commit(topic, topics=several))
    one.owned = {topic.name: [0, 1]}
    one.join()
    world.note("pending revocation", one.commit(topic))
    one.see_sync("keeps")
    one.join()
    world.note(
        "the generation before",
        one.commit(
            topic,
            generation_id_or_member_epoch=1,
            topics=[
                {
                    "name": topic.name,
                    "partitions": [{"partition_index": p, "committed_offset": 1} for p in (0, 1)],
                }
            ],
        ),
    )

    def fetch(label: str, member: str | None, epoch: int, version: int = 9) -> None:
        asked: dict[str, Any] = {"group_id": one.group, "topics": None}
        if version >= 9:
            asked |= {"member_id": member, "member_epoch": epoch}
        world.see(label, "OffsetFetch", version, groups=[asked])

    fetch("fetch v8", None, -1, 8)
    fetch("fetch", one.member_id, one.generation)
    fetch("fetch of an old generation", one.member_id, 1)
    fetch("fetch of a newer generation", one.member_id, 9)
    fetch("fetch of the consumer", "a", epoch)
    fetch("stale fetch of the consumer", "a", epoch + 1)


def a_commit_is_refused_whole_if_one_partition_is_given_up(world: World) -> None:
    topic, group = _topic(world, 2), world.group()
    first = join_fully(world, group, "a", topic)
    _beat(world, group, first.member_epoch, topic_partitions=owns(topic, 0, 1))
    _new(world, group, topic, "b")
    _beat(world, group, first.member_epoch)
    _beat(world, group, first.member_epoch, topic_partitions=owns(topic, 0))

    def commit(label: str, *partitions: int, metadata: str = "", **fields: Any) -> None:
        asked = [
            {"partition_index": p, "committed_offset": 1, "committed_metadata": metadata}
            for p in partitions
        ]
        world.see(
            label,
            "OffsetCommit",
            9,
            **{
                "group_id": group,
                "generation_id_or_member_epoch": first.member_epoch,
                "member_id": "a",
                "topics": [{"name": topic.name, "partitions": asked}],
                **fields,
            },
        )

    commit("kept", 0)
    commit("given up", 1)
    commit("both", 0, 1)
    commit("with one that is not there", 0, 1, 9)
    commit("too much metadata", 1, metadata="x" * 5000)
    commit("the epoch of now", 0, 1, generation_id_or_member_epoch=first.member_epoch + 1)


def a_consumer_subscribes_to_more_than_the_classic_member(world: World) -> None:
    topic, other = _topic(world, 2), _topic(world, 2)
    one = _alone(world, topic)
    a = world.note("a joins", _new(world, one.group, other))
    one.owned = {}
    world.note("rejoins", one.join())
    one.see_sync("has its topic")
    world.note("a", _beat(world, one.group, a.member_epoch))
    one.topics = [topic, other]
    world.note("wants more", one.join())
    one.see_sync("waits")
    world.note("heartbeat", one.beat())
    one.topics = [other]
    world.note("wants less", one.join())
    one.see_sync("gives up")
    world.note("heartbeat then", one.beat())
    consumer.describe(world, "then", one.group)


def a_topic_that_is_gone_is_not_assigned(world: World) -> None:
    topic = _topic(world, 2)
    one = _Classic(world, world.group(), "one", topic)
    one.enter()
    gone = Topic(world.name("nowhere"), topic.id, 1)
    one.sync({one.member_id: _assigned(gone, 0)})
    world.note("a joins", _new(world, one.group, topic).member_epoch)
    _roll(world, "then", one.group)


def members_of_both_kinds_are_listed(world: World) -> None:
    topic = _topic(world, 2)
    one = _alone(world, topic)
    _listed(world, "classic", one.group)
    _new(world, one.group, topic)
    _listed(world, "consumer", one.group)
    world.see("delete", "DeleteGroups", 2, groups_names=[one.group])
    _beat(world, one.group, -1)
    _listed(world, "classic again", one.group)


def _listed(world: World, label: str, group: str) -> None:
    answer = world.ask("ListGroups", 5, states_filter=[], types_filter=[])
    world.note(label, [each for each in answer.groups if each.group_id == group])
