"""A setting's name from another client is refused with the name that it has here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aktor.consumer.configuration.configuration import parse
from aktor.consumer.configuration.table import SETTINGS
from aktor.errors import ConfigurationError

DOCS = Path(__file__).parents[4] / "docs"


def side_by_side(page: str, head: str, column: int) -> list[tuple[str, str]]:
    """The other client's names that we do not have, and ours (in this column of the table), as the
    page has them."""
    table = (DOCS / page).read_text().partition(head)[2]
    pairs = []
    for row in table.splitlines():
        if row.startswith("| `"):
            theirs, ours = (re.findall("`([a-z._]+)", row.split("|")[at]) for at in (1, column))
            pairs += [*zip((one.replace(".", "_") for one in theirs), ours, strict=False)]
    return [(one, other) for one, other in pairs if one not in SETTINGS and other in SETTINGS]


LIBRDKAFKA = side_by_side("coming-from-confluent.md", "| librdkafka |", 3)
AIOKAFKA = side_by_side("coming-from-aiokafka.md", "| aiokafka | aktor |\n|---|---|\n| `loop`", 2)


def test_the_pages_have_names_of_other_clients() -> None:
    assert len(LIBRDKAFKA) > 10
    assert AIOKAFKA == [("rebalance_timeout_ms", "max_poll_interval_ms")]


@pytest.mark.parametrize(("theirs", "ours"), [*LIBRDKAFKA, *AIOKAFKA])
def test_a_name_of_another_client_leads_to_ours(theirs: str, ours: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{ours}'"):
        parse({theirs: "1"})
