"""Idempotent and transactional producers, as one partition sees them."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import PartitionLog
from tests.unit.broker.log.building import (
    NOW,
    NOW_MS,
    a_batch,
    a_log,
    end_transaction,
    in_transaction,
    values,
    write,
)

MAX = 2**31 - 1


def idempotent(sequence: int, *contents: bytes, epoch: int = 0, timestamp: int = NOW_MS) -> bytes:
    return a_batch(
        *(contents or (b"value",)),
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp=timestamp,
    )


def refusal(log: PartitionLog, batch: bytes) -> Code:
    end = log.end_offset
    with pytest.raises(Refused) as caught:
        log.append(batch, leader_epoch=0, now=NOW)
    assert log.end_offset == end
    return caught.value.code


def test_a_repeated_batch_is_answered_as_the_first_time_and_not_written() -> None:
    log = a_log()
    write(log, a_batch(b"other"))
    first = write(log, idempotent(0, b"a", b"b", timestamp=5))

    again = write(log, idempotent(0, b"a", b"b", timestamp=5))

    assert again.duplicate
    assert not first.duplicate
    assert (
        (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset) == (1, 2)
    )
    assert again.log_append_time == 5
    assert log.end_offset == 3


def test_the_last_five_batches_are_remembered() -> None:
    log = a_log()
    for sequence in range(6):
        write(log, idempotent(sequence))

    assert write(log, idempotent(1)).duplicate
    assert refusal(log, idempotent(0)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = a_log()
    write(log, idempotent(0, b"a", b"b"))

    assert refusal(log, idempotent(3)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, idempotent(2))


def test_a_part_of_a_batch_is_not_a_repetition() -> None:
    log = a_log()
    write(log, idempotent(0, b"a", b"b"))

    assert refusal(log, idempotent(0, b"a")) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = a_log()

    assert write(log, idempotent(41)).base_offset == 0
    assert refusal(log, idempotent(43)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_the_largest_sequence_comes_zero() -> None:
    log = a_log()
    write(log, idempotent(MAX - 1, b"a", b"b"))
    write(log, idempotent(0))

    assert write(log, idempotent(MAX - 1, b"a", b"b")).duplicate


def test_a_batch_may_run_over_the_largest_sequence() -> None:
    log = a_log()
    write(log, idempotent(MAX, b"a", b"b"))

    assert write(log, idempotent(MAX, b"a", b"b")).duplicate
    assert not write(log, idempotent(1)).duplicate


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    log = a_log()
    write(log, idempotent(0))

    assert refusal(log, idempotent(1, epoch=1)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, idempotent(0, epoch=1))
    assert refusal(log, idempotent(1)) == Code.INVALID_PRODUCER_EPOCH


def test_only_the_data_of_a_transaction_may_be_written_during_one() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a"))

    assert refusal(log, idempotent(1)) == Code.INVALID_TXN_STATE
    end_transaction(log, 7, commit=True)
    write(log, idempotent(1))


def test_an_old_producers_marker_and_an_old_coordinators_are_refused() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a", epoch=3))
    end_transaction(log, 7, epoch=3, coordinator=5, commit=True)

    with pytest.raises(Refused) as old_producer:
        end_transaction(log, 7, epoch=2, coordinator=5, commit=True)
    with pytest.raises(Refused) as old_coordinator:
        end_transaction(log, 7, epoch=3, coordinator=4, commit=True)

    assert old_producer.value.code == Code.INVALID_PRODUCER_EPOCH
    assert old_coordinator.value.code == Code.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_new_epoch_fences_and_starts_the_sequence_anew() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a", b"b"))
    end_transaction(log, 7, epoch=1, commit=False)

    assert refusal(log, in_transaction(7, 2, b"c")) == Code.INVALID_PRODUCER_EPOCH
    assert refusal(log, in_transaction(7, 2, b"c", epoch=1)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, in_transaction(7, 0, b"c", epoch=1))


def test_the_last_stable_offset_is_before_the_first_open_transaction() -> None:
    log = a_log()
    write(log, a_batch())
    write(log, in_transaction(7, 0, b"a"))
    write(log, in_transaction(8, 0, b"b"))

    assert log.last_stable_offset == 1
    assert log.in_transaction(7)
    end_transaction(log, 7, commit=True)
    assert not log.in_transaction(7)
    assert log.last_stable_offset == 2
    end_transaction(log, 8, commit=True)
    assert log.last_stable_offset == 5


def test_a_transaction_is_open_until_its_marker_is_replicated() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a"))
    log.append_marker(7, 0, commit=True, coordinator_epoch=0, leader_epoch=0, now=NOW)

    assert log.last_stable_offset == 0
    log.advance(2)
    assert log.last_stable_offset == 2


def test_the_last_stable_offset_is_never_beyond_the_high_watermark() -> None:
    log = a_log()
    write(log, a_batch())
    log.append(in_transaction(7, 0, b"a"), leader_epoch=0, now=NOW)

    assert log.last_stable_offset == 1
    log.append(a_batch(), leader_epoch=0, now=NOW)
    assert log.last_stable_offset == 1


def test_committed_reads_see_no_aborted_record() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"aborted"))
    write(log, in_transaction(8, 0, b"committed"))
    write(log, a_batch(b"plain"))
    end_transaction(log, 7, commit=False)
    write(log, in_transaction(7, 1, b"later"))
    end_transaction(log, 8, commit=True)
    end_transaction(log, 7, commit=True)

    assert values(log, read_committed=True) == [b"committed", b"plain", b"later"]
    assert values(log) == [b"aborted", b"committed", b"plain", b"later"]


def test_aborted_transactions_are_told_where_they_reach_into_what_is_read() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a"))  # 0
    end_transaction(log, 7, commit=False)  # 1
    write(log, a_batch())  # 2
    write(log, in_transaction(8, 0, b"b"))  # 3
    end_transaction(log, 8, commit=False)  # 4

    assert log.aborted(0, 5) == [(7, 0), (8, 3)]
    assert log.aborted(1, 3) == [(7, 0)]
    assert log.aborted(2, 3) == []
    assert log.aborted(2, 4) == [(8, 3)]


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    log = a_log()

    end_transaction(log, 7, commit=False)

    assert log.aborted(0, 1) == []
    assert log.last_stable_offset == 1


def test_producers_are_described() -> None:
    log = a_log()
    write(log, in_transaction(8, 0, b"a", b"b", epoch=1))
    write(log, in_transaction(7, 0, b"a"))
    end_transaction(log, 8, epoch=1, coordinator=4, commit=True)

    seven, eight = log.active_producers()

    assert tuple(seven) == (7, 0, 0, NOW_MS, -1, 2)
    assert tuple(eight) == (8, 1, 1, NOW_MS, 4, -1)


def test_a_producer_is_forgotten_after_a_day_but_not_during_a_transaction() -> None:
    log = a_log()
    write(log, idempotent(0))
    write(log, in_transaction(8, 0, b"a"))

    log.retain(NOW + 24 * 3600 - 1)
    assert len(log.active_producers()) == 2
    log.retain(NOW + 24 * 3600)
    assert [one.producer_id for one in log.active_producers()] == [8]


def test_a_truncation_undoes_what_was_written_after_it() -> None:
    log = a_log()
    write(log, in_transaction(7, 0, b"a"))  # 0
    log.append(in_transaction(7, 1, b"b"), leader_epoch=0, now=NOW)  # 1
    log.append_marker(7, 0, commit=False, coordinator_epoch=0, leader_epoch=0, now=NOW)  # 2
    log.append(in_transaction(8, 0, b"c"), leader_epoch=0, now=NOW)  # 3

    log.truncate(1)

    assert [one.producer_id for one in log.active_producers()] == [7]
    assert log.in_transaction(7)
    assert log.aborted(0, 10) == []
    assert not write(log, in_transaction(7, 1, b"b")).duplicate
    assert log.last_stable_offset == 0


def test_a_truncation_leaves_producers_whose_batches_were_deleted_long_ago() -> None:
    log = a_log()
    write(log, idempotent(0))
    write(log, a_batch())
    write(log, a_batch())
    log.delete_before(1)

    log.truncate(2)

    assert write(log, idempotent(0)).duplicate
    assert refusal(log, idempotent(2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
