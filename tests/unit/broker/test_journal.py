"""The folder on disk: what was put outlives its process, and nothing else gets in."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aktor.broker.journal import DataFolder, DataFolderError

TOPIC = UUID("7d1f3f0e-0000-4000-8000-000000000001")

PUTS_UNTIL_KILLED = """
import os, sys
from aktor.broker.journal import DataFolder
folder = DataFolder(sys.argv[1], compact_beyond=int(sys.argv[2]))
number = 0
while True:
    number += 1
    folder.put("offset", ("group", number % 50), {"number": number, "padding": "x" * 300})
    os.write(1, b"%d\\n" % number)
"""

OPENS = """
import sys
from aktor.broker.journal import DataFolder, DataFolderError
try:
    DataFolder(sys.argv[1])
except DataFolderError as error:
    print(error)
"""


def journal_of(path: Path) -> Path:
    return path / "journal"


def values_after_reopening(path: Path) -> dict[Any, Any]:
    with DataFolder(path) as folder:
        return folder.values()


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The system refuses to let any file grow beyond this: the nearest thing to a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_was_put_is_there_after_opening_again(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "data") as folder:
        folder.put("topic", ("orders",), {"partitions": [1, 2], "name": "ütf\n\ud800"})
        folder.put("offset", ("g", "orders", 0), 41)
        folder.put("offset", ("g", "orders", 0), 42)
        folder.put("offset", ("g", "orders", 1), 7)
        folder.put("offset", ("g", "orders", 1), None)

    assert values_after_reopening(tmp_path / "data") == {
        ("topic", ("orders",)): {"partitions": [1, 2], "name": "ütf\n\ud800"},
        ("offset", ("g", "orders", 0)): 42,
    }


def test_keys_come_back_with_the_types_they_had(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("1", 1, -5, ""), "mixed")
        folder.put("k", (), "empty")

    assert list(values_after_reopening(tmp_path)) == [("k", ("1", 1, -5, "")), ("k", ())]


def test_a_key_or_value_that_could_not_come_back_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with DataFolder(tmp_path) as folder:
        with pytest.raises(TypeError, match="made of str and int"):
            folder.put("k", (1.5,), 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            folder.put("k", ("bytes",), b"no JSON")

        assert journal_of(tmp_path).read_bytes() == b""


@pytest.mark.parametrize("compact_beyond", [10**9, 20_000], ids=["appending", "compacting"])
def test_no_acknowledged_put_is_lost_when_the_process_is_killed(
    tmp_path: Path, compact_beyond: int
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", PUTS_UNTIL_KILLED, str(tmp_path), str(compact_beyond)],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    for _ in range(1000):
        writer.stdout.readline()

    writer.send_signal(signal.SIGKILL)
    acknowledged = 1000 + writer.stdout.read().count(b"\n")
    writer.wait()

    numbers = {value["number"] for value in values_after_reopening(tmp_path).values()}
    missing = set(range(acknowledged - 48, acknowledged + 1)) - numbers
    assert missing == set()
    assert max(numbers) <= acknowledged + 1
    assert len(numbers) == 50


@pytest.mark.parametrize("kept", range(1, 30, 4))
def test_half_a_line_at_the_end_is_cut_off_and_all_before_is_kept(
    tmp_path: Path, kept: int
) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("first",), 1)
        size = journal_of(tmp_path).stat().st_size
        folder.put("k", ("second",), "a longer value")
    with open(journal_of(tmp_path), "r+b") as file:
        file.truncate(size + kept)

    with DataFolder(tmp_path) as folder:
        assert folder.values() == {("k", ("first",)): 1}
        folder.put("k", ("third",), 3)

    assert values_after_reopening(tmp_path) == {("k", ("first",)): 1, ("k", ("third",)): 3}


def test_a_last_line_with_a_flipped_bit_is_cut_off(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("first",), 1)
        folder.put("k", ("second",), 2)
    damaged = bytearray(journal_of(tmp_path).read_bytes())
    damaged[-3] ^= 1
    journal_of(tmp_path).write_bytes(damaged)

    assert values_after_reopening(tmp_path) == {("k", ("first",)): 1}


def test_damage_in_the_middle_is_an_error_and_not_a_silent_loss(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("first",), 1)
        folder.put("k", ("second",), 2)
    damaged = bytearray(journal_of(tmp_path).read_bytes())
    damaged[12] ^= 1
    journal_of(tmp_path).write_bytes(damaged)

    with pytest.raises(DataFolderError, match=r"damaged: .* byte 0 .* delete it to start"):
        DataFolder(tmp_path)
    assert journal_of(tmp_path).read_bytes() == damaged


def test_opening_rewrites_a_journal_that_is_mostly_dead(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        for number in range(100):
            folder.put("k", (number % 3,), number)
        before = journal_of(tmp_path).stat().st_size

    values = values_after_reopening(tmp_path)

    assert journal_of(tmp_path).stat().st_size < before / 20
    assert list(values.items()) == [(("k", (1,)), 97), (("k", (2,)), 98), (("k", (0,)), 99)]
    assert values_after_reopening(tmp_path) == values


def test_opening_leaves_a_journal_that_is_mostly_alive_as_it_is(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        for number in (1, 2, 3, 3):
            folder.put("k", (number,), number)
    before = journal_of(tmp_path).read_bytes()

    values_after_reopening(tmp_path)

    assert journal_of(tmp_path).read_bytes() == before


def test_a_running_journal_stays_small_however_much_is_put(tmp_path: Path) -> None:
    with DataFolder(tmp_path, compact_beyond=2000) as folder:
        for number in range(1000):
            folder.put("k", (number % 5,), {"number": number})
            assert journal_of(tmp_path).stat().st_size <= 2100

        assert [value["number"] for value in folder.values().values()] == list(range(995, 1000))
    assert len(values_after_reopening(tmp_path)) == 5


def test_a_half_written_new_journal_of_a_killed_process_is_thrown_away(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("a",), 1)
    (tmp_path / "journal.new").write_bytes(b"half a l")

    assert values_after_reopening(tmp_path) == {("k", ("a",)): 1}
    assert not (tmp_path / "journal.new").exists()


def test_a_full_disk_refuses_the_put_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.put("k", ("a",), 1)
        size = journal_of(tmp_path).stat().st_size

        with (
            files_no_larger_than(size + 10),
            pytest.raises(DataFolderError, match=r"disk is full .* make room") as full,
        ):
            folder.put("k", ("a",), 2)

        assert str(tmp_path) in str(full.value)
        assert journal_of(tmp_path).stat().st_size == size
        assert folder.values() == {("k", ("a",)): 1}
        folder.put("k", ("a",), 3)

    assert values_after_reopening(tmp_path) == {("k", ("a",)): 3}


def test_a_rewrite_that_fails_loses_nothing_and_is_tried_again(tmp_path: Path) -> None:
    with DataFolder(tmp_path, compact_beyond=1000) as folder:
        (tmp_path / "journal.new").mkdir()
        for number in range(50):
            folder.put("k", ("a",), f"{number:060}")
        grown = journal_of(tmp_path).stat().st_size
        assert folder.values() == {("k", ("a",)): f"{49:060}"}

        (tmp_path / "journal.new").rmdir()
        for number in range(100):
            folder.put("k", ("a",), f"{number:060}")

        assert grown > 4000
        assert journal_of(tmp_path).stat().st_size < 1100
    assert values_after_reopening(tmp_path) == {("k", ("a",)): f"{99:060}"}


def test_a_folder_in_use_is_refused_and_the_process_named(tmp_path: Path) -> None:
    with DataFolder(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", OPENS, str(tmp_path)], capture_output=True, text=True, timeout=60
        )

    assert other.stdout.count("\n") == 1, other.stderr
    assert f"data folder {tmp_path} is in use by process {os.getpid()}" in other.stdout
    assert "name another folder" in other.stdout


def test_the_lock_of_a_closed_folder_is_free(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with pytest.raises(DataFolderError, match="in use"):
        DataFolder(tmp_path)

    folder.close()
    folder.close()

    DataFolder(tmp_path).close()
    with pytest.raises(DataFolderError, match="is closed"):
        folder.put("k", (), 1)


def test_a_folder_of_another_format_is_not_touched(tmp_path: Path) -> None:
    made = {"format": 99, "cluster_id": "c", "aktor": "7.0"}
    (tmp_path / "format").write_text(json.dumps(made))

    with pytest.raises(DataFolderError, match=r"has format 99, made by aktor 7\.0, .* format 1"):
        DataFolder(tmp_path)
    assert os.listdir(tmp_path) == ["format"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "\udcff"])
def test_a_format_file_that_makes_no_sense_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "format").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(DataFolderError, match="`format` can't be understood"):
        DataFolder(tmp_path)


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")

    with pytest.raises(DataFolderError, match=r"not empty \(it holds 'thesis.txt'\): name"):
        DataFolder(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_folder_whose_making_was_cut_short_is_used(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("123\n")
    (tmp_path / "format.new").write_text('{"for')

    DataFolder(tmp_path).close()

    assert json.loads((tmp_path / "format").read_text())["format"] == 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DataFolderError, match="is a file; name a folder"):
        DataFolder(tmp_path / "file")
    with pytest.raises(DataFolderError, match=r"can't be written \(Not a directory\)"):
        DataFolder(tmp_path / "file" / "below")


def test_a_cluster_keeps_its_id(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "named", cluster_id="abc") as folder:
        assert folder.cluster_id == "abc"
    with DataFolder(tmp_path / "named", cluster_id="other") as folder:
        assert folder.cluster_id == "abc"

    with DataFolder(tmp_path / "drawn") as folder:
        drawn = folder.cluster_id
    with DataFolder(tmp_path / "drawn") as folder:
        assert folder.cluster_id == drawn
    assert len(drawn) == 22


def test_the_records_of_a_topic_have_folders_and_go_with_it(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        path = folder.log_path(TOPIC, 3)
        (path / "records").write_bytes(b"x")

        assert path == tmp_path / "logs" / str(TOPIC) / "3"
        assert folder.topic_ids() == (TOPIC,)
        folder.forget_topic(TOPIC)
        folder.forget_topic(TOPIC)
        assert folder.topic_ids() == ()
