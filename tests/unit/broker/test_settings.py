"""Settings of the cluster: what makes no sense is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.groups.settings import GroupSettings
from aktor.broker.settings import ClusterSettings
from aktor.broker.transactions import TransactionSettings


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ClusterSettings, "retention_check", 0),
        (ClusterSettings, "cleaner_backoff", 0),
        (ClusterSettings, "partitions", 0),
        (ClusterSettings, "replication_factor", -1),
        (GroupSettings, "min_session_timeout", -0.5),
        (GroupSettings, "consumer_session_timeout", float("nan")),
        (TransactionSettings, "marker_retry_backoff", 0.0),
        (TransactionSettings, "max_timeout", float("inf")),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{kind.__name__}\({name}={value}\): must be"):
        kind(**{name: value})


def test_what_may_be_nothing_may_be_nothing() -> None:
    groups = GroupSettings(initial_rebalance_delay=0, consumer_assignment_interval=0)

    assert ClusterSettings(groups=groups).groups is groups
