"""Transactions: begun, written, ended; fenced, and seen by those who read committed."""

from __future__ import annotations

from typing import Any

from tests.kafka.recorded.batches import batch
from tests.kafka.recorded.world import Topic, World


def _init(world: World, name: str, version: int = 5, **fields: Any) -> Any:
    return world.ask(
        "InitProducerId",
        version,
        transactional_id=name,
        **{"transaction_timeout_ms": 60_000, **fields},
    )


def _init_when_ended(world: World, name: str) -> Any:
    """Ask until the open transaction, which this aborts, is out of the way."""
    while True:
        producer = _init(world, name)
        if producer.error_code != 51:  # CONCURRENT_TRANSACTIONS
            return producer


def _ids(producer: Any) -> dict[str, Any]:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}


def _add(world: World, name: str, producer: Any, *topics: Topic, version: int = 3) -> Any:
    return world.ask(
        "AddPartitionsToTxn",
        version,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": t.name, "partitions": [0]} for t in topics],
    )


def _write(
    world: World,
    name: str,
    producer: Any,
    topic: Topic,
    sequence: int,
    *values: str,
    version: int = 9,
    epoch: int | None = None,
) -> Any:
    whose = (producer.producer_id, producer.producer_epoch if epoch is None else epoch)
    data = batch(*values, producer=whose, sequence=sequence, transactional=True)
    return world.produce(topic, data, version=version, transactional_id=name)


def _end(
    world: World, name: str, producer: Any, commit: bool = True, version: int = 4, **f: Any
) -> Any:
    """End the transaction; while the markers of the one before are written, ask again."""
    while True:
        answer = world.ask(
            "EndTxn", version, transactional_id=name, **{**_ids(producer), **f}, committed=commit
        )
        if answer.error_code != 51:  # CONCURRENT_TRANSACTIONS
            return answer


def _written(world: World, topic: Topic, batches: int) -> None:
    """Wait until so many batches (markers count) stand in the log, for markers come later."""
    for _ in range(2000):
        answer = world.ask(
            "ListOffsets",
            7,
            replica_id=-1,
            isolation_level=1,
            topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        )
        if answer.topics[0].partitions[0].offset >= batches:
            return
    raise TimeoutError(f"the stable end of {topic} never came to {batches}")


def _settled(world: World, name: str) -> None:
    """Wait until the coordinator has finished the transaction."""
    for _ in range(2000):
        answer = world.ask("DescribeTransactions", 0, transactional_ids=[name])
        if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
            return
    raise TimeoutError(f"the transaction of {name} was never finished")


def _see_state(world: World, label: str, name: str) -> None:
    answer = world.ask("DescribeTransactions", 0, transactional_ids=[name])
    if answer.transaction_states[0].transaction_start_time_ms > 0:
        answer.transaction_states[0].transaction_start_time_ms = 1
    for topic in answer.transaction_states[0].topics:
        if topic.topic.startswith("__"):  # a partition of the offsets, by the name of the group
            topic.partitions = []
    world.note(label, answer)


def producer_ids_for_transactions(world: World) -> None:
    name = world.transactional_id()
    for version in range(6):
        world.note(f"v{version}", _init(world, name, version))
    world.note("empty id", _init(world, ""))
    world.note("another", _init(world, world.transactional_id()))


def producer_ids_that_are_refused(world: World) -> None:
    name = world.transactional_id()
    world.note("no timeout", _init(world, name, transaction_timeout_ms=0))
    world.note("negative timeout", _init(world, name, transaction_timeout_ms=-1))
    world.note("long timeout", _init(world, name, transaction_timeout_ms=900_001))
    world.note("longest timeout", _init(world, name, transaction_timeout_ms=900_000))
    world.note("id without epoch", _init(world, name, producer_id=5))
    world.note("epoch without id", _init(world, name, producer_epoch=5))
    world.note("an id nobody has", _init(world, name, producer_id=10**9, producer_epoch=0))
    world.note(
        "for another name",
        _init(world, world.transactional_id(), producer_id=10**9, producer_epoch=0),
    )


def a_producer_raises_its_own_epoch(world: World) -> None:
    name = world.transactional_id()
    first = _init(world, name)
    second = world.note("again, with id and epoch", _init(world, name, **_ids(first)))
    world.note("with the epoch before", _init(world, name, **_ids(first)))
    third = world.note("without", _init(world, name))
    world.note("two epochs behind", _init(world, name, **_ids(second)))
    world.note(
        "an epoch of the future",
        _init(world, name, producer_id=third.producer_id, producer_epoch=third.producer_epoch + 9),
    )


def a_committed_transaction_of_version_1(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _see_state(world, "state: initialised", name)
    world.note("add partitions", _add(world, name, producer, topic))
    _see_state(world, "state: begun", name)
    world.note("write", _write(world, name, producer, topic, 0, "a", "b"))
    world.ends("ends while open", topic)
    world.note("read committed while open", world.fetch(topic, isolation_level=1))
    world.note("end", _end(world, name, producer))
    _written(world, topic, 3)
    _settled(world, name)
    _see_state(world, "state: done", name)
    world.ends("ends", topic)
    world.note("read committed", world.fetch(topic, isolation_level=1))
    world.note("end again", _end(world, name, producer))
    world.note("abort what was committed", _end(world, name, producer, False))


def an_aborted_transaction_of_version_1(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _add(world, name, producer, topic)
    _write(world, name, producer, topic, 0, "a", "b")
    world.note("abort", _end(world, name, producer, False))
    _written(world, topic, 3)
    world.note("read committed", world.fetch(topic, isolation_level=1))
    world.note("read committed from the middle", world.fetch(topic, 1, isolation_level=1))
    world.note("read committed behind it", world.fetch(topic, 3, isolation_level=1))
    world.note("read uncommitted", world.fetch(topic))
    _settled(world, name)
    _see_state(world, "state", name)


def a_transaction_of_version_2_needs_no_adding(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    world.note("write", _write(world, name, producer, topic, 0, "a", version=12))
    _see_state(world, "state", name)
    ended = world.note("end", _end(world, name, producer, version=5))
    _written(world, topic, 2)
    _settled(world, name)
    _see_state(world, "state: done", name)
    world.note("read committed", world.fetch(topic, isolation_level=1))
    world.note("the epoch before", _write(world, name, producer, topic, 1, "b", version=12))
    world.note("the new epoch", _write(world, name, ended, topic, 0, "c", version=12))
    world.note("abort", _end(world, name, ended, False, version=5))


def end_of_version_2_repeated(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _write(world, name, producer, topic, 0, "a", version=12)
    ended = world.note("end", _end(world, name, producer, version=5))
    _settled(world, name)
    world.note("repeated with the old epoch", _end(world, name, producer, version=5))
    world.note("abort with the old epoch", _end(world, name, producer, False, version=5))
    world.note("an empty commit", _end(world, name, ended, version=5))
    world.note("an empty abort", _end(world, name, ended, False, version=5))


def ends_of_nothing(world: World) -> None:
    name = world.transactional_id()
    producer = _init(world, name)
    world.note("commit v4", _end(world, name, producer))
    world.note("abort v4", _end(world, name, producer, False))
    world.note("commit v5", _end(world, name, producer, version=5))
    other = world.transactional_id()
    producer = _init(world, other)
    world.note("abort v5", _end(world, other, producer, False, version=5))
    world.note("unknown name", _end(world, world.transactional_id(), producer))
    world.note("unknown id", _end(world, name, producer, producer_id=10**9))
    world.note("newer epoch", _end(world, name, producer, producer_epoch=99))
    world.note("empty name", _end(world, "", producer))


def all_versions_of_end(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    for version in range(5):
        while (
            _add(world, name, producer, topic)
            .results_by_topic_v3_and_below[0]
            .results_by_partition[0]
            .partition_error_code
            != 0
        ):
            pass
        _write(world, name, producer, topic, version, "a")
        world.note(f"v{version}", _end(world, name, producer, version % 2 == 0, version))
        _settled(world, name)


def all_versions_of_adding(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    for version in range(4):
        world.note(f"v{version}", _add(world, name, producer, topic, version=version))
    for version in (4, 5):
        world.see(
            f"v{version}",
            "AddPartitionsToTxn",
            version,
            f"v{version}",
            transactions=[
                {
                    "transactional_id": name,
                    **_ids(producer),
                    "topics": [{"name": topic.name, "partitions": [0]}],
                }
            ],
        )


def adding_that_is_refused(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    nowhere = Topic(world.name("nowhere"), topic.id, 1)
    world.note("unknown topic", _add(world, name, producer, nowhere))
    world.note("one of two", _add(world, name, producer, topic, nowhere))
    world.note("unknown name", _add(world, world.transactional_id(), producer, topic))
    world.note("empty name", _add(world, "", producer, topic))
    world.note("nothing", _add(world, name, producer))
    fenced = _init_when_ended(world, name)
    world.note("older epoch", _add(world, name, producer, topic))
    world.note("older epoch v1", _add(world, name, producer, topic, version=1))
    fenced.producer_epoch += 7
    world.note("newer epoch", _add(world, name, fenced, topic))
    fenced.producer_id += 1000
    world.note("another producer", _add(world, name, fenced, topic))


def a_new_producer_fences_the_old_one(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    old = _init(world, name)
    _add(world, name, old, topic)
    _write(world, name, old, topic, 0, "a")
    world.note("init while open", _init(world, name))
    world.note("init when aborted", _init_when_ended(world, name))
    _written(world, topic, 2)
    world.note("old writes", _write(world, name, old, topic, 1, "b"))
    world.note("old adds", _add(world, name, old, topic))
    world.note("old ends", _end(world, name, old))
    world.note("old ends v1", _end(world, name, old, version=1))
    world.note("old starts anew", _init(world, name, **_ids(old)))
    world.note("log", world.fetch(topic, isolation_level=1))


def writing_without_adding_is_refused_in_version_1(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    world.note("v9", _write(world, name, producer, topic, 0, "a"))
    world.note("v11", _write(world, name, producer, topic, 0, "a", version=11))
    world.note("unknown name", _write(world, world.transactional_id(), producer, topic, 0, "a"))
    data = batch("a", producer=(producer.producer_id, 0), sequence=0)
    world.note("not transactional", world.produce(topic, data, transactional_id=name))
    world.ends("ends", topic)


def records_outside_the_transaction_while_it_is_open(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _add(world, name, producer, topic)
    _write(world, name, producer, topic, 0, "a")
    inside = batch("b", producer=(producer.producer_id, producer.producer_epoch), sequence=1)
    world.note("without the mark", world.produce(topic, inside))
    world.note("somebody else's", world.produce(topic, batch("c")))
    world.ends("while open", topic)
    world.note("read committed", world.fetch(topic, isolation_level=1))
    world.note("read committed behind the stable end", world.fetch(topic, 2, isolation_level=1))
    _end(world, name, producer)
    _written(world, topic, 3)
    world.ends("when done", topic)


def two_transactions_side_by_side(world: World) -> None:
    topic, one, two = world.topic(), world.transactional_id(), world.transactional_id()
    first, second = _init(world, one), _init(world, two)
    _add(world, one, first, topic)
    _add(world, two, second, topic)
    _write(world, one, first, topic, 0, "first")
    _write(world, two, second, topic, 0, "second")
    _end(world, two, second, False)
    _settled(world, two)
    world.ends("one is open", topic)
    _end(world, one, first, True)
    _written(world, topic, 4)
    world.ends("both done", topic)
    world.note("read committed", world.fetch(topic, isolation_level=1))


def a_reader_of_committed_records_waits_for_the_marker(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _add(world, name, producer, topic)
    _write(world, name, producer, topic, 0, "a")
    later = world.send_fetch(topic, 0, "b", isolation_level=1, max_wait_ms=10_000)
    world.note("waits", later.answer(0.2))
    _end(world, name, producer)
    world.note("comes", later.answer())


def an_aborted_transaction_without_records(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _add(world, name, producer, topic)
    _end(world, name, producer, False)
    _settled(world, name)
    world.note("log", world.fetch(topic, isolation_level=1))
    world.ends("ends", topic)


def offsets_in_a_transaction(world: World) -> None:
    topic, name, group = world.topic(), world.transactional_id(), world.group()
    producer = _init(world, name)
    world.see(
        "add group", "AddOffsetsToTxn", 3, transactional_id=name, **_ids(producer), group_id=group
    )
    _commit(world, "commit", name, group, producer, topic, 5)
    _fetch_offset(world, "while open", group, topic)
    _fetch_offset(world, "stable while open", group, topic, require_stable=True)
    world.note("end", _end(world, name, producer))
    _settled(world, name)
    _until(world, group, topic, 5)
    _fetch_offset(world, "when done", group, topic)
    _fetch_offset(world, "stable when done", group, topic, require_stable=True)


def _until(world: World, group: str, topic: Topic, offset: int) -> None:
    asked = [{"name": topic.name, "partition_indexes": [0]}]
    for _ in range(2000):
        answer = world.ask(
            "OffsetFetch", 8, require_stable=True, groups=[{"group_id": group, "topics": asked}]
        )
        if answer.groups[0].topics[0].partitions[0].committed_offset == offset:
            return
    raise TimeoutError(f"offset {offset} was never committed")


def _commit(
    world: World,
    label: str,
    name: str,
    group: str,
    producer: Any,
    topic: Topic,
    offset: int,
    version: int = 4,
    **fields: Any,
) -> None:
    one = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    world.see(
        label,
        "TxnOffsetCommit",
        version,
        transactional_id=name,
        group_id=group,
        **{**_ids(producer), "topics": [{"name": topic.name, "partitions": one}], **fields},
    )


def _fetch_offset(world: World, label: str, group: str, topic: Topic, **fields: Any) -> None:
    asked = [{"name": topic.name, "partition_indexes": [0]}]
    world.see(label, "OffsetFetch", 8, groups=[{"group_id": group, "topics": asked}], **fields)


def offsets_of_an_aborted_transaction(world: World) -> None:
    topic, name, group = world.topic(), world.transactional_id(), world.group()
    producer = _init(world, name)
    world.ask("AddOffsetsToTxn", 3, transactional_id=name, **_ids(producer), group_id=group)
    _commit(world, "commit", name, group, producer, topic, 5)
    world.note("abort", _end(world, name, producer, False))
    _settled(world, name)
    _until(world, group, topic, -1)
    _fetch_offset(world, "fetch", group, topic)


def offsets_in_a_transaction_of_version_2(world: World) -> None:
    topic, name, group = world.topic(), world.transactional_id(), world.group()
    producer = _init(world, name)
    _commit(world, "commit v5, without adding the group", name, group, producer, topic, 7, 5)
    _see_state(world, "state", name)
    world.note("end", _end(world, name, producer, version=5))
    _until(world, group, topic, 7)
    _fetch_offset(world, "fetch", group, topic)


def offsets_that_are_refused_in_a_transaction(world: World) -> None:
    topic, name, group = world.topic(), world.transactional_id(), world.group()
    producer = _init(world, name)
    _commit(world, "group not added, v4", name, group, producer, topic, 5)
    world.ask("AddOffsetsToTxn", 3, transactional_id=name, **_ids(producer), group_id=group)
    _commit(
        world, "unknown member", name, group, producer, topic, 5, member_id="m", generation_id=1
    )
    _commit(world, "unknown generation", name, group, producer, topic, 5, generation_id=4)
    _commit(
        world,
        "unknown instance",
        name,
        group,
        producer,
        topic,
        5,
        group_instance_id="i",
        member_id="m",
        generation_id=1,
    )
    _commit(
        world, "unknown topic", name, group, producer, Topic(world.name("nowhere"), topic.id, 1), 5
    )
    _commit(world, "empty group", name, "", producer, topic, 5)
    world.see(
        "add an empty group",
        "AddOffsetsToTxn",
        3,
        transactional_id=name,
        **_ids(producer),
        group_id="",
    )
    world.see(
        "add with a wrong producer",
        "AddOffsetsToTxn",
        3,
        transactional_id=name,
        producer_id=10**9,
        producer_epoch=0,
        group_id=group,
    )
    newer = _ids(producer) | {"producer_epoch": 9}
    world.see(
        "add with a newer epoch",
        "AddOffsetsToTxn",
        3,
        transactional_id=name,
        **newer,
        group_id=group,
    )


def transactions_are_listed_and_described(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    _see_state(world, "unknown", name)

    def listed(label: str, version: int = 1, **fields: Any) -> None:
        answer = world.ask("ListTransactions", version, **fields)
        mine = [each for each in answer.transaction_states if each.transactional_id == name]
        answer.transaction_states = mine
        world.note(label, answer)

    producer = _init(world, name)
    listed("initialised")
    _add(world, name, producer, topic)
    listed("begun")
    listed("Ongoing", state_filters=["Ongoing"])
    listed("Empty", state_filters=["Empty"])
    listed("no such state", state_filters=["Happy"])
    listed("its producer", producer_id_filters=[producer.producer_id])
    listed("another producer", producer_id_filters=[producer.producer_id + 10**6])
    listed("long running", duration_filter=600_000)
    listed("by pattern", 2, transactional_id_pattern="txn.*")
    listed("by another pattern", 2, transactional_id_pattern="other.*")
    listed("by a bad pattern", 2, transactional_id_pattern="[")
    _end(world, name, producer)
    _settled(world, name)
    listed("done")


def producers_in_a_transaction_are_described(world: World) -> None:
    topic, name = world.topic(), world.transactional_id()
    producer = _init(world, name)
    _add(world, name, producer, topic)
    _write(world, name, producer, topic, 0, "a")
    asked = [{"name": topic.name, "partition_indexes": [0]}]
    world.see("open", "DescribeProducers", 0, topics=asked)
    _end(world, name, producer)
    _written(world, topic, 2)
    world.see("done", "DescribeProducers", 0, topics=asked)
