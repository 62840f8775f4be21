"""The demo's referee: what it lets pass, and that whatever can go wrong fails the verdict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aktor.demo.referee import Gap, Rebalance, Referee

Act = Callable[[Referee], None]

ALICE, BOB = "alice", "bob"


def a_game() -> Referee:
    """Two partitions of ten orders; alice owns partition 0, bob partition 1; nothing is read."""
    referee = Referee(partitions=2)
    for partition in range(2):
        referee.wrote(partition, 0, [2 * one + partition for one in range(10)])
    for partition, member in enumerate((ALICE, BOB)):
        referee.assigned(member, [partition], at=0.0)
        referee.rebalanced(member, generation=1, because="first join", ms=10.0, at=0.0)
    return referee


def read(referee: Referee, member: str, partition: int, offsets: range, *, at: float = 1.0) -> None:
    """`member` reads what was written at these offsets, after a tenth of a second."""
    orders = [2 * offset + partition for offset in offsets]
    referee.read(member, partition, offsets.start, orders, waited=0.1, at=at)


def read_all(referee: Referee) -> Referee:
    read(referee, ALICE, 0, range(10))
    read(referee, BOB, 1, range(10))
    return referee


def a_takeover(referee: Referee, *, from_offset: int) -> Referee:
    """Bob is killed after he read 6 and committed 4; alice goes on from an offset, to the end."""
    read(referee, ALICE, 0, range(10))
    read(referee, BOB, 1, range(4))
    referee.committed(BOB, {1: 4})
    read(referee, BOB, 1, range(4, 6))
    referee.killed(BOB, at=2.0)
    referee.assigned(ALICE, [1], at=8.0)
    referee.rebalanced(ALICE, generation=2, because="bob was silent", ms=5.0, at=8.0)
    read(referee, ALICE, 1, range(from_offset, 10), at=8.0)
    return referee


def test_a_game_in_which_every_record_is_read_once_is_without_fault() -> None:
    verdict = read_all(a_game()).verdict(lag=0)

    assert verdict.faults == ()
    assert (verdict.written, verdict.deliveries, verdict.delivered) == (20, 20, 20)
    assert (verdict.lost, verdict.repeated_by_kill, verdict.repeated_otherwise) == (0, 0, 0)


def test_what_a_killed_member_had_read_and_not_committed_may_be_read_again() -> None:
    verdict = a_takeover(a_game(), from_offset=4).verdict(lag=0)

    assert verdict.faults == ()
    assert verdict.repeated_by_kill == 2
    assert verdict.deliveries == 22
    assert verdict.delivered == 20


def test_what_a_killed_member_had_committed_may_not_be_read_again() -> None:
    verdict = a_takeover(a_game(), from_offset=3).verdict(lag=0)

    assert (verdict.repeated_by_kill, verdict.repeated_otherwise) == (2, 1)
    assert "1 records were read twice without a reason" in verdict.faults[0]
    assert (
        "partition 1, offset 3, after bob had read it (committed 4, ended: killed)"
        in (verdict.faults[0])
    )


def test_a_record_that_the_heir_of_a_killed_member_skips_is_lost() -> None:
    verdict = a_takeover(a_game(), from_offset=7).verdict(lag=0)

    assert verdict.lost == 1
    assert verdict.faults == (
        "1 records were written and never read, the first: partition 1, offset 6",
    )


def nothing_of_partition_1_is_read(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))


def the_end_is_not_read(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))
    read(referee, BOB, 1, range(9))


def a_batch_is_read_twice(referee: Referee) -> None:
    read_all(referee)
    read(referee, BOB, 1, range(8, 10))


def a_batch_is_read_again_after_a_revocation(referee: Referee) -> None:
    read_all(referee)
    referee.released(BOB, [1], "revoked")
    referee.assigned(ALICE, [1], at=2.0)
    read(referee, ALICE, 1, range(8, 10), at=2.0)


def batches_are_swapped(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))
    for offsets in (range(3), range(6, 10), range(3, 6)):
        read(referee, BOB, 1, offsets)


def somebody_elses_partition_is_read(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))
    read(referee, ALICE, 1, range(10))


def orders_are_read_at_the_wrong_offset(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))
    referee.read(BOB, 1, 0, [1, 5, 3, *range(7, 21, 2)], waited=0.1, at=1.0)


def more_is_read_than_was_written(referee: Referee) -> None:
    read_all(referee)
    read(referee, BOB, 1, range(10, 11))


def two_members_read_a_partition_at_the_same_time(referee: Referee) -> None:
    read(referee, ALICE, 0, range(10))
    read(referee, BOB, 1, range(3), at=1.0)
    referee.assigned(ALICE, [1], at=2.0)
    read(referee, ALICE, 1, range(3, 6), at=2.0)
    read(referee, BOB, 1, range(3, 6), at=3.0)
    read(referee, ALICE, 1, range(6, 10), at=4.0)


def a_partition_is_committed_by_a_stranger(referee: Referee) -> None:
    read_all(referee)
    referee.committed(ALICE, {1: 10})


def a_partition_is_given_up_by_a_stranger(referee: Referee) -> None:
    read_all(referee)
    referee.released(ALICE, [1], "revoked")


def an_offset_is_acknowledged_twice(referee: Referee) -> None:
    read_all(referee)
    referee.wrote(1, 9, [19])


def nobody_inherits_from_the_killed_member(referee: Referee) -> None:
    read_all(referee)
    referee.killed(BOB, at=2.0)
    referee.rebalanced(ALICE, generation=2, because="bob was silent", ms=5.0, at=8.0)


def the_group_does_not_notice_the_kill(referee: Referee) -> None:
    read_all(referee)
    referee.killed(BOB, at=2.0)
    referee.assigned(ALICE, [1], at=8.0)


def who_comes_back_gets_nothing(referee: Referee) -> None:
    read_all(referee)
    referee.returned("bob again")


def something_else_breaks(referee: Referee) -> None:
    read_all(referee)
    referee.fault("bob ended by itself")


@pytest.mark.parametrize(
    ("happens", "fault"),
    [
        (nothing_of_partition_1_is_read, "10 records were written and never read"),
        (the_end_is_not_read, "1 records were written and never read"),
        (a_batch_is_read_twice, "2 records were read twice without a reason"),
        (a_batch_is_read_again_after_a_revocation, "2 records were read twice without a reason"),
        (batches_are_swapped, "bob read partition 1, offset 6 where 3 was next"),
        (somebody_elses_partition_is_read, "without owning the partition"),
        (orders_are_read_at_the_wrong_offset, "order 5 was read at partition 1, offset 1"),
        (more_is_read_than_was_written, "where nothing was written"),
        (two_members_read_a_partition_at_the_same_time, "bob and alice read partition 1 at the"),
        (a_partition_is_committed_by_a_stranger, "alice committed partition 1, which it did not"),
        (a_partition_is_given_up_by_a_stranger, "alice gave up partition 1, which it did not own"),
        (an_offset_is_acknowledged_twice, "two orders were acknowledged at partition 1, offset 9"),
        (nobody_inherits_from_the_killed_member, "nobody took over the partitions [1] of bob"),
        (the_group_does_not_notice_the_kill, "the group did not rebalance after bob was killed"),
        (who_comes_back_gets_nothing, "bob again came back and got no partition"),
        (something_else_breaks, "bob ended by itself"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_verdict_names_what_went_wrong(happens: Act, fault: str) -> None:
    referee = a_game()

    happens(referee)

    assert any(fault in one for one in referee.verdict(lag=0).faults)


@pytest.mark.parametrize(
    ("lag", "fault"),
    [(3, "the group's lag is 3, not 0"), (None, "Kafka could not be asked for the group's lag")],
)
def test_a_group_that_has_not_committed_everything_fails(lag: int | None, fault: str) -> None:
    assert read_all(a_game()).verdict(lag=lag).faults == (fault,)


def test_a_thousand_faults_are_told_in_a_few_lines() -> None:
    referee = a_game()
    for _ in range(1000):
        referee.fault("it broke")

    assert len(referee.verdict(lag=0).faults) < 10


def test_a_batch_that_arrives_after_the_kill_was_still_read_before_it() -> None:
    referee = a_game()
    read(referee, ALICE, 0, range(10))
    referee.killed(BOB, at=2.0)
    read(referee, BOB, 1, range(6), at=1.9)
    referee.committed(BOB, {1: 4})

    referee.assigned(ALICE, [1], at=8.0)
    referee.rebalanced(ALICE, generation=2, because="bob was silent", ms=5.0, at=8.0)
    read(referee, ALICE, 1, range(4, 10), at=8.0)

    assert referee.verdict(lag=0).faults == ()


def test_rebalances_are_told_with_what_began_them() -> None:
    referee = a_takeover(a_game(), from_offset=4)
    referee.returned("bob again")
    referee.rebalanced("bob again", generation=3, because="first join", ms=7.0, at=9.0)
    referee.rebalanced(ALICE, generation=3, because="a partition was added", ms=9.0, at=9.0)
    referee.rebalanced(ALICE, generation=4, because="a partition was added", ms=1.0, at=9.5)

    assert referee.verdict(lag=0).rebalances == (
        Rebalance(generation=1, trigger="alice joined; bob joined", ms=10.0, members=(ALICE, BOB)),
        Rebalance(generation=2, trigger="bob was killed", ms=5.0, members=(ALICE,)),
        Rebalance(
            generation=3, trigger="bob again came back", ms=9.0, members=(ALICE, "bob again")
        ),
        Rebalance(generation=4, trigger="a partition was added", ms=1.0, members=(ALICE,)),
    )


def test_a_partition_stands_still_only_while_records_wait_in_it() -> None:
    referee = a_game()
    read(referee, ALICE, 0, range(5), at=1.0)
    referee.read(ALICE, 0, 5, [10, 12], waited=0.2, at=20.0)
    referee.read(ALICE, 0, 7, [14, 16, 18], waited=3.0, at=22.0)

    assert referee.verdict(lag=0).gap_of_others == Gap(partition=0, seconds=2.0)


def test_the_standstill_of_a_killed_members_partitions_is_told_apart() -> None:
    referee = a_game()
    read(referee, BOB, 1, range(5), at=1.0)
    read(referee, ALICE, 0, range(10), at=1.0)
    referee.killed(BOB, at=1.0)
    referee.assigned(ALICE, [1], at=7.0)
    referee.read(ALICE, 1, 5, [11, 13, 15, 17, 19], waited=6.0, at=7.0)

    verdict = referee.verdict(lag=0)
    assert verdict.gap_of_killed == Gap(partition=1, seconds=6.0)
    assert verdict.gap_of_others == Gap(partition=0, seconds=0.1)


def test_what_is_unread_and_who_owns_what_can_be_asked_meanwhile() -> None:
    referee = a_game()
    read(referee, ALICE, 0, range(7))

    assert (referee.lag_of(0), referee.outstanding) == (3, 13)
    assert referee.owners() == {0: ALICE, 1: BOB}
    assert referee.is_covered_by([ALICE, BOB])
    assert not referee.is_covered_by([ALICE])
