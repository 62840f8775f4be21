"""The job and the stream, against what is made of the same lines without Spark."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from aktor.simulation import Simulation
from aktor.spark.rebalances import Tables, analyse_logs, follow_logs, read_stream
from aktor.spark.rebalances.__main__ import main
from aktor.spark.rebalances.page import drawn
from aktor.spark.rebalances.tables import COUNTS, TABLES, arrow_table
from aktor.trace.pictures import draw
from aktor.trace.rebalances import Tables as RowTables
from aktor.trace.rebalances import read
from aktor.trace.rebalances.absent import ENDED
from aktor.trace.rebalances.lines import ALONE, Event
from examples import spark_rebalances
from tests.spark.session import of_a_program
from tests.unit.trace.rebalances.incidents import Incident, without_a_group
from tests.unit.trace.rebalances.told import storm_lines

#: A group of each protocol.
STORMS = ((1, "classic"), (6, "consumer"))

#: The tables of which pictures are drawn.
PICTURED = ("rebalances", "parts", "downtimes", "silences", "spans", "owned_partitions")

#: Seconds by which an event may be later than others.
LATENESS = 30.0


def of_a_killed_member() -> list[Event]:
    """Its session is not over yet: nobody but its trace, which ends, shows it."""
    with Simulation(1) as sim:
        group = Incident(sim, "consumer")
        _, bob = group.joins(), group.joins()
        sim.run(for_=20)
        bob.kill()
        sim.run(for_=20)
        return group.events()


@cache
def lines_of_groups() -> tuple[str, ...]:
    """The lines of several groups, in the order of their times."""
    lines = []
    for seed, protocol in STORMS:
        for line in storm_lines(seed, protocol):
            event = json.loads(line)
            renamed = {"group": event["group"] and f"{event['group']}-{seed}"}
            lines.append({**event, **renamed, "trace": f"{seed}{event['trace'][1:]}"})
    lines += [{**event, "group": "g-killed"} for event in of_a_killed_member()]
    lines += [{**event, "trace": f"9{event['trace'][1:]}"} for event in without_a_group()]
    return tuple(json.dumps(one) for one in sorted(lines, key=lambda one: float(one["t"])))


@pytest.fixture
def told() -> Sequence[str]:
    """What the groups' members told, the same for each test."""
    return lines_of_groups()


def time_of(line: str) -> float:
    return float(json.loads(line)["t"])


def write(path: Path, lines: Iterable[str], *, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + end
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def write_in_turn(folder: Path, chunks: Sequence[Sequence[str]]) -> None:
    """A file for each, the older the earlier."""
    for number, chunk in enumerate(chunks):
        path = write(folder / f"{number}.jsonl", chunk)
        os.utime(path, (1e9 + number, 1e9 + number))


def in_order(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(records, key=lambda one: json.dumps(one, default=str, sort_keys=True))


def assert_same(tables: Tables, lines: Iterable[str]) -> dict[str, int]:
    """Every table has the rows that are made of these lines without Spark. Returns the counts."""
    rows, _ = read(lines)
    found = tables.rows.toArrow()
    for table in TABLES:
        records = [one for one in found.column(table).to_pylist() if one is not None]
        assert in_order(records) == in_order(arrow_table(table, rows).to_pylist()), table
        assert records, table
    counts: Counter[str] = Counter()
    for one in found.column(COUNTS).to_pylist():
        if one is not None:
            counts[one["what"]] += one["lines"]
    return dict(counts)


def test_the_job_finds_what_is_found_without_spark(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    half = len(told) // 2
    write(tmp_path / "web-1" / "trace.jsonl", told[:half])
    write(tmp_path / "host=web-2" / "old" / "trace.jsonl.gz", told[half:])

    tables = analyse_logs(spark, str(tmp_path))

    assert_same(tables, told)
    silences = tables["silences"].where("group = 'g-killed'").toArrow()
    assert set(silences.column("reason").to_pylist()) == {ENDED}
    tables.close()


def test_lines_with_values_that_no_table_can_hold_change_nothing_else(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    refused = json.loads(next(one for one in told if '"commit.failed"' in one))
    triggered = json.loads(next(one for one in told if '"rebalance.triggered"' in one))
    refused |= {"because": "caf\udce9.csv", "line": 10**20, "trace": "\udcff"}
    triggered |= {"line": True, "generation": 1e300, "group": "another", "members": 2**64}
    lines = [*told, *(json.dumps(one) for one in (refused, triggered, triggered | {"t": 1e300}))]
    # Its last bytes are no UTF-8, as of a program that writes another encoding.
    latin = refused | {"line": 7, "because": "caf\ufffd", "trace": "00000007"}
    lines.append(json.dumps(latin, ensure_ascii=False))
    text = "\n".join(lines).encode().replace("\ufffd".encode(), b"\xe9")
    (tmp_path / "trace.jsonl").write_bytes(text)

    tables = analyse_logs(spark, str(tmp_path))

    assert assert_same(tables, lines)["no time"] == 1
    tables.close()


def test_lines_that_are_torn_or_come_twice_are_counted_and_change_nothing(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    triggered = [one for one in told if '"rebalance.triggered"' in one]
    write(tmp_path / "1.jsonl", [*told, "Traceback (most recent call last):", ""])
    write(tmp_path / "2.jsonl", [*triggered, triggered[0][:-5]], end="")
    write(tmp_path / "of_another_program.log", ["INFO ready"] * 7)

    tables = analyse_logs(spark, str(tmp_path))

    found = assert_same(tables, told)
    assert (found["repeated"], found["torn"]) == (len(triggered), 2)
    assert found["not a trace"] == 7
    tables.close()


def test_a_stream_finds_the_same_whatever_comes_together(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    second = 3 * len(told) // 5
    first = next(
        at for at, line in enumerate(told) if time_of(line) > time_of(told[second - 1]) - LATENESS
    )
    late_end = first + 50
    # By the time of the last line some of the rebalances are complete.
    last = json.loads(next(one for one in told if '"membership.moved"' in one))
    last.update(t=json.loads(told[-1])["t"] + 40.0, group="another", trace="ffffffff")
    lines = [*told, json.dumps(last)]
    chunks = [lines[:first], lines[late_end:second], lines[second:]]
    # The first lines of a chunk come only with the next one: less late than is allowed.
    chunks[2] = [*lines[first:late_end], *chunks[2]]
    write_in_turn(tmp_path / "logs", chunks[:2])
    logs, folder = str(tmp_path / "logs"), str(tmp_path / "out")

    follow(spark, logs, folder)
    write_in_turn(tmp_path / "logs", chunks)
    follow(spark, logs, folder)

    tables = read_stream(spark, folder)
    assert "late" not in assert_same(tables, lines)
    complete = tables.rows.where("rebalances IS NOT NULL AND NOT open").count()
    assert 0 < complete < tables["rebalances"].count()


def test_events_that_come_after_the_watermark_are_counted_and_left_out(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    late = [one for one in told if '"rebalance.triggered"' in one][:3]
    in_time = [one for one in told if one not in late]
    write_in_turn(tmp_path / "logs", [in_time, late])

    follow(spark, str(tmp_path / "logs"), str(tmp_path / "out"), lateness=1.0)

    tables = read_stream(spark, str(tmp_path / "out"))
    assert assert_same(tables, in_time)["late"] == 3


def follow(spark: Any, logs: str, folder: str, lateness: float = LATENESS) -> None:
    query = follow_logs(spark, logs, folder, lateness=lateness, once=True, files_per_batch=1)
    query.awaitTermination()


def test_the_command_writes_tables_and_a_page_that_needs_nothing_else(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], told: Sequence[str]
) -> None:
    logs, out = write(tmp_path / "trace.jsonl", told), tmp_path / "out"

    assert main([str(logs), "--out", str(out)]) == 0

    read_back = spark.read.parquet(str(out / "rebalances"))
    rows, _ = read(told)
    assert read_back.count() == arrow_table("rebalances", rows).num_rows
    page = (out / "rebalances.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img)[^>]* (src|href)=.http", page)
    for group in {row.group for row in rows} - {ALONE}:
        assert f"Group {group}: what its members did" in page
    assert "without a group: alice on host-alice was given nothing" in page
    assert "rebalances.html is written" in capsys.readouterr().out


def test_the_pictures_are_drawn_of_the_rows_that_are_found_without_spark(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    tables = analyse_logs(spark, str(write(tmp_path / "trace.jsonl", told)))

    found, notes = drawn(tables)

    rows, _ = read(told)
    for name in PICTURED:
        assert in_order(arrow_table(name, found[name]).to_pylist()) == in_order(
            arrow_table(name, rows).to_pylist()
        )
    assert notes == []
    tables.close()


def test_of_more_rows_than_a_driver_holds_those_are_drawn_that_the_pictures_show(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    most = 20
    tables = analyse_logs(spark, str(write(tmp_path / "trace.jsonl", told)))

    found, notes = drawn(tables, most)

    rows = RowTables(read(told)[0])
    longest = sorted(row.duration_ms for row in rows.rebalances)[-most:]
    assert sorted(row.duration_ms for row in found.rebalances) == pytest.approx(longest, abs=1)
    assert f"Of {len(rows.rebalances)} rebalances the longest {most} are drawn." in notes
    assert all(len(found[name]) <= most for name in PICTURED)
    assert found.spans
    assert draw(found, notes=notes).notes == notes
    tables.close()


def test_without_what_draws_them_the_tables_are_written_and_the_page_is_said_to_be_missing(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    told: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    logs, out = write(tmp_path / "trace.jsonl", told), tmp_path / "out"

    assert main([str(logs), "--out", str(out)]) == 0

    said = capsys.readouterr().out
    assert "rebalances.html is not written: pictures need Vega-Altair: pip install" in said
    assert (out / "members").is_dir()


def test_the_command_follows_files_that_come_until_ctrl_c(
    tmp_path: Path, told: Sequence[str]
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    half = len(told) // 2
    write(logs / "1.jsonl", told[:half])
    command = [sys.executable, "-m", "aktor.spark.rebalances", str(logs), "--out", str(out)]
    quickly = of_a_program(**{"spark.sql.shuffle.partitions": "2"})
    process = subprocess.Popen(
        [*command, "--stream"],
        env=os.environ | quickly,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "rebalances.html is written" in process.stdout.readline()
        write(tmp_path / "2.jsonl", told[half:]).rename(logs / "2.jsonl")
        assert "rebalances.html is written" in process.stdout.readline()

        process.send_signal(signal.SIGINT)

        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in errors
    rows, _ = read(told)
    found = pq.read_table(out / "rebalances")
    assert found.num_rows == arrow_table("rebalances", rows).num_rows


def test_a_stream_into_which_no_file_has_come_ends_in_a_sentence(
    spark: Any, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "logs").mkdir()
    out = tmp_path / "out"

    assert main([str(tmp_path / "logs"), "--out", str(out), "--stream", "--once"]) == 0

    assert f"no trace file has come into {tmp_path / 'logs'}" in capsys.readouterr().out
    assert not (out / "rebalances.html").exists()


def test_a_report_is_not_written_among_the_logs(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--out", str(tmp_path / "report")])

    assert "it would be read as logs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--stream", "--lateness", "-100"], "--lateness: it must be 0 or more seconds, not -100"),
        (["--stream", "--lateness", "nan"], "--lateness: it must be 0 or more seconds, not nan"),
        (["--stream", "--lateness", "inf"], "--lateness: it must be 0 or more seconds, not inf"),
        (["--stream", "--lateness", "soon"], "--lateness: it must be 0 or more seconds, not soon"),
        (["--once"], "--once is for --stream"),
        (["--lateness", "30"], "--lateness is for --stream"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    tmp_path: Path, capsys: Any, more: list[str], said: str
) -> None:
    assert refused([str(tmp_path), "--out", str(tmp_path.parent / "out"), *more], capsys) == said


@pytest.mark.parametrize("more", [[], ["--stream", "--once"]])
def test_logs_that_do_not_exist_are_an_error_of_one_line(
    spark: Any, tmp_path: Path, capsys: Any, more: list[str]
) -> None:
    logs = str(tmp_path / "nowhere")

    said = refused([logs, "--out", str(tmp_path / "out"), *more], capsys)

    assert said == f"{logs} does not exist"
    if not more:
        said = refused([f"{logs}/*.jsonl", "--out", str(tmp_path / "out")], capsys)
        assert said == f"{logs}/*.jsonl does not exist"


@pytest.mark.parametrize("scheme", ["xyz", "s3a"])
def test_a_file_system_that_spark_does_not_have_is_an_error_of_one_line(
    spark: Any, tmp_path: Path, capsys: Any, scheme: str, told: Sequence[str]
) -> None:
    """Before the job: a report that cannot be written would be noticed at its end."""
    logs, place = str(write(tmp_path / "trace.jsonl", told)), f"{scheme}://bucket/traces"

    for given in ([place, "--out", str(tmp_path / "out")], [logs, "--out", place]):
        said = refused(given, capsys)
        assert said.startswith(f"{place} cannot be used: ")
        assert scheme in said.removeprefix(place).lower()
        assert not (tmp_path / "out").exists()


def refused(arguments: list[str], capsys: Any) -> str:
    """What the command says of these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    line: str = capsys.readouterr().err.splitlines()[-1]
    return line.partition(" error: ")[2].removeprefix("argument ")


def test_places_may_be_uris_of_files(
    spark: Any, tmp_path: Path, capsys: Any, told: Sequence[str]
) -> None:
    logs, out = write(tmp_path / "a b" / "trace.jsonl", told), tmp_path / "out"

    said = refused([logs.parent.as_posix(), "--out", f"file://{logs.parent}/out"], capsys)
    assert "it would be read as logs" in said
    said = refused([f"file:{logs.parent}", "--out", f"{logs.parent}/out"], capsys)
    assert "it would be read as logs" in said
    assert main([f"file://{logs.parent}", "--out", f"file://{out}"]) == 0

    assert f"{out}/rebalances.html is written" in capsys.readouterr().out
    assert (out / "rebalances.html").exists()


def test_the_example_names_the_member_that_began_most_rebalances(
    spark: Any, tmp_path: Path, told: Sequence[str]
) -> None:
    logs = write(tmp_path / "trace.jsonl", told)

    worst = spark_rebalances.initiators(spark, str(logs))

    rows, _ = read(told)
    triggers = Counter(
        (one["group"], one["initiator"])
        for one in arrow_table("rebalances", rows).to_pylist()
        if one["initiator"] is not None
    )
    assert dict(worst) == dict(triggers)
