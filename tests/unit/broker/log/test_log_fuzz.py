"""A log against the simplest model of one, and bytes that nobody meant."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.broker.codes import Refused
from aktor.broker.log.batches import assemble
from aktor.broker.log.log import PartitionLog
from aktor.broker.log.records import UNREADABLE, records_in
from aktor.broker.log.store import FileStore, MemoryStore, Store
from aktor.records.batch import HEADER_SIZE, BatchHeader
from tests.unit.broker.log.building import NOW, a_batch, a_log, in_transaction, write
from tests.unit.records.building import with_right_checksum


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_written(data: bytes) -> None:
    log = a_log()

    with contextlib.suppress(Refused):
        log.append(data, leader_epoch=0, now=NOW)


@settings(max_examples=400, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    codec=st.integers(0, 4),
    repair=st.booleans(),
    policy=st.sampled_from(["compact", "delete"]),
)
def test_a_damaged_batch_never_breaks_the_log(
    changes: list[tuple[int, int]], codec: int, repair: bool, policy: str
) -> None:
    data = bytearray(a_batch(b"one", b"two", keys=[b"a", b"b"], codec=codec))
    for at, byte in changes:
        data[at % len(data)] = byte
    damaged = with_right_checksum(bytes(data)) if repair else bytes(data)
    log = a_log(cleanup_policy=frozenset({policy}))

    with contextlib.suppress(Refused):
        log.append(damaged, leader_epoch=0, now=NOW)
    log.advance(log.end_offset)
    log.offset_for_time(0)
    log.max_timestamp()
    log.compact(NOW, force=True)
    log.read(0, 1000, upto=log.end_offset)
    log.retain(NOW + 10**7)
    log.truncate(0)


@settings(max_examples=200, deadline=None)
@given(payload=st.binary(max_size=60), codec=st.integers(0, 4), count=st.integers(0, 5))
def test_undecodable_records_are_said_to_be(payload: bytes, codec: int, count: int) -> None:
    batch = assemble(payload, count=count, attributes=codec)

    with contextlib.suppress(*UNREADABLE):
        assert len(records_in(BatchHeader.read(batch), batch)) == count


class Model:
    """Batches as (base offset, count)."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.start = self.end = 0

    def expect(self, offset: int, upto: int) -> list[int]:
        """The bases of what is read."""
        return [
            base
            for base, count in self.batches
            if base + count > offset and base + count <= max(upto, 0) and offset < upto
        ]


def bases(data: bytes | bytearray | memoryview) -> list[int]:
    """The base offsets of the whole batches; the last one may be cut off."""
    found, at = [], 0
    while at + HEADER_SIZE <= len(data):
        header = BatchHeader.read(data, at)
        at += header.size
        if at <= len(data):
            found.append(header.base_offset)
    return found


@pytest.mark.few_cases
@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("seed", range(12))
def test_a_log_is_like_its_model(
    seed: int, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed)
    make: Callable[[], Store] = MemoryStore
    if kind == "file":
        folder = tmp_path_factory.mktemp("log")
        make = lambda: FileStore(folder, segment_bytes=20_000)  # noqa: E731
    log, model = PartitionLog(store=make()), Model()
    largest = rng.choice([50, 3_000, 40_000])

    for _ in range(150):
        match rng.choices(["write", "truncate", "delete", "punch", "restart"], [90, 3, 5, 4, 3])[0]:
            case "write":
                count = rng.randint(1, 4)
                contents = [bytes(rng.randint(0, largest // count)) for _ in range(count)]
                write(log, a_batch(*contents))
                model.batches.append((model.end, count))
                model.end += count
            case "truncate" if model.batches:
                offset = rng.choice(model.batches)[0]
                if offset < model.start:
                    continue
                log.truncate(offset)
                model.batches = [one for one in model.batches if one[0] < offset]
                model.end = offset
            case "delete":
                offset = rng.randint(model.start, model.end)
                assert log.delete_before(offset) == offset
                model.start = offset
                model.batches = [one for one in model.batches if sum(one) > offset]
            case "punch" if len(model.batches) > 1:
                gone = rng.choice(model.batches[:-1])
                log.punch(range(gone[0], sum(gone)))
                model.batches.remove(gone)
            case "restart" if kind == "file":
                log.close()
                log = PartitionLog(store=make(), start_offset=model.start)
                # A gap at the end, where the log was truncated, is forgotten; in Kafka too.
                model.end = max([model.start, *(sum(one) for one in model.batches)])

        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        offset = rng.randint(model.start, model.end)
        upto = rng.choice([model.end, *(base for base, _ in model.batches)])
        assert bases(log.read(offset, 10**9, upto=upto)) == model.expect(offset, upto)
        limit = rng.randint(0, 3 * largest)
        some = log.read(offset, limit, upto=model.end, min_one=False)
        assert len(some) <= limit
        assert bases(some) == model.expect(offset, model.end)[: len(bases(some))]
        one = log.read(offset, limit, upto=model.end, min_one=True)
        assert bool(one) == bool(model.expect(offset, model.end))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("wwwca")), max_size=25))
def test_the_last_stable_offset_is_that_of_a_simple_count(steps: list[tuple[int, str]]) -> None:
    log, open_since, sequences = a_log(), dict[int, int](), dict[int, int]()
    for producer_id, step in steps:
        if step == "w":
            open_since.setdefault(producer_id, log.end_offset)
            sequence = sequences.get(producer_id, 0)
            write(log, in_transaction(producer_id, sequence, b"value"))
            sequences[producer_id] = sequence + 1
        else:
            log.append_marker(
                producer_id, 0, commit=step == "c", coordinator_epoch=0, leader_epoch=0, now=NOW
            )
            log.advance(log.end_offset)
            open_since.pop(producer_id, None)

        assert log.last_stable_offset == min(open_since.values(), default=log.end_offset)
