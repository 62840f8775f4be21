"""Parts of files: each line is in one of them, wherever a file is cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from aktor.spark.rebalances import files
from aktor.spark.rebalances.selection import Selection

LINES = [b'{"a": 1}', b"", b"{}", b'{"torn', b"x" * 40, b'{"b": 2}']


@pytest.mark.parametrize("size", range(1, 30))
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_each_line_is_in_one_part(
    size: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 7)
    path, text = tmp_path / "a trace.jsonl", b"\n".join(LINES) + end
    path.write_bytes(text)

    found = [
        block
        for first in range(0, len(text), size)
        for block in files.blocks(path.as_uri(), first, min(first + size, len(text)))
    ]

    assert b"".join(found) == text
    assert all(block.endswith(b"\n") for block in found[:-1])


def test_a_packed_file_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(LINES)))

    assert b"".join(files.blocks(path.as_uri(), 0, -1)) == b"\n".join(LINES)


def test_lines_that_matter_are_found_once_and_torn_ones_are_counted() -> None:
    wanted = b'{"event": "poll.late", "because": "\\"event\\": \\"poll.late\\""}'
    other = b'{"event": "request.sent"}'
    twice = b'{"event": "poll.la{"event": "poll.late"}{"event": "poll.late"}'

    assert list(files._lines(b"\n".join([other, wanted, other, twice, b""]))) == [wanted, twice]
    torn = [other, b'{"event', b" ", wanted]
    assert list(files._lines(b"\n".join(torn))) == [b'{"event', wanted]


def test_what_is_torn_or_has_no_group_is_counted_by_its_reason() -> None:
    selection = Selection()
    for line in ('{"event', '{"event": "poll.late", "t": 1.0, "group": null}'):
        selection.take(line, "f")
    selection.end()

    rows = selection.batch().to_pylist()

    assert {row["source"]: row["line"] for row in rows} == {"selected": 2, "torn": 1, "no group": 1}
