"""A setting's name from another client is refused with the name that it has here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aktor.consumer.configuration.configuration import parse
from aktor.consumer.configuration.table import SETTINGS
from aktor.errors import ConfigurationError

PAGE = Path(__file__).parents[4] / "docs" / "coming-from-confluent.md"


def side_by_side() -> list[tuple[str, str]]:
    """The names of librdkafka that are others than ours, and ours, as the page has them."""
    table = PAGE.read_text().partition("| librdkafka |")[2]
    pairs = []
    for row in table.splitlines():
        if row.startswith("| `"):
            theirs, ours = (re.findall("`([a-z._]+)", row.split("|")[at]) for at in (1, 3))
            pairs += [*zip((one.replace(".", "_") for one in theirs), ours, strict=False)]
    return [(one, other) for one, other in pairs if one not in SETTINGS and other in SETTINGS]


def test_the_page_has_names_of_another_client() -> None:
    assert len(side_by_side()) > 10


@pytest.mark.parametrize(("theirs", "ours"), side_by_side())
def test_a_name_of_another_client_leads_to_ours(theirs: str, ours: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{ours}'"):
        parse({theirs: "1"})
