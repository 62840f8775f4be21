"""The loops in a simulation: each order has one invoice, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import CheckFailedError, Simulation, Stored
from examples.consume_transform_produce.loop import commit_inside, commit_outside


def order_of(invoice: Stored) -> bytes:
    return (invoice.value or b"").removeprefix(b"invoice for ")


def judge(seed: int, loop: Callable[..., Any]) -> None:
    """Two processes work; some are killed, and others started in their place."""
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=2)
        invoices = sim.topic("invoices", partitions=2)
        sim.trickle(orders, per_second=5, seconds=30)
        sim.sink(orders, "exactly-once", into=invoices, of=order_of)
        for number in range(2):
            sim.member(loop, sim.bootstrap_servers, f"billing-{number}")
        sim.chaos(for_=30).run(for_=30)
        sim.heal().progress().check()


@pytest.mark.parametrize("seed", range(5))
def test_each_order_has_one_invoice_if_offsets_are_part_of_the_transaction(seed: int) -> None:
    judge(seed, commit_inside)


def judge_some(loop: Callable[..., Any]) -> None:
    for seed in range(5):
        judge(seed, loop)


def test_a_seed_shows_that_who_commits_outside_of_the_transaction_bills_twice() -> None:
    with pytest.raises(CheckFailedError, match=r"orders-.* had its effect more than once"):
        judge_some(commit_outside)
