"""Brokers that come and go, leaders and coordinators that move, time, and restarts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aktor.broker.call import Call
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.log.store import FileStore
from aktor.broker.partition import NO_LEADER
from aktor.broker.topics import GROUP_OFFSETS
from aktor.broker.topology import java_hash
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    ask,
    fetch,
    fetched,
    fetched_code,
    list_offset,
    partition_of,
    pass_time,
    produce,
    produced,
    send,
    write,
)
from tests.unit.broker.harness import NOW, Asked, Journal
from tests.unit.broker.log.building import NOW_MS, a_batch, values

# Settings.


@pytest.mark.parametrize(
    ("partitions", "replication", "code"),
    [
        (0, None, Code.INVALID_PARTITIONS),
        (-1, None, Code.INVALID_PARTITIONS),
        (None, 0, Code.INVALID_REPLICATION_FACTOR),
        (None, 4, Code.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_topic_has_partitions_and_these_have_replicas(
    partitions: int | None, replication: int | None, code: Code
) -> None:
    with pytest.raises(Refused) as refused:
        a_cluster().create_topic("t", partitions, replication)

    assert refused.value.code is code


def test_a_cluster_of_more_than_three_replicates_to_three() -> None:
    assert len(partition_of(a_cluster(brokers=5)).replicas) == 3
    assert len(partition_of(a_cluster(brokers=2)).replicas) == 2


def test_the_same_seed_makes_the_same_cluster() -> None:
    first, second = a_cluster(seed=3), a_cluster(seed=3)

    assert first.topics.topic_id(ORDERS) == second.topics.topic_id(ORDERS)
    assert fetch(first, session=(0, 0)).answer.session_id == (
        fetch(second, session=(0, 0)).answer.session_id
    )


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [
        ("", 0),
        ("group", 98629247),
        ("polygenelubricants", 0),
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_coordinators_are_chosen_as_java_does(text: str, hash_code: int) -> None:
    """Of "polygenelubricants" the hash is the least integer, whose absolute value is none."""
    assert java_hash(text) == hash_code


# Brokers.


def test_a_broker_that_goes_down_hands_its_partitions_over() -> None:
    cluster = a_cluster(topics={ORDERS: 6})

    cluster.broker_down(1, NOW)

    leaders = [partition_of(cluster, ORDERS, index).leader for index in range(6)]
    assert leaders == [2, 2, 3, 2, 2, 3]
    assert [node.node_id for node in cluster.topology.up()] == [2, 3]


def test_a_broker_that_the_controller_does_not_hear_of_answers_what_waits_there() -> None:
    """It runs, and its connections stay open: a client would wait for an answer."""
    cluster = a_cluster()
    by_leader = fetch(cluster, wait=5.0, node=1)
    by_follower = fetch(cluster, wait=5.0, node=2, rack="r")

    cluster.broker_fenced(1, NOW)
    cluster.broker_fenced(2, NOW)
    pass_time(cluster, 5.0)

    assert partition_of(cluster).leader == 3
    assert not by_leader.waits
    assert not by_follower.waits


def test_records_outlive_all_brokers_but_one_and_then_all() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.broker_down(1, NOW)
    write(cluster, b"b")
    cluster.broker_down(2, NOW)
    write(cluster, b"c")
    cluster.broker_down(3, NOW)
    assert (cluster.topology.controller, partition_of(cluster).leader) == (-1, NO_LEADER)

    for node in (1, 2):
        cluster.broker_up(node, NOW)
    assert partition_of(cluster).leader == NO_LEADER

    cluster.broker_up(3, NOW)
    assert values(partition_of(cluster).log) == [b"a", b"b", b"c"]
    assert sorted(partition_of(cluster).isr) == [1, 2, 3]


def test_an_unclean_election_is_only_held_if_it_is_allowed() -> None:
    def after_loss(*, unclean: bool) -> Any:
        cluster = a_cluster(brokers=2, unclean_leader_election=unclean)
        write(cluster, b"a")
        cluster.broker_down(2, NOW)
        write(cluster, b"lost")
        cluster.broker_down(1, NOW)
        cluster.broker_up(2, NOW)
        return partition_of(cluster).leader, values(partition_of(cluster).log)

    assert after_loss(unclean=False) == (NO_LEADER, [b"a", b"lost"])
    assert after_loss(unclean=True) == (2, [b"a"])


@pytest.mark.parametrize("cluster_wide", [False, True])
@pytest.mark.parametrize("of_topic", ["false", "true", None])
@pytest.mark.parametrize("at", ["creation", "run time"])
def test_a_topic_may_allow_or_forbid_unclean_elections(
    of_topic: str | None, cluster_wide: bool, at: str
) -> None:
    cluster = a_cluster(brokers=2, unclean_leader_election=cluster_wide)
    configs = {} if of_topic is None else {"unclean.leader.election.enable": of_topic}
    topic = cluster.make_topic("own", [(1, 2)], configs if at == "creation" else {})
    if at == "run time":
        cluster.topics.configure(topic, configs)

    for node, act in ((2, cluster.broker_down), (1, cluster.broker_down), (2, cluster.broker_up)):
        act(node, NOW)

    allowed = cluster_wide if of_topic is None else of_topic == "true"
    assert topic.partitions[0].leader == (2 if allowed else NO_LEADER)


def test_a_silent_broker_is_waited_for_until_it_speaks_or_is_given_up() -> None:
    for end in (Cluster.broker_up, Cluster.broker_down):
        cluster = a_cluster()
        cluster.broker_silent(2, NOW)
        asked = produce(cluster, b"a")
        assert asked.waits

        end(cluster, 2, NOW)

        assert produced(asked).error_code == Code.NONE


def test_brokers_are_named_with_their_places() -> None:
    cluster = a_cluster()
    cluster.broker_down(1, NOW)

    told = cluster.topology.endpoints(dict, {3, 1, -1, 77})

    assert [(one["node_id"], one["host"], one["port"]) for one in told] == [
        (1, "host-1", 9001),
        (3, "host-3", 9003),
    ]


# Leaders by command.


def test_by_default_the_next_in_sync_leads() -> None:
    cluster = a_cluster()

    assert [cluster.move_leader(ORDERS, 0, None, NOW) for _ in range(3)] == [2, 1, 2]
    assert partition_of(cluster).leader_epoch == 3


def test_where_there_is_one_replica_it_is_elected_anew() -> None:
    cluster = a_cluster(brokers=1)

    assert cluster.move_leader(ORDERS, 0, None, NOW) == 1
    assert partition_of(cluster).leader_epoch == 1


def test_who_is_down_out_of_sync_or_elsewhere_cannot_lead() -> None:
    cluster = a_cluster(brokers=4)
    cluster.broker_down(2, NOW)

    for to in (2, 4, 9):
        with pytest.raises(ValueError, match=f"broker {to} cannot lead orders-0"):
            cluster.move_leader(ORDERS, 0, to, NOW)
    with pytest.raises(ValueError, match="no partition orders-7"):
        cluster.move_leader(ORDERS, 7, None, NOW)


def test_where_all_replicas_are_down_nobody_can_lead() -> None:
    cluster = a_cluster()
    for node in (1, 2, 3):
        cluster.broker_down(node, NOW)

    with pytest.raises(ValueError, match="cannot lead"):
        cluster.move_leader(ORDERS, 0, None, NOW)


def test_uncleanly_any_replica_can_lead_and_what_it_lacks_is_lost() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"lost", acks=1)
    pass_time(cluster, 31.0)

    assert cluster.move_leader(ORDERS, 0, 2, cluster.now, unclean=True) == 2

    assert values(partition_of(cluster).log) == [b"a"]
    assert fetched_code(fetch(cluster, 2)) is Code.OFFSET_OUT_OF_RANGE


def test_only_followers_can_be_held() -> None:
    cluster = a_cluster(brokers=4)

    for node in (1, 4, 9):
        with pytest.raises(ValueError, match=f"broker {node} is no follower of orders-0"):
            cluster.hold_replica(ORDERS, 0, node)
    for act in (cluster.hold_replica, cluster.release_replica):
        with pytest.raises(ValueError, match="no partition orders-7"):
            act(ORDERS, 7, 2)


# Coordinators.


def coordinator_of(cluster: Cluster, group: str = "g") -> int:
    node = cluster.coordinator(GROUP_OFFSETS, group)
    assert node is not None
    return node.node_id


def join(cluster: Cluster, group: str = "g", member_id: str = "", node: int | None = None) -> Asked:
    message = request(
        "JoinGroup",
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"}],
    )
    return send(cluster, message, 3, node=node or coordinator_of(cluster, group))


def commit(cluster: Cluster, offset: int, *, group: str = "g", node: int | None = None) -> Code:
    message = request(
        "OffsetCommit",
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            {"name": ORDERS, "partitions": [{"partition_index": 0, "committed_offset": offset}]}
        ],
    )
    answer = ask(cluster, message, 8, node or coordinator_of(cluster, group))
    return Code(answer.topics[0].partitions[0].error_code)


def committed(cluster: Cluster, group: str = "g") -> int:
    message = request(
        "OffsetFetch", group_id=group, topics=[{"name": ORDERS, "partition_indexes": [0]}]
    )
    answer = ask(cluster, message, 7, coordinator_of(cluster, group))
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def test_offsets_outlive_a_move_of_the_coordinator() -> None:
    cluster = a_cluster()
    assert commit(cluster, 5) is Code.NONE
    before = coordinator_of(cluster)

    after = cluster.move_coordinator(GROUP_OFFSETS, "g", None, NOW)

    assert after == coordinator_of(cluster) != before
    assert committed(cluster) == 5
    assert commit(cluster, 6, node=before) is Code.NOT_COORDINATOR


def test_offsets_outlive_the_coordinator() -> None:
    cluster = a_cluster()
    commit(cluster, 5)

    cluster.broker_down(coordinator_of(cluster), NOW)

    assert committed(cluster) == 5


def test_who_waits_for_a_rebalance_is_told_at_once_that_the_coordinator_moved() -> None:
    cluster = a_cluster()
    first = join(cluster)
    assert first.answer.error_code == Code.NONE
    second = join(cluster)
    assert second.waits

    cluster.move_coordinator(GROUP_OFFSETS, "g", None, NOW)

    assert second.answer.error_code == Code.NOT_COORDINATOR


def members(cluster: Cluster) -> int:
    return len(cluster.groups.members("g"))


def test_a_silent_coordinator_ends_no_session_and_its_successor_begins_them_anew() -> None:
    cluster = a_cluster()
    joined = join(cluster).answer
    message = request(
        "SyncGroup",
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[{"member_id": joined.member_id, "assignment": b""}],
    )
    ask(cluster, message, 3, coordinator_of(cluster))

    cluster.broker_silent(coordinator_of(cluster), NOW + 5.0)
    cluster.tick(NOW + 30.0)
    assert members(cluster) == 1

    cluster.broker_down(coordinator_of(cluster), NOW + 30.0)
    cluster.tick(NOW + 39.0)
    assert members(cluster) == 1
    cluster.tick(NOW + 41.0)
    assert members(cluster) == 0


def test_what_was_overdue_while_a_coordinator_stood_still_is_due_when_it_goes_on() -> None:
    cluster = a_cluster()
    join(cluster)
    cluster.broker_silent(coordinator_of(cluster), NOW + 5.0)
    cluster.tick(NOW + 30.0)

    cluster.broker_up(coordinator_of(cluster), NOW + 30.0)
    cluster.tick(NOW + 30.0)

    assert members(cluster) == 0


def test_a_group_is_not_disturbed_when_the_leader_of_another_partition_moves() -> None:
    cluster = a_cluster()
    join(cluster)
    second = join(cluster)

    cluster.move_coordinator(GROUP_OFFSETS, "another", None, NOW)
    cluster.move_leader(ORDERS, 0, None, NOW)

    assert second.waits


def test_a_topic_by_another_name_does_not_move_coordinators() -> None:
    cluster = a_cluster(topics={GROUP_OFFSETS: 3, ORDERS: 3})

    with pytest.raises(ValueError, match="cannot lead"):
        cluster.move_coordinator(GROUP_OFFSETS, "g", 99, NOW)


# Deletion.


def test_deleting_a_topic_forgets_who_lags_there() -> None:
    cluster = a_cluster(cleaner_backoff=3600.0)
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"a", acks=1)
    topic = cluster.topics.get(ORDERS)
    assert topic is not None
    assert cluster.wake_at() == NOW + 30.0

    cluster.delete_topic(topic, NOW)

    assert cluster.wake_at() == NOW + 300.0


# Time.


def test_an_idle_cluster_wakes_up_for_retention_and_compaction_only() -> None:
    cluster = a_cluster(retention_check=60.0, cleaner_backoff=40.0)

    assert cluster.wake_at() == NOW + 40.0
    cluster.tick(NOW + 40.0)
    assert cluster.wake_at() == NOW + 60.0
    cluster.tick(NOW + 60.0)
    assert cluster.wake_at() == NOW + 80.0


def test_time_does_not_go_back() -> None:
    cluster = a_cluster()
    cluster.tick(NOW + 10.0)
    cluster.tick(NOW + 5.0)

    assert cluster.now == NOW + 10.0


def test_a_tick_before_anything_is_due_changes_nothing() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0)
    due = cluster.wake_at()

    cluster.tick(NOW + 4.0)

    assert asked.waits
    assert cluster.wake_at() == due == NOW + 5.0


def test_old_records_go_when_retention_is_checked() -> None:
    cluster = a_cluster(topics={}, retention_check=60.0)
    cluster.create_topic(ORDERS, 1, None, {"retention.ms": "1000"})
    write(cluster, b"old")
    asked = fetch(cluster, 0, wait=500.0, min_bytes=10_000)

    pass_time(cluster, 60.0)

    assert list_offset(cluster, -2).offset == 1
    assert fetched_code(asked) is Code.OFFSET_OUT_OF_RANGE


def test_a_topic_is_compacted_every_15_seconds_however_rarely_retention_is_checked() -> None:
    cluster = a_cluster(topics={}, retention_check=3600.0)
    cluster.create_topic(ORDERS, 1, None, {"cleanup.policy": "compact", "segment.ms": "1"})
    for second, value in enumerate((b"one", b"two", b"three")):
        batch = a_batch(value, keys=[b"k"], timestamp=NOW_MS + 1000 * second)
        partition_of(cluster).append(batch, now=NOW + second, api_version=9)

    pass_time(cluster, 14.0)
    assert values(partition_of(cluster).log) == [b"one", b"two", b"three"]

    pass_time(cluster, 1.0)
    assert values(partition_of(cluster).log) == [b"two", b"three"]  # the last segment is active


def test_a_laggard_is_dropped_once_and_the_cluster_sleeps_again() -> None:
    cluster = a_cluster(replica_lag_max=0.1)
    cluster.hold_replica(ORDERS, 0, 2)
    cluster.tick(NOW + 0.7)
    write(cluster, b"a", acks=1)

    at = cluster.wake_at()
    cluster.tick(at)

    assert math.isclose(at, NOW + 0.8, abs_tol=1e-6)
    assert partition_of(cluster).isr == [1, 3]
    assert cluster.wake_at() == NOW + 15.0


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_time_goes_on_and_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    cluster = a_cluster(
        topics={ORDERS: 2},
        seed=seed,
        min_insync_replicas=rng.choice((1, 2)),
        replica_lag_max=rng.choice((0.1, 0.7, 5.0)),
        retention_check=0.3,
    )
    asked: list[tuple[bytes, int, Asked]] = []
    for number in range(150):
        index, node = rng.randrange(2), rng.choice((1, 2, 3))
        partition = partition_of(cluster, ORDERS, index)
        up = [one.node_id for one in cluster.topology.up()]
        match rng.randrange(10):
            case 0 if len(up) > 1:
                cluster.broker_down(node, cluster.now)
            case 1 | 2:
                cluster.broker_up(node, cluster.now)
            case 3 if node in partition.replicas and node != partition.leader:
                cluster.hold_replica(ORDERS, index, node)
            case 4:
                cluster.release_replica(ORDERS, index, node)
            case 5 if node in partition.isr and node in up:
                cluster.move_leader(ORDERS, index, node, cluster.now)
            case 6 if up:
                fetch(cluster, 0, partition=index, node=rng.choice(up), wait=rng.random())
            case _ if partition.leader != NO_LEADER:
                value = b"%d" % number
                timeout = rng.random() * 2
                asked.append(
                    (value, index, produce(cluster, value, partition=index, timeout=timeout))
                )
        pass_time(cluster, rng.random())

    for node in (1, 2, 3):
        cluster.broker_up(node, cluster.now)
        for index in range(2):
            cluster.release_replica(ORDERS, index, node)
    pass_time(cluster, 10.0)
    there = [values(partition_of(cluster, ORDERS, index).log) for index in range(2)]
    taken = [
        (value, index)
        for value, index, one in asked
        if not one.waits and produced(one).error_code == Code.NONE
    ]
    assert len(taken) > 10
    assert all(there[index].count(value) == 1 for value, index in taken)
    assert len(cluster.fetching.waiting) == len(cluster.producing.waiting) == 0


# Restarts.


class Disk:
    """A journal and a folder, which outlive the process."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal()
        self.folder = folder
        self.clusters: list[Cluster] = []

    def open_log(self, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        store = FileStore(self.folder / str(topic_id) / str(index))
        return PartitionLog(config=config, store=store)

    def cluster(self, brokers: int = 3) -> Cluster:
        """As a new process finds it."""
        cluster = a_cluster(
            brokers,
            topics={},
            journal=self.journal,
            kept=self.journal.values(),
            open_log=self.open_log,
        )
        self.clusters.append(cluster)
        return cluster

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.topics.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.close()


def test_a_cluster_comes_back_with_its_topics_records_and_offsets(disk: Disk) -> None:
    cluster = disk.cluster()
    cluster.create_topic(ORDERS, 2)
    write(cluster, b"a")
    commit(cluster, 1)

    again = disk.cluster()

    assert again.topics.partitions(ORDERS) == 2
    assert bytes(fetched(fetch(again)).records)
    assert committed(again) == 1
    assert coordinator_of(again) == coordinator_of(cluster)


def test_each_restart_raises_the_epoch(disk: Disk) -> None:
    disk.cluster().create_topic(ORDERS, 1)

    epochs = [partition_of(disk.cluster()).leader_epoch for _ in range(3)]

    assert epochs == [1, 2, 3]


def test_a_client_can_tell_that_its_records_are_from_before_the_restart(disk: Disk) -> None:
    cluster = disk.cluster()
    cluster.create_topic(ORDERS, 1)
    write(cluster, b"a")

    again = disk.cluster()

    assert fetched_code(fetch(again, 1, last_epoch=0)) is Code.NONE
    assert fetched_code(fetch(again, 1, epoch=0)) is Code.FENCED_LEADER_EPOCH


def test_a_smaller_cluster_reads_what_a_larger_one_wrote(disk: Disk) -> None:
    large = disk.cluster()
    for name in ("a", "b", ORDERS):
        large.create_topic(name, 1)
        write(large, b"v", topic=name)
    commit(large, 1)
    assert partition_of(large).leader == 3

    small = disk.cluster(brokers=1)

    for name in ("a", "b", ORDERS):
        partition = partition_of(small, name)
        assert (partition.leader, partition.isr) == (1, [1])
        assert bytes(fetched(fetch(small, topic=name)).records)
    assert committed(small) == 1
    described = ask(small, request("Metadata", topics=None), 12)
    assert [one.node_id for one in described.brokers] == [1]


def test_partitions_of_brokers_that_are_no_more_have_no_leader(disk: Disk) -> None:
    large = disk.cluster()
    large.create_topic("first", 1, 1)
    large.create_topic("second", 1, 1)
    write(large, b"v", topic="second")

    small = disk.cluster(brokers=1)

    assert partition_of(small, "second").leader == NO_LEADER
    assert fetched_code(fetch(small, topic="second", node=1)) is Code.NOT_LEADER_OR_FOLLOWER
    found = ask(small, request("Metadata", topics=None), 12)
    codes = {topic.name: topic.partitions[0].error_code for topic in found.topics}
    assert codes == {"first": Code.NONE, "second": Code.LEADER_NOT_AVAILABLE}

    assert partition_of(disk.cluster(), "second").leader == 2


# Odd requests.


def test_a_request_that_has_no_handler_is_refused() -> None:
    answers: list[Any] = []
    message = request("ApiVersions")
    call = Call(message, answer=answers.append, version=0, now=NOW)

    a_cluster().receive(call, "NoSuchApi")

    assert [one.error_code for one in answers] == [Code.ILLEGAL_SASL_STATE]


def test_a_batch_is_read_by_all_who_wait_for_it() -> None:
    cluster = a_cluster()
    waiting = [fetch(cluster, wait=100.0) for _ in range(50)]

    produce(cluster, records=a_batch(b"a"))

    assert all(bytes(fetched(one).records) for one in waiting)


@pytest.mark.parametrize("grown", [False, True], ids=["new topic", "new partitions"])
def test_who_leads_is_kept_if_a_broker_is_down_when_partitions_are_made(
    disk: Disk, grown: bool
) -> None:
    cluster = disk.cluster()
    cluster.broker_down(1, NOW)

    topic = cluster.topology.make_topic(ORDERS, [(2, 3, 1) if grown else (1, 2, 3)], {})
    if grown:
        cluster.topology.grow_topic(topic, [(1, 2, 3)])

    kept = disk.journal.values()["topic", (ORDERS,)]["partitions"]
    assert {leader for _, leader, _ in kept} == {2}
    assert [epoch for _, _, epoch in kept] == [one.leader_epoch for one in topic.partitions]
