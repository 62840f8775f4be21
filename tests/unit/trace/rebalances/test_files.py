"""Trace files of many consumers, read together."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path
from threading import Thread

import pytest

from aktor.trace.rebalances import Tables, read, read_files, to_pandas, to_polars
from aktor.trace.rebalances.files import WINDOW_MIN, rows_of
from aktor.trace.rebalances.tables import TABLES, times_of
from tests.unit.trace.rebalances.told import BEGAN, STORMS, storm_lines, storm_rows


def a_storm() -> tuple[str, ...]:
    """The lines of all members of a group with which everything goes wrong."""
    return storm_lines(*STORMS[0])


def expected() -> Tables:
    """What they tell."""
    return Tables(storm_rows(*STORMS[0]))


@cache
def beginning() -> tuple[tuple[str, ...], Tables]:
    """Its first lines, and what they tell: enough for who asks whether a file is read at all."""
    lines = a_storm()[:1000]
    tables = Tables(read(lines)[0])
    assert tables.rebalances
    return lines, tables


def packed() -> bytes:
    """All of them, as gzip makes it."""
    return gzip.compress("".join(f"{line}\n" for line in a_storm()).encode())


def split(folder: Path) -> list[str]:
    """A file for each member, as they are written."""
    by_trace: dict[str, list[str]] = {}
    for line in a_storm():
        by_trace.setdefault(json.loads(line)["trace"], []).append(line)
    for trace, its in by_trace.items():
        (folder / f"{trace}.jsonl").write_text("\n".join(its) + "\n")
    return sorted(str(file) for file in folder.iterdir())


def test_the_files_of_the_members_give_what_all_their_lines_give(tmp_path: Path) -> None:
    files = split(tmp_path)

    tables = read_files([str(tmp_path)])

    assert len(files) > 2
    assert {name: tables[name] for name in TABLES} == {name: expected()[name] for name in TABLES}
    assert tables.counts["lines"] == len(a_storm())


def test_files_that_were_rotated_and_packed_give_the_same(tmp_path: Path) -> None:
    for number, file in enumerate(split(tmp_path)):
        lines = Path(file).read_text().splitlines(keepends=True)
        Path(file).unlink()
        middle = len(lines) // 2
        (tmp_path / f"{number}.jsonl.1.gz").write_bytes(
            gzip.compress("".join(lines[:middle]).encode())
        )
        (tmp_path / f"{number}.jsonl").write_text("".join(lines[middle:]))

    tables = read_files([str(tmp_path)])

    assert tables.rebalances == expected().rebalances


def test_lines_that_are_a_little_out_of_order_give_the_same(tmp_path: Path) -> None:
    draw = random.Random(1)
    near = sorted(
        range(len(a_storm())), key=lambda number: number + draw.uniform(0, WINDOW_MIN / 2)
    )
    (tmp_path / "all.jsonl").write_text("".join(f"{a_storm()[number]}\n" for number in near))

    tables = read_files([str(tmp_path / "all.jsonl")])

    assert tables.rebalances == expected().rebalances
    assert tables.counts["late"] == 0


def test_a_line_that_comes_far_too_late_is_left_out_and_counted(tmp_path: Path) -> None:
    late = next(line for line in a_storm() if '"rebalance.triggered"' in line)
    rest = [line for line in a_storm() if line != late]
    files = [tmp_path / f"{number}.jsonl" for number in range(200)]  # the window is the least
    files[0].write_text("".join(f"{line}\n" for line in [*rest, late]))
    for file in files[1:]:
        file.write_text("")
    counts: Counter[str] = Counter()

    rows = list(rows_of([str(file) for file in files], counts))

    assert counts["late"] == 1
    assert Tables(rows).rebalances


def test_the_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(packed()))))

    assert read_files(["-"]).rebalances == expected().rebalances


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\x00" * 10_000,
        bytes(range(256)) * 100,
        b"\x1f\x8b" + bytes(range(256)),
        b'{"event": "rebalance.triggered"' + b"[" * 10_000,
        b'["event": "rebalance.triggered"]\n[1]\nnull\n7\n"x"\n{}\n',
        b'{"event": "rebalance.triggered", "t": "x", "group": 3}\n',
        b'{"event": "rebalance.triggered", "t": 1e400, "group": "g"}\n',
    ],
)
def test_no_content_of_a_file_makes_the_reader_fail(tmp_path: Path, content: bytes) -> None:
    odd, good = tmp_path / "odd.jsonl", tmp_path / "good.jsonl"
    odd.write_bytes(content)
    lines, told = beginning()
    good.write_text("".join(f"{line}\n" for line in lines))

    tables = read_files([str(odd), str(good)])

    assert tables.rebalances == told.rebalances


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("pipes", [1, 2])
def test_what_comes_from_a_pipe_is_read_once(tmp_path: Path, pipes: int, is_packed: bool) -> None:
    """`aktor why <(zcat a) <(zcat b)`: a pipe has no beginning any more when it was read."""
    half = len(a_storm()) // 2
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    writers = []
    for number, (file, lines) in enumerate(
        zip(files, (a_storm()[:half], a_storm()[half:]), strict=True)
    ):
        content = "".join(f"{line}\n" for line in lines).encode()
        content = gzip.compress(content) if is_packed else content
        if number >= pipes:
            Path(file).write_bytes(content)
            continue
        os.mkfifo(file)
        writers.append(Thread(target=Path(file).write_bytes, args=(content,), daemon=True))
        writers[-1].start()

    tables = read_files(files)

    assert tables.rebalances == expected().rebalances
    assert tables.counts["lines"] == len(a_storm())
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("may_allow_more", [True, False])
def test_more_files_than_a_process_may_open_are_all_read_or_none(
    tmp_path: Path, may_allow_more: bool
) -> None:
    late = {"consumer": "app", "group": "g", "event": "poll.late"}
    for number in range(40):
        its = (late | {"t": BEGAN + at, "trace": f"{number}"} for at in range(WINDOW_MIN + 1))
        text = "".join(f"{json.dumps(line)}\n" for line in its)
        (tmp_path / f"{number}.jsonl").write_text(text)
    limit = f'ulimit {"-S" if may_allow_more else ""} -n 24; exec "$@"'
    program = "from aktor.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "why", "--json", str(tmp_path)]

    ran = subprocess.run(["sh", "-c", limit, "sh", *command], capture_output=True, text=True)

    if may_allow_more:
        rows = [json.loads(line) for line in ran.stdout.splitlines()]
        polls = [row["late_polls"] for row in rows if row["table"] == "members"]
        assert polls == [WINDOW_MIN + 1] * 40
        assert ran.returncode == 0
    else:
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("aktor why: cannot read 40 files together: Too many open")


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(packed()[:-9])

    (told,) = [what for what in read_files([str(cut)]).counts if what.startswith("unreadable")]

    assert str(cut) in told


def test_rows_are_frames_of_pandas_with_times_in_utc() -> None:
    pytest.importorskip("pandas")
    tables = expected()

    frame = to_pandas(tables.rebalances)

    assert list(frame["sentence"]) == [row.sentence for row in tables.rebalances]
    assert str(frame["began"].dt.tz) == "UTC"
    assert frame["began"][0].timestamp() == pytest.approx(tables.rebalances[0].began)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_rows_is_a_frame_with_its_columns(name: str) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    columns = [field.name for field in fields(TABLES[name])]

    assert list(to_pandas(Tables()[name]).columns) == columns
    assert to_polars(Tables()[name]).columns == columns


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_rows_has_the_types_that_it_has_with_rows(name: str) -> None:
    """A report that reads `frame["at"].dt.hour` runs also where nothing went wrong."""
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    empty, full = Tables()[name], expected()[name]

    frame = to_pandas(empty)

    assert list(frame.dtypes) == list(to_pandas(full, TABLES[name]).dtypes)
    assert to_polars(empty).dtypes == to_polars(full, TABLES[name]).dtypes
    for at in times_of(TABLES[name]):
        assert str(frame[at].dt.tz) == "UTC"
    assert frame["group"].dtype == object


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_each_table_are_frames_of_polars_with_times_in_utc(name: str) -> None:
    polars = pytest.importorskip("polars")
    rows = expected()[name]

    frame = to_polars(rows, TABLES[name])

    assert frame.height == len(rows)
    assert frame.columns == [field.name for field in fields(TABLES[name])]
    for at in times_of(TABLES[name]) if rows else ():
        assert frame[at].dtype == polars.Datetime("us", "UTC")
        assert [None if one is None else one.timestamp() for one in frame[at]] == pytest.approx(
            [getattr(row, at) for row in rows]
        )


ORDINARY = "INFO ready\nWARN the disk is slow\nTraceback (most recent call last):\n\n" * 50


@pytest.mark.parametrize(
    "content",
    [ORDINARY, '{"event": "user logged in", "level": "info"}\n' * 3, "\x00\x01\n"],
    ids=["text", "JSON of others", "bytes"],
)
def test_a_file_without_any_event_is_named_and_its_lines_are_not_torn(
    tmp_path: Path, content: str
) -> None:
    lines, told = beginning()
    (tmp_path / "good.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "app.log").write_text(content)
    (tmp_path / "empty.log").write_text("\n")

    tables = read_files([str(tmp_path)])

    assert tables.rebalances == told.rebalances
    odd = {what for what, count in tables.counts.items() if count and what != "lines"}
    assert odd == {f"not a trace: {tmp_path / 'app.log'}"}


def test_lines_of_others_in_a_trace_are_torn_however_late_its_first_event_comes(
    tmp_path: Path,
) -> None:
    lines, told = beginning()
    (tmp_path / "mixed.log").write_text(ORDINARY + "".join(f"{line}\n" for line in lines))

    tables = read_files([str(tmp_path)])

    assert tables.rebalances == told.rebalances
    assert tables.counts["torn"] == 150
    assert not [what for what in tables.counts if what.startswith("not a trace")]


def test_a_trace_of_one_line_that_is_torn_is_a_trace(tmp_path: Path) -> None:
    (tmp_path / "bob.jsonl").write_text('{"consumer": "bob", "gro')

    assert read_files([str(tmp_path)]).counts["torn"] == 1
