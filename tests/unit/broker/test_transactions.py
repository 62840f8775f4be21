"""The rules of transactions, asked over the wire in time that is passed in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin import ListTransactionsRequest

from aktor.broker.codes import Code, Refused
from aktor.broker.transactions import State
from aktor.broker.transactions.transaction import LAST_EPOCH, TRANSITIONS, Transaction, Trigger
from tests.unit.broker.harness import NOW
from tests.unit.broker.transactions_world import Marker, Producer, TransactionsWorld

ORDERS = ("orders", 0)
BILLS = ("bills", 0)

BOTH_PROTOCOLS = pytest.mark.parametrize("bumps", [False, True], ids=["TV1", "TV2"])


@pytest.fixture
def world() -> TransactionsWorld:
    return TransactionsWorld()


def a_producer(world: TransactionsWorld, **fields: Any) -> Producer:
    """A transactional producer that was given its first epoch."""
    producer = Producer(world, **fields)
    assert producer.init() is Code.NONE
    return producer


def at_epoch(world: TransactionsWorld, epoch: int, **fields: Any) -> Producer:
    """A producer that has been through many transactions."""
    producer = a_producer(world, **fields)
    kept = world.journal.values()
    kept["transaction", ("payer",)]["producer_epoch"] = epoch
    kept["transaction", ("payer",)]["coordinator_epoch"] = -1
    world.coordinator.restore(kept)
    producer.epoch = epoch
    return producer


# Producer ids.


def test_an_idempotent_producer_gets_an_id_of_its_own_and_epoch_0(world: TransactionsWorld) -> None:
    first, second = Producer(world, None), Producer(world, None)

    assert first.init() is second.init() is Code.NONE

    assert first.epoch == second.epoch == 0
    assert first.id != second.id


def test_no_producer_id_is_given_twice_even_after_a_restart(world: TransactionsWorld) -> None:
    seen = []
    for _ in range(3):
        for _ in range(1500):
            producer = Producer(world, None)
            producer.init()
            seen.append(producer.id)
        world.restart()

    assert len(set(seen)) == 4500


def test_a_transactional_id_keeps_its_producer_id_and_each_start_raises_the_epoch(
    world: TransactionsWorld,
) -> None:
    first = a_producer(world)
    second = a_producer(world)

    assert (first.epoch, second.epoch) == (0, 1)
    assert first.id == second.id
    assert world.state() == "Empty"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, Code.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, Code.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, Code.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, Code.INVALID_REQUEST),
        ({"producer_epoch": 5}, Code.INVALID_REQUEST),
    ],
)
def test_an_init_that_makes_no_sense_is_refused(
    world: TransactionsWorld, fields: dict[str, Any], code: Code
) -> None:
    assert Producer(world).init(**fields) is code
    assert world.describe().error_code == Code.TRANSACTIONAL_ID_NOT_FOUND


def test_two_phase_commit_is_refused_as_where_it_is_not_enabled(world: TransactionsWorld) -> None:
    producer = Producer(world)

    assert producer.init(version=6, enable2_pc=True) is Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert producer.init(version=6, keep_prepared_txn=True) is Code.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(7))
def test_every_version_of_init_is_answered(world: TransactionsWorld, version: int) -> None:
    assert Producer(world).init(version=version) is Code.NONE


# A producer that goes on with what it has (KIP-360).


def test_a_producer_that_goes_on_gets_the_next_epoch_and_its_retry_the_same_once_more(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world)
    lost = producer.copy()

    producer.init(anew=False)
    lost.init(anew=False)

    assert producer.epoch == lost.epoch == 1


@pytest.mark.parametrize(
    ("version", "code"), [(3, Code.INVALID_PRODUCER_EPOCH), (4, Code.PRODUCER_FENCED)]
)
def test_a_producer_that_goes_on_after_another_has_started_is_fenced(
    world: TransactionsWorld, version: int, code: Code
) -> None:
    old = a_producer(world)
    a_producer(world)

    assert old.init(anew=False, version=version) is code


def test_a_producer_with_an_id_nobody_has_is_fenced(world: TransactionsWorld) -> None:
    producer = a_producer(world)
    producer.id += 1

    assert producer.init(anew=False) is Code.PRODUCER_FENCED


def test_a_producer_that_outlived_its_transactional_id_is_given_a_new_one(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world)
    old = producer.id
    world.pass_time(8 * 24 * 3600)

    assert producer.init(anew=False) is Code.NONE
    assert producer.id != old
    assert producer.epoch == 0


# A transaction from beginning to end.


@BOTH_PROTOCOLS
@pytest.mark.parametrize("commit", [True, False])
def test_each_partition_gets_one_marker_of_the_outcome_and_each_group_is_told(
    world: TransactionsWorld, bumps: bool, commit: bool
) -> None:
    producer = a_producer(world, bumps=bumps)

    assert producer.add(ORDERS, BILLS) is producer.add(BILLS) is Code.NONE
    assert producer.add_group("readers") is Code.NONE
    assert producer.end(commit=commit) is Code.NONE

    marked = (producer.id, 1 if bumps else 0)
    assert world.partitions.markers == [
        Marker(ORDERS, marked, commit),
        Marker(BILLS, marked, commit),
    ]
    assert world.partitions.ended == [("readers", producer.id, commit)]
    assert world.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_in_the_first_protocol_the_epoch_stays(world: TransactionsWorld) -> None:
    producer = a_producer(world)

    for _ in range(3):
        assert producer.add(ORDERS) is producer.end(commit=True) is Code.NONE

    assert world.describe().producer_epoch == 0


def test_by_kip_890_each_end_gives_the_next_epoch(world: TransactionsWorld) -> None:
    producer = a_producer(world, bumps=True)

    epochs = []
    for _ in range(3):
        assert producer.add(ORDERS) is producer.end(commit=True) is Code.NONE
        epochs.append(producer.epoch)

    assert epochs == [1, 2, 3]


def test_by_kip_890_what_was_sent_before_the_end_comes_too_late(world: TransactionsWorld) -> None:
    producer = a_producer(world, bumps=True)
    late = producer.copy()
    producer.add(ORDERS)
    producer.end(commit=True)

    assert late.add(BILLS) is Code.INVALID_PRODUCER_EPOCH
    assert world.state() == "CompleteCommit"


def test_a_transaction_may_consist_of_groups_alone_added_by_their_coordinator(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world, bumps=True)
    mine = ("payer", producer.id, producer.epoch, "readers")

    with pytest.raises(Refused, match="TRANSACTION_ABORTABLE"):
        world.coordinator.verify_group(*mine)
    with pytest.raises(Refused, match="INVALID_TXN_STATE"):
        world.coordinator.verify_group(*mine, abortable=False)
    world.coordinator.add_group_implicitly(*mine, world.now)
    world.coordinator.verify_group(*mine)

    assert producer.end(commit=True) is Code.NONE
    assert world.partitions.ended == [("readers", producer.id, True)]


# What may be added.


def test_with_one_partition_that_does_not_exist_none_is_added(world: TransactionsWorld) -> None:
    producer = a_producer(world)

    codes = producer.add_all(ORDERS, ("orders", 7))

    assert codes == {
        ORDERS: Code.OPERATION_NOT_ATTEMPTED,
        ("orders", 7): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert world.state() == "Empty"


@pytest.mark.parametrize("version", range(4))
def test_a_fenced_producer_adds_nothing_in_the_words_of_its_version(
    world: TransactionsWorld, version: int
) -> None:
    old = a_producer(world)
    a_producer(world)

    code = Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH
    assert old.add_all(ORDERS, version=version) == {ORDERS: code}
    assert old.add_group("readers", version=version) is code
    assert old.end(commit=True, version=version) is code


def test_an_unknown_transactional_id_has_no_producer(world: TransactionsWorld) -> None:
    stranger = Producer(world, "nobody", id=1, epoch=0)

    assert stranger.add(ORDERS) is Code.INVALID_PRODUCER_ID_MAPPING
    assert stranger.add_group("readers") is Code.INVALID_PRODUCER_ID_MAPPING
    assert stranger.end(commit=True) is Code.INVALID_PRODUCER_ID_MAPPING
    assert stranger.verify(*ORDERS) is Code.INVALID_PRODUCER_ID_MAPPING


def test_an_empty_transactional_id_is_no_id(world: TransactionsWorld) -> None:
    nameless = Producer(world, "", id=1, epoch=0)

    assert nameless.add(ORDERS) is Code.INVALID_REQUEST
    assert nameless.end(commit=True) is Code.INVALID_REQUEST


# The leader's question.


def test_a_leader_may_append_only_to_what_was_added(world: TransactionsWorld) -> None:
    producer = a_producer(world)
    producer.add(ORDERS)

    assert producer.verify(*ORDERS) is Code.NONE
    assert producer.verify(*BILLS) is Code.TRANSACTION_ABORTABLE
    assert producer.verify(*BILLS, abortable=False) is Code.INVALID_TXN_STATE


def test_a_leader_does_not_append_for_fenced_producers_and_ended_transactions(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world)
    producer.add(ORDERS)
    producer.end(commit=True)
    assert producer.verify(*ORDERS) is Code.TRANSACTION_ABORTABLE

    a_producer(world)
    assert producer.verify(*ORDERS) is Code.INVALID_PRODUCER_EPOCH


def test_a_leader_asks_and_adds_over_the_wire_too(world: TransactionsWorld) -> None:
    producer = a_producer(world, bumps=True)
    producer.add(ORDERS)

    asked = producer.add_as_broker(ORDERS, BILLS, verify_only=True)
    assert asked == {ORDERS: Code.NONE, BILLS: Code.TRANSACTION_ABORTABLE}

    assert producer.add_as_broker(BILLS, verify_only=False) == {BILLS: Code.NONE}
    assert producer.verify(*BILLS) is Code.NONE


# How it may end.


@pytest.mark.parametrize(("first", "second"), [*itertools.product([True, False], repeat=2)])
@BOTH_PROTOCOLS
def test_an_end_whose_answer_was_lost_may_be_asked_again_but_not_the_other_way(
    world: TransactionsWorld, bumps: bool, first: bool, second: bool
) -> None:
    producer = a_producer(world, bumps=bumps)
    producer.add(ORDERS)
    producer.end(commit=first, learn=False)

    again = producer.end(commit=second)

    assert again is (Code.NONE if first == second else Code.INVALID_TXN_STATE)
    assert len(world.partitions.markers) == 1
    if bumps and first == second:
        assert producer.epoch == 1


@pytest.mark.parametrize("commit", [True, False])
def test_in_the_first_protocol_there_must_be_something_to_end(
    world: TransactionsWorld, commit: bool
) -> None:
    assert a_producer(world).end(commit=commit) is Code.INVALID_TXN_STATE


def test_by_kip_890_nothing_can_be_aborted_for_a_new_epoch_but_not_committed(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world, bumps=True)

    assert producer.end(commit=True) is Code.INVALID_TXN_STATE
    assert producer.end(commit=False) is Code.NONE
    assert producer.end(commit=True) is Code.INVALID_TXN_STATE
    assert producer.end(commit=False) is Code.NONE

    assert producer.epoch == 2
    assert world.state() == "CompleteAbort"
    assert world.partitions.markers == []


@BOTH_PROTOCOLS
def test_an_epoch_from_the_future_is_fenced_too(world: TransactionsWorld, bumps: bool) -> None:
    producer = a_producer(world, bumps=bumps)
    producer.add(ORDERS)
    producer.epoch += 1

    assert producer.end(commit=True) is Code.PRODUCER_FENCED
    assert world.state() == "Ongoing"


# While a marker cannot be written.


@BOTH_PROTOCOLS
def test_until_the_last_marker_is_written_there_is_no_next_transaction(
    world: TransactionsWorld, bumps: bool
) -> None:
    producer = a_producer(world, bumps=bumps)
    producer.add(ORDERS, BILLS)
    world.partitions.leaderless.add(BILLS)
    asking_again = producer.copy()
    assert producer.end(commit=True) is Code.NONE

    assert producer.add(ORDERS) is Code.CONCURRENT_TRANSACTIONS
    assert Producer(world).init() is Code.CONCURRENT_TRANSACTIONS
    assert asking_again.end(commit=True) is Code.CONCURRENT_TRANSACTIONS
    assert asking_again.end(commit=False) is Code.INVALID_TXN_STATE
    assert producer.verify(*ORDERS) is Code.NOT_ENOUGH_REPLICAS
    asked = producer.add_as_broker(ORDERS, verify_only=True)
    assert asked == {ORDERS: Code.CONCURRENT_TRANSACTIONS}

    (topic,) = world.describe().topics
    assert (topic.topic, topic.partitions) == ("bills", [0])
    assert world.state() == "PrepareCommit"


def test_a_marker_is_tried_again_after_the_backoff_and_written_once_there_is_a_leader() -> None:
    world = TransactionsWorld(marker_retry_backoff=0.5)
    producer = a_producer(world)
    producer.add(ORDERS, BILLS)
    world.partitions.leaderless.add(BILLS)
    producer.end(commit=True)
    assert world.coordinator.wake_at() == NOW + 0.5

    world.pass_time(10)
    assert world.state() == "PrepareCommit"
    world.partitions.leaderless.clear()
    world.pass_time(0.5)

    assert [one.place for one in world.partitions.markers] == [ORDERS, BILLS]
    assert world.state() == "CompleteCommit"


def test_a_partition_that_was_deleted_needs_no_marker(world: TransactionsWorld) -> None:
    producer = a_producer(world)
    producer.add(ORDERS, BILLS)
    del world.partitions.counts["bills"]

    producer.end(commit=True)

    assert [one.place for one in world.partitions.markers] == [ORDERS]
    assert world.state() == "CompleteCommit"


# Fencing.


@BOTH_PROTOCOLS
def test_a_new_producer_aborts_what_the_old_one_left_open_and_gets_its_epoch_by_asking_again(
    world: TransactionsWorld, bumps: bool
) -> None:
    old = a_producer(world, bumps=bumps)
    old.add(ORDERS)
    new = Producer(world, bumps=bumps)

    assert new.init() is Code.CONCURRENT_TRANSACTIONS
    assert world.partitions.markers == [Marker(ORDERS, (old.id, 1), commit=False)]
    assert new.init() is Code.NONE

    assert new.epoch == 2
    assert old.add(ORDERS) in (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH)
    assert old.end(commit=True) is Code.PRODUCER_FENCED
    assert new.add(ORDERS) is new.end(commit=True) is Code.NONE


@BOTH_PROTOCOLS
def test_a_transaction_that_is_open_too_long_is_aborted_against_its_producer(
    world: TransactionsWorld, bumps: bool
) -> None:
    producer = a_producer(world, bumps=bumps, timeout_ms=5000)
    world.pass_time(100)
    producer.add(ORDERS)
    world.pass_time(4)
    producer.add(BILLS)

    world.pass_time(0.9)
    assert world.state() == "Ongoing"
    world.pass_time(0.1)

    assert world.state() == "CompleteAbort"
    assert {one.producer for one in world.partitions.markers} == {(producer.id, 1)}
    assert producer.add(ORDERS) in (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH)


def test_with_kafka_s_interval_a_timeout_is_noticed_at_the_next_check() -> None:
    world = TransactionsWorld(abort_check_interval=10.0)
    producer = a_producer(world, timeout_ms=5000)
    producer.add(ORDERS)

    world.pass_time(9.9)
    assert world.state() == "Ongoing"
    world.pass_time(0.1)

    assert world.state() == "CompleteAbort"


def test_after_a_timeout_a_producer_of_kip_890_may_abort_and_go_on(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world, bumps=True, timeout_ms=5000)
    producer.add(ORDERS)
    world.pass_time(6)

    assert producer.end(commit=True, learn=False) is Code.INVALID_TXN_STATE
    assert producer.end(commit=False) is Code.NONE

    assert producer.epoch == 1
    assert producer.add(ORDERS) is producer.end(commit=True) is Code.NONE


def test_by_kip_890_a_start_finds_its_epoch_again_when_the_answer_to_the_end_was_lost(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world, bumps=True)
    producer.add(ORDERS)
    producer.end(commit=True, learn=False)

    assert producer.init(anew=False) is Code.NONE

    assert producer.epoch == 1


# When epochs run out.


@pytest.mark.parametrize("anew", [True, False])
def test_a_start_without_epochs_left_gets_a_new_producer_id(
    world: TransactionsWorld, anew: bool
) -> None:
    producer = at_epoch(world, LAST_EPOCH)
    before = producer.copy()

    assert producer.init(anew=anew) is Code.NONE

    assert producer.id != before.id
    assert producer.epoch == 0
    assert before.add(ORDERS) is Code.INVALID_PRODUCER_ID_MAPPING
    # Its retry is known by the id it had; nobody else's is.
    assert before.init(anew=False) is (Code.PRODUCER_FENCED if anew else Code.NONE)
    assert anew or (before.id, before.epoch) == (producer.id, 0)


def test_of_an_id_without_epochs_only_the_last_epoch_leads_to_the_next_id(
    world: TransactionsWorld,
) -> None:
    producer = at_epoch(world, LAST_EPOCH)
    ancient = producer.copy()
    ancient.epoch = 0
    producer.init(anew=False)

    assert ancient.init(anew=False) is Code.PRODUCER_FENCED
    assert world.describe().producer_epoch == 0


def test_by_kip_890_the_last_end_of_an_id_gives_the_next_id(world: TransactionsWorld) -> None:
    producer = at_epoch(world, LAST_EPOCH, bumps=True)
    producer.add(ORDERS)
    before = producer.copy()

    assert producer.end(commit=True) is Code.NONE

    assert producer.id != before.id
    assert producer.epoch == 0
    assert world.partitions.markers == [Marker(ORDERS, (before.id, LAST_EPOCH + 1), commit=True)]
    assert before.end(commit=True) is Code.NONE
    assert (before.id, before.epoch) == (producer.id, 0)
    assert producer.add(ORDERS) is producer.end(commit=True) is Code.NONE


def test_the_next_id_takes_over_only_when_the_markers_of_the_old_one_are_written(
    world: TransactionsWorld,
) -> None:
    producer = at_epoch(world, LAST_EPOCH, bumps=True)
    producer.add(ORDERS)
    world.partitions.leaderless.add(ORDERS)
    old = producer.id
    producer.end(commit=True)

    assert world.describe().producer_id == old
    world.restart()
    world.partitions.leaderless.clear()
    world.pass_time(1)

    assert world.describe().producer_id == producer.id != old
    assert world.describe().producer_epoch == 0


def test_a_timeout_at_the_last_epoch_gives_the_next_id_too(world: TransactionsWorld) -> None:
    producer = at_epoch(world, LAST_EPOCH, bumps=True)
    producer.add(ORDERS)
    old = producer.id

    world.pass_time(61)

    (marker,) = world.partitions.markers
    assert marker.producer == (old, LAST_EPOCH + 1)
    assert world.describe().producer_id != old
    assert producer.end(commit=False) is Code.NONE
    assert (producer.id, producer.epoch) == (world.describe().producer_id, 0)


# Moves, restarts, ids nobody uses.


@BOTH_PROTOCOLS
def test_an_open_transaction_outlives_a_restart_and_its_time_runs_on(
    world: TransactionsWorld, bumps: bool
) -> None:
    producer = a_producer(world, bumps=bumps)
    producer.add(ORDERS)
    producer.add_group("readers")
    world.pass_time(50)

    world.restart()
    assert producer.verify(*ORDERS) is Code.NONE
    world.pass_time(11)

    assert world.state() == "CompleteAbort"
    assert world.partitions.ended == [("readers", producer.id, False)]


def test_after_a_restart_only_missing_markers_are_written_under_a_higher_coordinator_epoch(
    world: TransactionsWorld,
) -> None:
    producer = a_producer(world)
    producer.add(ORDERS, BILLS)
    world.partitions.leaderless.add(BILLS)
    producer.end(commit=True)

    world.restart()
    world.partitions.leaderless.clear()
    world.pass_time(0)

    mine = (producer.id, 0)
    assert world.partitions.markers == [Marker(ORDERS, mine, True), Marker(BILLS, mine, True, 1)]


def test_a_coordinator_that_takes_over_goes_on_with_the_markers_of_its_ids(
    world: TransactionsWorld,
) -> None:
    for name in ("payer", "other"):
        producer = a_producer(world, transactional_id=name)
        producer.add(ORDERS)
        world.partitions.leaderless.add(ORDERS)
        producer.end(commit=True)
    world.partitions.leaderless.clear()

    world.coordinator.coordinator_moved(lambda name: name == "payer", world.now)

    assert (world.state("payer"), world.state("other")) == ("CompleteCommit", "PrepareCommit")
    assert [one.coordinator_epoch for one in world.partitions.markers] == [1]


def test_an_id_that_is_not_used_for_a_week_is_forgotten(world: TransactionsWorld) -> None:
    producer = a_producer(world)
    world.pass_time(6 * 24 * 3600)
    assert producer.add(ORDERS) is producer.end(commit=True) is Code.NONE
    world.pass_time(7 * 24 * 3600 - 1)
    assert world.state() == "CompleteCommit"

    world.pass_time(1)

    assert world.describe().error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    assert world.coordinator.wake_at() == math.inf
    world.restart()
    assert world.describe().error_code == Code.TRANSACTIONAL_ID_NOT_FOUND


# Looking at them.


def test_a_description_tells_what_is_open_since_when_and_whose(world: TransactionsWorld) -> None:
    producer = a_producer(world, timeout_ms=7000)
    world.pass_time(2)
    producer.add(("orders", 2), BILLS, ("orders", 1))
    producer.add_group("orders-group")

    shown = world.describe()

    assert (shown.producer_id, shown.producer_epoch) == (producer.id, 0)
    assert shown.transaction_timeout_ms == 7000
    assert shown.transaction_start_time_ms == (NOW + 2) * 1000
    assert {topic.topic: topic.partitions for topic in shown.topics} == {
        "orders": [2, 1],
        "bills": [0],
        # In Java the hash code of "orders-group" is -403968617.
        "__consumer_offsets": [17],
    }


def test_before_its_first_transaction_an_id_shows_no_start(world: TransactionsWorld) -> None:
    a_producer(world)

    assert world.describe().transaction_start_time_ms == -1
    assert world.describe("").error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("filters", "version", "names"),
    [
        ({}, 0, ["idle", "open", "long"]),
        ({"state_filters": ["Ongoing"]}, 0, ["open", "long"]),
        ({"producer_id_filters": [0]}, 0, ["idle"]),
        ({"duration_filter": 5000}, 1, ["idle", "long"]),
        ({"transactional_id_pattern": "o.*"}, 2, ["open"]),
        ({"transactional_id_pattern": "o"}, 2, []),
        ({"transactional_id_pattern": ""}, 2, ["idle", "open", "long"]),
    ],
)
def test_a_list_holds_what_passes_all_filters(
    world: TransactionsWorld, filters: dict[str, Any], version: int, names: list[str]
) -> None:
    idle, open_, long = (a_producer(world, transactional_id=n) for n in ("idle", "open", "long"))
    long.add(ORDERS)
    world.pass_time(6)
    open_.add(ORDERS)

    listed = world.ask(ListTransactionsRequest(**filters), version)

    assert [one.transactional_id for one in listed.transaction_states] == names
    assert idle.id == 0


def test_a_list_names_states_it_does_not_know_and_refuses_patterns_it_cannot_read(
    world: TransactionsWorld,
) -> None:
    a_producer(world)

    strange = world.ask(ListTransactionsRequest(state_filters=["Open", "Empty"]), 0)
    broken = world.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)

    assert strange.unknown_state_filters == ["Open"]
    assert len(strange.transaction_states) == 1
    assert broken.error_code == Code.INVALID_REGULAR_EXPRESSION


# The table.


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("trigger", Trigger)
def test_a_pair_of_state_and_trigger_is_in_the_table_or_refused(
    state: State, trigger: Trigger
) -> None:
    transaction = Transaction(
        transactional_id="payer", producer_id=1, producer_epoch=1, timeout_ms=1, updated=0.0
    )
    transaction.state = state
    act: Callable[[], None] = {
        Trigger.INITIALIZED: lambda: transaction.initialize(None, 1, 1.0),
        Trigger.ADDED: lambda: transaction.add([], [], bumps_epoch=False, now=1.0),
        Trigger.COMMITTED: lambda: _end(transaction, commit=True),
        Trigger.ABORTED: lambda: _end(transaction, commit=False),
        Trigger.FENCED: lambda: transaction.fence(next_producer_id=-1, now=1.0),
        Trigger.MARKED: lambda: transaction.complete(1.0),
        Trigger.EXPIRED: lambda: transaction.expire(1.0),
    }[trigger]

    if trigger in TRANSITIONS[state]:
        act()
        after = TRANSITIONS[state][trigger]
        # Fencing goes on to the abort at once.
        assert transaction.state is (State.PREPARE_ABORT if trigger is Trigger.FENCED else after)
    else:
        with pytest.raises(RuntimeError, match=trigger.value):
            act()
        assert transaction.state is state


def _end(transaction: Transaction, *, commit: bool) -> None:
    transaction.end(commit=commit, bumps_epoch=True, next_producer_id=-1, now=1.0)
