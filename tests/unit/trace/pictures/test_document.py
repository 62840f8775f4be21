"""docs/rebalances.md: its sentences and its pictures are those of the incidents that it replays."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from aktor.trace.rebalances import read_files
from examples import incidents

DOCUMENTS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize("name", incidents.INCIDENTS)
def test_an_incident_is_as_the_page_tells_it(name: str, tmp_path: Path) -> None:
    incidents.replay(name, tmp_path)

    sentences = [row.sentence for row in read_files([str(tmp_path)]).rebalances]

    page = (DOCUMENTS / "rebalances.md").read_text()
    section = page[page.index(f"rebalances/{name}.svg") :]
    told = " ".join(line[2:] for line in section.splitlines()[:8] if line.startswith("> "))
    assert told in sentences
    picture = (DOCUMENTS / "rebalances" / f"{name}.svg").read_text()
    words = " ".join(ElementTree.fromstring(picture).itertext())
    assert re.sub(r"\W", "", told[:300]) in re.sub(r"\W", "", words)


def test_each_picture_is_shown_and_small() -> None:
    page = (DOCUMENTS / "rebalances.md").read_text()

    pictures = sorted((DOCUMENTS / "rebalances").iterdir())
    assert len(pictures) == 5
    for picture in pictures:
        assert f"](rebalances/{picture.name})" in page
        assert picture.stat().st_size < 150_000
