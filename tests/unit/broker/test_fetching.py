"""What brokers hand out of their logs, now or when there is enough of it."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.records import RecordReader
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    fetch,
    fetched,
    fetched_code,
    partition_of,
    pass_time,
    produce,
    send,
    write,
)
from tests.unit.broker.harness import NOW
from tests.unit.broker.log.building import a_batch, in_transaction


def values(answer: Any, offset: int = 0) -> list[bytes | None]:
    """What a consumer that wants `offset` reads in a partition's answer."""
    reader = RecordReader(bytes(answer.records), topic=ORDERS, partition=0, fetch_offset=offset)
    found = []
    while not reader.exhausted:
        found += [record.value for record in reader.take(100)]
    return found


def down(cluster: Cluster, *nodes: int) -> None:
    for node in nodes:
        cluster.broker_down(node, cluster.now)


def up(cluster: Cluster, *nodes: int) -> None:
    for node in nodes:
        cluster.broker_up(node, cluster.now)


# What there is.


def test_records_are_handed_out_from_the_offset_on() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    write(cluster, b"b")

    answer = fetched(fetch(cluster, 1))

    assert (answer.error_code, answer.partition_index) == (Code.NONE, 0)
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)
    assert values(answer, 1) == [b"b"]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_the_same(version: int) -> None:
    cluster = a_cluster()
    write(cluster, b"a")

    assert values(fetched(fetch(cluster, version=version))) == [b"a"]


def test_no_more_is_handed_out_than_all_in_sync_have() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"b", acks=1)

    assert values(fetched(fetch(cluster))) == [b"a"]
    assert fetched(fetch(cluster, 1)).high_watermark == 1


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
def test_an_offset_outside_the_log_is_refused(offset: int) -> None:
    cluster = a_cluster()
    write(cluster, b"a", b"b")

    assert fetched_code(fetch(cluster, offset)) is Code.OFFSET_OUT_OF_RANGE


def test_the_end_of_the_log_is_a_place_to_read_from() -> None:
    cluster = a_cluster()
    write(cluster, b"a")

    answer = fetched(fetch(cluster, 1))

    assert (answer.error_code, bytes(answer.records or b"")) == (Code.NONE, b"")


def test_the_first_batch_comes_whole_however_little_is_asked_for() -> None:
    cluster = a_cluster()
    write(cluster, b"x" * 1000)
    write(cluster, b"y")

    assert values(fetched(fetch(cluster, max_bytes=10))) == [b"x" * 1000]


def test_the_size_of_an_answer_is_bounded_over_all_partitions() -> None:
    cluster = a_cluster(topics={ORDERS: 3})
    for index in range(3):
        write(cluster, b"x" * 1000, partition=index, node=index + 1)
    down(cluster, 2, 3)  # so that one broker leads them all

    asked = fetch(cluster, others=[(ORDERS, 1), (ORDERS, 2)], max_bytes=1100, node=1)

    sizes = [len(one.records or b"") for one in asked.answer.responses[0].partitions]
    assert sizes[0] > 1000
    assert sizes[1:] == [0, 0]


def test_a_topic_or_partition_that_is_not_there_is_said_so() -> None:
    cluster = a_cluster()

    assert fetched_code(fetch(cluster, topic="bills", node=1)) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched_code(fetch(cluster, partition=5, node=1)) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched_code(fetch(cluster, topic="bills", node=1, version=13)) is Code.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, Code.NONE),
        (0, Code.FENCED_LEADER_EPOCH),
        (1, Code.NONE),
        (2, Code.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_leader_epoch_that_the_client_knows_must_be_the_right_one(
    epoch: int, code: Code
) -> None:
    cluster = a_cluster()
    cluster.move_leader(ORDERS, 0, 1, NOW)

    assert fetched_code(fetch(cluster, epoch=epoch)) is code


def test_a_client_whose_records_were_lost_is_told_where_the_logs_diverge() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    cluster.hold_replica(ORDERS, 0, 3)
    write(cluster, b"lost", acks=1)
    down(cluster, 1)
    cluster.release_replica(ORDERS, 0, 3)
    write(cluster, b"b")

    answer = fetched(fetch(cluster, 2, last_epoch=0))

    assert answer.error_code == Code.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert fetched(fetch(cluster, 1, last_epoch=0)).records


def test_a_position_behind_the_end_of_a_log_that_diverges_is_told_so_and_not_out_of_range() -> None:
    """As Kafka's Partition.readFromLocalLog, which compares the epochs first."""
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    cluster.hold_replica(ORDERS, 0, 3)
    write(cluster, b"lost", acks=1)
    write(cluster, b"lost too", acks=1)
    down(cluster, 1)

    answer = fetched(fetch(cluster, 3, last_epoch=0))

    assert answer.error_code == Code.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert fetched_code(fetch(cluster, 3)) is Code.OFFSET_OUT_OF_RANGE


# Waiting.


def test_who_wants_more_than_there_is_waits_for_it() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0)
    assert asked.waits

    write(cluster, b"a")

    assert values(fetched(asked)) == [b"a"]


def test_who_waits_is_answered_when_the_time_is_up_and_not_before() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0)

    pass_time(cluster, 4.9)
    assert asked.waits

    pass_time(cluster, 0.1)
    assert fetched_code(asked) is Code.NONE


def test_what_is_too_little_does_not_wake_anybody() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0, min_bytes=1000)

    write(cluster, b"a" * 400)
    assert asked.waits

    write(cluster, b"b" * 800)
    assert len(values(fetched(asked))) == 2


def test_what_is_not_replicated_wakes_nobody() -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 2)
    asked = fetch(cluster, wait=5.0)

    write(cluster, b"a", acks=1)
    assert asked.waits

    cluster.release_replica(ORDERS, 0, 2)
    assert values(fetched(asked)) == [b"a"]


def test_an_error_is_not_waited_with() -> None:
    cluster = a_cluster()

    assert not fetch(cluster, 99, wait=5.0).waits
    assert not fetch(cluster, epoch=9, wait=5.0).waits
    assert not fetch(cluster, topic="bills", node=1, wait=5.0).waits


def test_who_waits_is_told_at_once_that_the_leader_moved_and_where_to() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, epoch=0, wait=500.0, version=16)

    cluster.move_leader(ORDERS, 0, 2, NOW)

    answer = fetched(asked)
    assert answer.error_code == Code.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
    (endpoint,) = asked.answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "host-2", 9002)


def test_who_waits_at_a_broker_without_a_replica_is_told_that_it_does_not_lead() -> None:
    cluster = a_cluster(brokers=4)
    assert partition_of(cluster).replicas == (1, 2, 3)

    asked = fetch(cluster, node=4, wait=500.0, version=16)

    answer = fetched(asked)
    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 1
    assert [one.node_id for one in asked.answer.node_endpoints] == [1]


def test_who_knows_an_old_epoch_of_the_leader_itself_is_told_the_new_one() -> None:
    """As KafkaApis.handleFetchRequest: whatever broker leads."""
    cluster = a_cluster()
    partition_of(cluster).new_epoch()

    asked = fetch(cluster, epoch=0, version=16)

    answer = fetched(asked)
    assert answer.error_code == Code.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)
    assert [one.node_id for one in asked.answer.node_endpoints] == [1]


def test_before_version_16_nobody_is_told_who_leads() -> None:
    cluster = a_cluster(brokers=4)

    answer = fetched(fetch(cluster, node=4, version=15))

    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is None


def test_who_waits_is_told_at_once_that_nobody_leads_any_more() -> None:
    cluster = a_cluster(racks=["a", "b", "c"])
    asked = fetch(cluster, node=2, epoch=0, wait=500.0)
    down(cluster, 3)
    assert asked.waits

    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"a", acks=1)
    pass_time(cluster, 31.0)
    down(cluster, 1)

    assert fetched_code(asked) is Code.FENCED_LEADER_EPOCH


def test_who_waits_is_told_at_once_that_the_topic_is_deleted() -> None:
    cluster = a_cluster(topics={ORDERS: 1, "bills": 1})
    down(cluster, 2, 3)
    alone = fetch(cluster, wait=500.0)
    with_another = fetch(cluster, wait=500.0, others=[("bills", 0)])

    orders = cluster.topics.get(ORDERS)
    assert orders is not None
    cluster.delete_topic(orders, cluster.now)

    assert fetched_code(alone) is Code.UNKNOWN_TOPIC_OR_PARTITION
    codes = {
        topic.topic: Code(topic.partitions[0].error_code) for topic in with_another.answer.responses
    }
    assert codes == {ORDERS: Code.UNKNOWN_TOPIC_OR_PARTITION, "bills": Code.NONE}


def test_what_was_never_there_does_not_keep_others_from_waiting() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0, others=[("bills", 0)])
    assert asked.waits

    write(cluster, b"a")

    assert {topic.topic for topic in asked.answer.responses} == {ORDERS, "bills"}


def test_a_topic_that_may_not_be_read_is_refused_and_does_not_keep_others_from_waiting() -> None:
    cluster = a_cluster(topics={ORDERS: 1, "bills": 1})
    down(cluster, 2, 3)
    cluster.topics.forbidden.add("bills")
    asked = fetch(cluster, wait=5.0, others=[("bills", 0)])
    assert asked.waits
    assert not fetch(cluster, topic="bills", wait=5.0).waits

    write(cluster, b"a")

    codes = {one.topic: Code(one.partitions[0].error_code) for one in asked.answer.responses}
    assert codes == {ORDERS: Code.NONE, "bills": Code.TOPIC_AUTHORIZATION_FAILED}


def test_who_waits_at_a_broker_that_goes_down_is_never_answered() -> None:
    cluster = a_cluster()
    asked = fetch(cluster, wait=5.0)

    down(cluster, 1)
    write(cluster, b"a")
    pass_time(cluster, 10.0)

    assert asked.waits


def test_who_has_hung_up_is_not_answered() -> None:
    cluster = a_cluster()
    gone = fetch(cluster, wait=5.0, connection=7)
    stays = fetch(cluster, wait=5.0, connection=8)

    cluster.forget(lambda call: call.connection == 7)
    write(cluster, b"a")

    assert gone.waits
    assert not stays.waits


# Followers (KIP-392).


def test_a_client_is_sent_to_the_follower_in_its_rack() -> None:
    cluster = a_cluster(racks=["a", "b", "c"])
    write(cluster, b"a")

    answer = fetched(fetch(cluster, rack="b", wait=5.0))

    assert (answer.preferred_read_replica, bytes(answer.records or b"")) == (2, b"")
    assert values(fetched(fetch(cluster, rack="b", node=2))) == [b"a"]


@pytest.mark.parametrize("rack", ["", "a", "nowhere"])
def test_a_client_stays_with_the_leader_if_no_follower_is_nearer(rack: str) -> None:
    cluster = a_cluster(racks=["a", "b", "c"])
    write(cluster, b"a")

    answer = fetched(fetch(cluster, rack=rack))

    assert (answer.preferred_read_replica, values(answer)) == (-1, [b"a"])


def test_nobody_is_sent_to_a_follower_that_is_down_or_out_of_sync() -> None:
    cluster = a_cluster(racks=["a", "b", "c"])
    down(cluster, 2)
    cluster.hold_replica(ORDERS, 0, 3)
    write(cluster, b"a", acks=1)
    pass_time(cluster, 31.0)

    for rack in ("b", "c"):
        assert fetched(fetch(cluster, rack=rack)).preferred_read_replica == -1


def test_nobody_is_sent_to_a_follower_that_lacks_what_is_to_be_read() -> None:
    cluster = a_cluster(racks=["a", "b", "b"])
    cluster.hold_replica(ORDERS, 0, 2)
    cluster.hold_replica(ORDERS, 0, 3)
    write(cluster, b"a", acks=1)

    assert fetched(fetch(cluster, 0, rack="b")).preferred_read_replica == 2
    assert fetched(fetch(cluster, 1, rack="b")).preferred_read_replica == -1

    cluster.release_replica(ORDERS, 0, 3)
    assert fetched(fetch(cluster, 1, rack="b")).preferred_read_replica == 3


def test_the_selector_can_be_turned_off() -> None:
    cluster = a_cluster(racks=["a", "b", "c"], replica_selector=False)

    assert fetched(fetch(cluster, rack="b")).preferred_read_replica == -1


def test_a_follower_hands_out_what_it_has_and_no_more() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"b", acks=1)
    pass_time(cluster, 31.0)
    assert partition_of(cluster).log.high_watermark == 2

    answer = fetched(fetch(cluster, node=2))

    assert (answer.high_watermark, values(answer)) == (1, [b"a"])
    assert fetched_code(fetch(cluster, 2, node=2)) is Code.OFFSET_OUT_OF_RANGE


def test_a_follower_wakes_who_waits_there_when_it_catches_up() -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 2)
    asked = fetch(cluster, node=2, wait=500.0)
    write(cluster, b"a", acks=1)
    assert asked.waits

    cluster.release_replica(ORDERS, 0, 2)

    assert values(fetched(asked)) == [b"a"]


def test_old_clients_may_not_read_from_followers() -> None:
    cluster = a_cluster()

    assert fetched_code(fetch(cluster, node=2, version=10)) is Code.NOT_LEADER_OR_FOLLOWER
    assert fetched_code(fetch(cluster, node=2, version=11)) is Code.NONE


def test_a_follower_without_a_leader_refuses() -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"a", acks=1)
    pass_time(cluster, 31.0)
    down(cluster, 3, 1)

    assert fetched_code(fetch(cluster, node=2)) is Code.NOT_LEADER_OR_FOLLOWER


# Sessions.


def in_session(cluster: Cluster, session: int, epoch: int, wait: float = 0.0) -> Any:
    message = request(
        "Fetch", max_wait_ms=int(wait * 1000), min_bytes=1, session_id=session, session_epoch=epoch
    )
    return send(cluster, message, 12)


def test_in_a_session_only_news_is_told() -> None:
    cluster = a_cluster()
    opened = fetch(cluster, session=(0, 0))
    session = opened.answer.session_id
    assert session > 0

    assert in_session(cluster, session, 1).answer.responses == []

    write(cluster, b"a")
    answer = in_session(cluster, session, 2).answer
    assert values(answer.responses[0].partitions[0]) == [b"a"]


def test_in_a_session_an_error_is_told_again_until_it_is_over() -> None:
    cluster = a_cluster()
    opened = fetch(cluster, 9, session=(0, 0))
    session = opened.answer.session_id

    for epoch in (1, 2):
        (topic,) = in_session(cluster, session, epoch).answer.responses
        assert topic.partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_a_session_ends_with_its_broker() -> None:
    cluster = a_cluster()
    session = fetch(cluster, session=(0, 0)).answer.session_id
    down(cluster, 1)
    up(cluster, 1)

    answer = in_session(cluster, session, 1).answer

    assert answer.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == []


def test_who_had_records_is_behind_the_others_next_time() -> None:
    cluster = a_cluster(brokers=1, topics={ORDERS: 2})
    for index in range(2):
        write(cluster, b"x" * 500, partition=index)
    opened = fetch(cluster, others=[(ORDERS, 1)], max_bytes=600, session=(0, 0))
    (topic,) = opened.answer.responses
    assert [one.partition_index for one in topic.partitions if one.records] == [0]

    (topic,) = in_session(cluster, opened.answer.session_id, 1).answer.responses

    assert next(one.partition_index for one in topic.partitions if one.records) == 1


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_a_partition_a_session_reads_what_a_new_reader_reads(seed: int) -> None:
    """What a broker remembers of a partition that had nothing holds only as long as it is so."""
    rng = random.Random(seed)
    cluster = a_cluster(topics={ORDERS: 1, "bills": 1})
    session = fetch(cluster, node=1, session=(0, 0)).answer.session_id
    offset, told = 0, (Code.NONE, 0, 0)
    producers = iter(range(100, 200))
    open_ones: list[int] = []

    def end_transaction() -> None:
        if open_ones:
            partition_of(cluster).append_marker(
                open_ones.pop(), 0, commit=rng.random() < 0.5, coordinator_epoch=0, now=NOW
            )

    def begin_transaction() -> None:
        open_ones.append(next(producers))
        partition_of(cluster).append(
            in_transaction(open_ones[-1], 0, b"t"), now=NOW, api_version=12
        )

    def forbid() -> None:
        cluster.topics.forbidden.add(ORDERS)

    def truncate_the_beginning() -> None:
        log = partition_of(cluster).log
        log.delete_before(rng.randint(log.start_offset, log.high_watermark))

    def recreate() -> None:
        orders = cluster.topics.get(ORDERS)
        assert orders is not None
        cluster.delete_topic(orders, cluster.now)
        open_ones.clear()
        cluster.create_topic(ORDERS, 1)

    happens = (
        lambda: None,
        lambda: write(cluster, b"a", acks=1),
        begin_transaction,
        end_transaction,
        forbid,
        cluster.topics.forbidden.clear,
        truncate_the_beginning,
        recreate,
        lambda: cluster.move_leader(ORDERS, 0, rng.choice((1, 1, 2)), cluster.now),
        lambda: cluster.hold_replica(ORDERS, 0, 3),
        lambda: cluster.release_replica(ORDERS, 0, 3),
        lambda: down(cluster, 2),
        lambda: up(cluster, 2),
    )
    for epoch in range(1, 80):
        with contextlib.suppress(ValueError):  # this follower leads, or is down: it cannot happen
            rng.choice(happens)()
        committed = rng.random() < 0.5
        moves = rng.random() < 0.3
        offset = told[1] if moves else offset
        place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        asked = send(
            cluster,
            request(
                "Fetch",
                max_bytes=1 << 20,
                isolation_level=int(committed),
                session_id=session,
                session_epoch=epoch,
                topics=[{"topic": ORDERS, "partitions": [place]}] if moves else [],
            ),
            12,
        )
        new = fetched(fetch(cluster, offset, node=1, committed=committed))
        now = Code(new.error_code), new.high_watermark, new.log_start_offset
        if asked.answer.responses:
            found = fetched(asked)
            told = Code(found.error_code), found.high_watermark, found.log_start_offset
            assert bytes(found.records or b"") == bytes(new.records or b"")
            assert found.aborted_transactions == new.aborted_transactions
            assert found.last_stable_offset == new.last_stable_offset
        else:
            assert not new.records
        assert told == now, epoch


# Read committed.


def test_read_committed_stops_before_an_open_transaction() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    partition = partition_of(cluster)
    partition.append(in_transaction(5, 0, b"open"), now=NOW, api_version=12)

    answer = fetched(fetch(cluster, committed=True))
    assert (answer.last_stable_offset, answer.high_watermark) == (1, 2)
    assert values(answer) == [b"a"]

    waiting = fetch(cluster, 1, committed=True, wait=5.0)
    assert waiting.waits
    partition.append_marker(5, 0, commit=False, coordinator_epoch=0, now=NOW)
    cluster.tick(cluster.now)

    aborted = fetched(waiting).aborted_transactions
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(5, 1)]


def test_bytes_that_were_handed_out_stay_the_same() -> None:
    cluster = a_cluster()
    asked = produce(cluster, records=a_batch(b"a"))
    assert not asked.waits
    answer = fetched(fetch(cluster))

    partition_of(cluster).log.truncate(0)
    write(cluster, b"other")

    assert values(answer) == [b"a"]
