"""How the trace names records: by runs of offsets, never one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

__all__ = ["runs"]

#: The most runs in one trace event: a longer list would be cut.
RUNS_MAX: Final = 50


def runs(records: Sequence[Any]) -> Iterator[dict[str, list[Any]]]:
    """Offsets 1, 2, 3, 7 as [[1, 3], [7, 7]], and the timestamp of the first record of each run,
    which is all of one leader epoch; in parts that an event can hold."""
    offsets: list[list[int]] = []
    times: list[int] = []
    for first, last in _runs(records):
        offsets.append([first.offset, last.offset])
        times.append(first.timestamp)
        if len(offsets) == RUNS_MAX:
            yield {"offsets": offsets, "times": times}
            offsets, times = [], []
    if offsets:
        yield {"offsets": offsets, "times": times}


def _runs(records: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The first and the last record of each run."""
    first, last = records[0], records[-1]
    if first.leader_epoch == last.leader_epoch and last.offset - first.offset < len(records):
        yield first, last
        return
    last = first
    for record in records[1:]:
        if record.offset != last.offset + 1 or record.leader_epoch != last.leader_epoch:
            yield first, last
            first = record
        last = record
    yield first, last
