"""Pictures of rebalances: what must be in them, and what must not."""

from __future__ import annotations

import html
import json
import re
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aktor.cli.main import main
from aktor.simulation import Simulation
from aktor.trace.pictures import colours, draw
from aktor.trace.pictures.causes import step_of
from aktor.trace.pictures.charts import Picture
from aktor.trace.pictures.groups import file_names
from aktor.trace.pictures.members import DOING, Lanes, members_chart
from aktor.trace.pictures.names import Labels, several, short, wrapped
from aktor.trace.pictures.partitions import NOBODY, Ribbon, partitions_chart
from aktor.trace.pictures.times import Window, milliseconds
from aktor.trace.plain import visible
from aktor.trace.rebalances import Tables, read, tell
from aktor.trace.rebalances.rows import At, Silence, Span
from tests.gate import all_but_the_first
from tests.unit.trace.pictures.many import many
from tests.unit.trace.rebalances.incidents import Incident, slow_callback, tables_of
from tests.unit.trace.rebalances.told import BEGAN, Member, storm_lines


@cache
def drawn() -> dict[str, str]:
    """The pictures of it."""
    return draw(tables_of(slow_callback("consumer"))).svgs()


def pictures_of(tables: Tables) -> dict[str, Picture]:
    return {one.name: one for one in draw(tables).groups[0].pictures()}


def texts(svg: str) -> list[str]:
    """The words in a picture."""
    found = (one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("text"))
    return [" ".join(one.itertext()) for one in found]


def marks(svg: str, role: str) -> int:
    """How many marks of a kind there are, by what they tell a screen reader."""
    return svg.count(f'aria-roledescription="{role}"')


def of_two(**names: str) -> list[Any]:
    """Two members of a group: bob was killed, and alice goes on."""
    events: list[Any] = []
    alice = Member(events, names.get("alice", "alice"), names.get("host"))
    bob = Member(events, names.get("bob", "bob"))
    topic = names.get("topic", "orders")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=[f"{topic}-0"])
    bob.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=[f"{topic}-1"])
    bob.is_given(BEGAN + 10, f"{topic}-1", 5, 9)
    alice.rebalances(BEGAN + 15, BEGAN + 16, 2, owns=[f"{topic}-1"])
    alice.is_given(BEGAN + 17, f"{topic}-1", 10, 11)
    return [{**event, "group": names.get("group", "g")} for event in events]


def test_the_timeline_shows_members_partitions_silence_and_whom_it_waited_for() -> None:
    said = texts(drawn()["timeline"])

    assert {"alice", "bob", "carol", *(f"orders-{number}" for number in range(6))} <= set(said)
    assert {"stable", "joining", "callback of its listener", "whom a rebalance waited for"} <= set(
        said
    )
    assert {
        "owner of a partition",
        "nothing is delivered",
        "given nothing from a partition",
    } <= set(said)
    assert any("bob on host-bob held it: its revoked callback took 4.0 s" in one for one in said)


def numbered(line: str) -> tuple[int, str]:
    number, _, sentence = line.partition(". ")
    return int(number), sentence


def test_a_sentence_has_one_number_above_its_picture_and_in_the_list_of_all() -> None:
    """The timeline tells the three longest rebalances."""
    events: list[Any] = []
    alice = Member(events, "alice")
    for turn, lasts in enumerate([1, 3, 1, 4, 5]):
        at = BEGAN + 60.0 * turn
        alice.rebalances(at, at + lasts, turn + 1, because="first join", owns=["t-0"])
    pictures = draw(Tables(tell(events)[0]))
    lines = pictures.groups[0].timeline().lines
    page = html.unescape(pictures.html())

    listed = re.findall("<li>(.*?)</li>", page.partition("All of it in sentences")[2])
    told = [numbered(line) for line in lines if re.match("[0-9]", line)]
    assert [number for number, _ in told] == [2, 4, 5]
    for number, sentence in told:
        assert listed[number - 1].endswith(f" UTC {sentence}")


#: How wide a letter of DejaVu Sans is in the mean, as a share of its size; and a bold one. It is
#: among the widest fonts that browsers have.
LETTER, BOLD = 0.5, 0.58


def boxes(svg: str) -> list[tuple[str, float, float, float]]:
    """The texts of a picture: from where to where each goes with that font, and its base line."""
    found: list[tuple[str, float, float, float]] = []

    def walk(one: ElementTree.Element, x: float, y: float) -> None:
        if moved := re.match(r"translate\(([-\d.]+),([-\d.]+)\)", one.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        if one.tag.endswith("}text") and "rotate" not in one.get("transform", ""):
            size = float(one.get("font-size", "").removesuffix("px"))
            letter = BOLD if one.get("font-weight") == "bold" else LETTER
            lines = [line for line in one if line.tag.endswith("tspan")] or [one]
            for line in lines:
                said = "".join(line.itertext())
                wide = letter * size * len(said)
                left = x - wide * {"end": 1, "middle": 0.5}.get(one.get("text-anchor", ""), 0)
                found.append((said, left, left + wide, y + float(line.get("dy", 0))))
        for part in one:
            walk(part, x, y)

    walk(ElementTree.fromstring(svg), 0.0, 0.0)
    return [box for box in found if box[0].strip()]


@pytest.mark.parametrize("which", ["slow callback", "many partitions", "the pages of docs"])
def test_texts_have_room_in_the_widest_font_that_a_browser_may_have(which: str) -> None:
    """An SVG is laid out with another font than a browser shows it with: labels ran into the next
    symbol of a legend, and sentences were cut off."""
    pages = (Path(__file__).parents[4] / "docs" / "rebalances").glob("*.svg")
    pictures = {
        "slow callback": lambda: drawn().values(),
        "many partitions": lambda: draw(many()).svgs().values(),
        "the pages of docs": lambda: [page.read_text() for page in pages],
    }[which]()

    for svg in pictures:
        width = float(ElementTree.fromstring(svg).attrib["width"])
        texts_of_it = boxes(svg)
        cut = [said for said, left, right, _ in texts_of_it if left < 0 or right > width]
        assert cut == []
        names = {said for said, *_ in texts_of_it}
        legend = [box for box in texts_of_it if box[0] in {*DOING, NOBODY, HALF, FEWER} & names]
        for said, left, right, line in legend:
            near = [box for box in legend if box[1] > left and abs(box[3] - line) < 6]
            # The symbol of the next label is left of it.
            assert [box[0] for box in near if box[1] - 15 < right] == [], said
    assert pictures


def test_an_axis_of_time_says_the_day_and_the_zone() -> None:
    said = texts(drawn()["timeline"])

    assert said.count("time (UTC), 2027-01-15") == 2
    assert {"08:00:00", "08:00:10"} <= set(said)
    assert "time (UTC), 2027-01-15" in texts(drawn()["causes"])
    assert "s since it began: 2027-01-15 08:00:10.000 UTC" in texts(drawn()["rebalance"])


def test_a_mark_tells_its_sentence_and_when_it_was() -> None:
    timeline = drawn()["timeline"]

    assert "bob on host-bob: its listener's revoked callback: 4.0 s, from 08:00:1" in timeline
    assert "orders-2: nothing is delivered for 12.4 s" in timeline
    assert "on its way from alice on host-alice to carol on host-carol." in timeline


def test_the_waterfall_marks_the_steps_that_held_the_rebalance() -> None:
    picture = pictures_of(tables_of(slow_callback("consumer")))["rebalance"]

    held = [step["row"] for step in picture.data["steps"] if step["held"]]
    assert held == ["bob: revoked callback", "bob: assigned callback"]
    assert Counter(texts(drawn()["rebalance"]))["4.0 s  ◀ held the rebalance"] == 2


def test_the_critical_path_leads_from_who_began_over_who_held_to_the_end() -> None:
    path = pictures_of(tables_of(slow_callback("consumer")))["timeline"].data["path"]

    assert [point["lane"] for point in path] == ["carol", *["bob"] * 4, "carol"]
    assert [point["a"] for point in path] == sorted(point["a"] for point in path)


def lanes_where_rebalances_begin(tables: Tables) -> list[str]:
    data = pictures_of(tables)["timeline"].data
    return [mark["lane"] for mark in data["began"]]


def test_a_triangle_is_on_the_lane_of_the_member_that_began_the_rebalance() -> None:
    tables = tables_of(slow_callback("consumer"))

    began = [row.initiator for row in tables.rebalances]
    assert began[-1] == "carol"
    assert lanes_where_rebalances_begin(tables) == began


def test_a_rebalance_that_no_trace_explains_has_no_triangle_which_would_blame_somebody() -> None:
    events: list[Any] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    for at, generation, because in ((BEGAN, 1, "first join"), (BEGAN + 60, 2, "")):
        words = {"because": because} if because else {}
        for member, late in ((alice, 0.0), (bob, 0.5)):
            member.rebalances(at, at + 1 + late, generation, owns=[f"t-{late}"], **words)
    tables = Tables(tell(events)[0])

    assert [row.initiator for row in tables.rebalances] == ["alice", None]
    assert lanes_where_rebalances_begin(tables) == ["alice"]


def test_the_path_ends_at_the_member_that_was_done_last_whoever_has_its_client_id_too() -> None:
    """Two hosts have a member "worker", and both are done at the same time; that of web-2 began
    earlier. alice held them."""
    events: list[Any] = []
    alice, slow = Member(events, "alice"), Member(events, "worker", "web-2")
    for member, joined, ended, callback in ((alice, 0.5, 3.5, 3000), (slow, 3.0, 4.0, 0)):
        member.tells(BEGAN, "rebalance.triggered", because="first join", rebalance=1)
        member.tells(BEGAN, "membership.moved", before="unsubscribed", after="joining")
        at = BEGAN + joined
        member.tells(at, "membership.moved", before="joining", after="assigning")
        member.tells(at, "rebalance.joined", generation=1)
        at = BEGAN + ended
        called = {"callback": "on_partitions_assigned", "ms": callback}
        member.tells(at, "callback.finished", **called)
        member.tells(at, "membership.moved", before="assigning", after="stable")
        member.tells(at, "rebalance.completed", generation=1, ms=1000 * ended)
    other = Member(events, "worker", "web-1")
    other.rebalances(BEGAN + 1, BEGAN + 4, 1, because="first join", owns=["t-0"])
    events = [{**event, "trace": event["host"], "source": event["host"]} for event in events]

    tables = Tables(tell(events)[0])
    path = pictures_of(tables)["timeline"].data["path"]

    (row,) = tables.rebalances
    assert row.held_by == "alice"
    assert (row.slowest, row.slowest_host) == ("worker", "web-2")
    assert path[-1]["lane"] == "worker on web-2"


def test_a_killed_member_is_shown_away_and_its_partition_as_its_own_but_silent() -> None:
    data = pictures_of(Tables(tell(of_two())[0]))["timeline"].data

    (away,) = [one for one in data["spans"] if one["what"] == "away: taken out of the group"]
    assert (away["lane"], away["b"] - away["a"]) == ("bob", 6000)
    first, _ = [one for one in data["owned"] if one["row"] == "orders-1"]
    assert (first["owner"], first["b"] - first["a"]) == ("bob", 15000)
    (silence,) = data["silences"]
    assert (silence["row"], silence["b"] - silence["a"]) == ("orders-1", 7000)


def test_rebalances_are_counted_by_hour_and_cause() -> None:
    events: list[Any] = []
    alice = Member(events, "alice")
    for number in range(10):
        at = BEGAN + 3000 * number
        alice.rebalances(at, at + 1, number + 1, because="first join" if number else "fenced: X")

    picture = pictures_of(Tables(tell(events)[0]))["causes"]

    assert sum(one["high"] - one["low"] for one in picture.data["counts"]) == 10
    assert {one["cause"] for one in picture.data["counts"]} == {"join", "fenced"}
    assert {one["b"] - one["a"] for one in picture.data["counts"]} == {3600_000}
    (fenced,) = [one for one in picture.data["counts"] if one["cause"] == "fenced"]
    assert "1 by fenced.\ng: 1.0 s, triggered by alice" in fenced["say"]


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(0.0, 10), (50.0, 10), (7200.0, 600), (86400.0, 3600), (7 * 86400.0, 3600), (3e7, 7 * 86400)],
)
def test_a_bar_is_an_hour_if_there_are_some_and_not_too_many(seconds: float, step: int) -> None:
    assert step_of(Window(0.0, seconds)) == step


# -- names


HOSTILE = {
    "script": "</script><script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "comment": "<!--",
    "emoji": "🐙" * 50,
    "long": "orders." + "x" * 200,
    "turned": "a\u202eb\x1b[31m\n",
    "vega": "datum.x'] || 1 && {signal: width}",
}


@pytest.mark.parametrize("first", all_but_the_first(1, [0, 3]))
def test_a_name_is_shown_short_and_never_as_code(first: int) -> None:
    names = [*HOSTILE.values()] * 2
    named = dict(zip(("alice", "host", "topic", "group"), names[first:], strict=False))
    pictures = draw(Tables(tell(of_two(**named))[0]))
    timeline, *_ = pictures.groups[0].pictures()

    page, svg = pictures.html(), timeline.svg()

    assert not [one.tag for one in ElementTree.fromstring(svg).iter() if "script" in one.tag]
    for text in ElementTree.fromstring(svg).itertext():
        if text.startswith("@media"):
            continue
        assert len(text) < 200
        assert text.isprintable()
    script = page[page.rindex("<script") :]
    assert script.count("<") == len(["<script>", "</script>", "</body>", "</html>"])
    shown = page[: page.index("<script")]
    assert "<img" not in shown
    assert "<!--" not in shown
    assert shown.count("<h3>") == shown.count("</h3>")


def test_an_emoji_in_a_name_that_is_cut_to_its_room_hinders_no_picture() -> None:
    for picture in pictures_of(Tables(tell(of_two(alice="🐙" * 50))[0])).values():
        assert "□□□" in picture.svg() or picture.name == "causes"


def test_names_that_look_alike_when_they_are_short_stay_different() -> None:
    labels = Labels({number: [f"{'x' * 40}{number}{'y' * 40}"] for number in range(3)})

    assert len(set(labels.values())) == 3
    assert max(map(len, labels.values())) < 40


def test_members_of_one_client_id_are_told_apart_by_their_host() -> None:
    events = of_two(alice="worker", bob="worker", host="web-1")
    events = [{**one, "trace": one["host"], "source": one["host"]} for one in events]

    pictures = pictures_of(Tables(tell(events)[0]))

    every = {"worker on web-1", "worker on host-worker"}
    assert {one["lane"] for one in pictures["timeline"].data["spans"]} == every
    steps = {
        name: [one["row"] for one in pictures[name].data["steps"]]
        for name in ("rebalance", "rebalance-2")
    }
    assert {row.partition(":")[0] for row in steps["rebalance"]} == {
        short(one, 20) for one in every
    }
    assert steps["rebalance-2"][-1] == "orders-1 to worker on web-1"


def test_words_are_cut_to_their_room() -> None:
    assert short("a" * 30, 9) == "aaaaa…aaa"
    assert several([3, 0, 1, 2, 7]) == "0-3, 7"
    assert wrapped("one two three four", 9, 2) == ["one two", "three …"]
    assert visible("a\nb") == "a\\nb"


def test_files_of_groups_have_names_that_any_file_system_takes() -> None:
    found = file_names(["a/b", "a b", "../..", "x" * 300])

    assert [*found.values()] == ["a_b-", "a_b_2-", "group-", f"{'x' * 60}-"]
    assert file_names(["a/b"]) == {"a/b": ""}


# -- many


@cache
def is_finite(svg: str) -> bool:
    """Whether the picture has a size that a screen can show, and no number without end."""
    size = ElementTree.fromstring(svg).attrib
    return (
        not re.search(r"Infinity|NaN|e\+\d", svg)
        and 100 < float(size["width"]) < 3000
        and 100 < float(size["height"]) < 10_000
    )


@pytest.mark.parametrize(
    "which", all_but_the_first(1, ["slow callback", "nothing was slow", "many partitions"])
)
def test_no_picture_is_endless_whatever_there_is_to_be_shown(which: str) -> None:
    of = {
        "slow callback": drawn,
        "nothing was slow": lambda: draw(Tables(tell(of_two())[0])).svgs(),
        "many partitions": lambda: draw(many()).svgs(),
    }
    pictures = of[which]()

    assert len(pictures) >= 3
    assert {name: is_finite(svg) for name, svg in pictures.items()} == dict.fromkeys(pictures, True)


def test_no_picture_of_the_page_is_endless() -> None:
    pages = sorted((Path(__file__).parents[4] / "docs" / "rebalances").glob("*.svg"))

    assert len(pages) >= 4
    assert [page.name for page in pages if not is_finite(page.read_text())] == []


def test_many_partitions_share_rows_and_many_members_are_left_out() -> None:
    timeline = pictures_of(many())["timeline"]

    rows = {one["row"] for one in timeline.data["owned"]}
    assert len(rows) == 50
    assert "10 x orders: 0-9" in rows
    assert len({one["lane"] for one in timeline.data["spans"]}) == 40
    assert any("10 members are left out" in line for line in timeline.lines)


@pytest.mark.gate
def test_the_legends_of_a_timeline_are_no_wider_than_its_page() -> None:
    """With all that members of a storm do, one beside the other was cut off at the right."""
    tables = Tables(read(storm_lines(1, "classic"))[0])
    width = re.search(r'<svg[^>]* width="([0-9.]+)"', pictures_of(tables)["timeline"].svg())

    assert width is not None
    assert float(width[1]) <= 1120


def paused(*pauses: tuple[int, float, float], of: int) -> list[tuple[float, float, str, str]]:
    """When the line of a row of so many partitions is drawn, what it means, and its sentence."""
    row = Ribbon(
        [f"t-{number}" for number in range(of)],
        [("alice", BEGAN, BEGAN + 100)],
        [(BEGAN + began, BEGAN + ended, f"t-{which} rests.", f"t-{which}")
         for which, began, ended in pauses],
    )  # fmt: skip
    _, data = partitions_chart([row], Labels({"alice": ["alice"]}), Window(BEGAN, BEGAN + 100))
    since = milliseconds(BEGAN)
    return [
        ((one["a"] - since) / 1000, (one["b"] - since) / 1000, one["what"], one["say"])
        for one in data["silences"]
    ]


HALF, FEWER = "nothing from half of a row's partitions or more", "nothing from fewer of them"


def test_a_row_is_silent_only_when_all_its_partitions_are() -> None:
    """The line was drawn as if nothing was delivered while one of 42 partitions waited."""
    drawn = paused((0, 10, 39), (1, 20, 50), (2, 20, 35), (3, 30, 32), (0, 60, 70), of=4)

    assert [one[:3] for one in drawn] == [
        (10, 20, FEWER),
        (20, 30, HALF),
        (30, 32, NOBODY),
        (32, 39, HALF),
        (39, 50, FEWER),
        (60, 70, FEWER),
    ]
    said = [one[3] for one in drawn]
    longest = "The longest of their pauses (30.0 s): t-1 rests."
    assert said[1] == f"Nothing from 3 of these 4 partitions. {longest}"
    assert said[3] == f"Nothing from 2 to 3 of these 4 partitions. {longest}"
    assert said[5].endswith("(10.0 s): t-0 rests.")


def test_a_partition_that_is_silent_for_two_reasons_counts_once() -> None:
    assert [one[:3] for one in paused((0, 10, 40), (0, 20, 60), of=2)] == [(10, 60, HALF)]
    assert paused((0, 10, 40), (0, 20, 60), of=1) == [(10, 60, NOBODY, "t-0 rests.")]


def test_pauses_that_are_too_short_to_be_drawn_are_told_together() -> None:
    short = [(number % 20, 10 + number / 100, 10.005 + number / 100) for number in range(5000)]

    drawn = paused(*short, of=20)

    assert 100 < len(drawn) < 1000
    assert {one[2] for one in drawn} == {FEWER}
    assert drawn[0][3].startswith("Nothing from 0 to 1 of these 20 partitions.")


def test_the_legend_says_how_thick_the_line_of_a_row_of_several_partitions_is() -> None:
    said = texts(pictures_of(many())["timeline"].svg())

    assert {NOBODY, HALF, FEWER} <= set(said)
    assert not {HALF, FEWER} & set(texts(drawn()["timeline"]))


def test_the_steps_of_one_rebalance_say_how_many_members_and_partitions_they_leave_out() -> None:
    steps = pictures_of(many())["rebalance-2"]

    rows = [one["row"] for one in steps.data["steps"]]
    assert sum(row.endswith("its part") for row in rows) == 15
    moved = [row for row in rows if " to worker-" in row]
    assert [row.partition(" ")[0] for row in moved] == [f"orders-{one}" for one in range(12)]
    _, members, partitions = steps.lines
    assert members == "35 more members have a part in it, and are left out."
    assert partitions == "488 more partitions moved, and were silent no longer than these."


def test_the_causes_say_when_the_traces_end_as_their_axis_goes_further() -> None:
    causes = pictures_of(Tables(tell(of_two())[0]))["causes"]

    assert causes.lines == ["The traces end at 2027-01-15 08:00:17.000 UTC."]


def test_members_without_a_row_share_a_colour_that_is_nobody_elses_and_the_legend_says_so() -> None:
    timeline = pictures_of(many())["timeline"]
    owned = [one for one in timeline.data["owned"] if one["owner"] == "one of 10 other members"]
    spec = json.dumps(timeline.chart.to_dict())

    assert owned
    assert {one["name"] for one in owned} == {"other"}
    assert colours.OTHERS not in {*colours.OWNERS, *colours.PAIRS, *colours.PAIRS.values()}
    assert f'"range": ["{colours.OTHERS}", "{colours.OWNERS[0]}"' in spec
    assert "21 colours for 40 members: go by the names" in spec


def test_silences_take_no_longer_to_draw_the_more_the_other_members_did() -> None:
    """Each silence was looked for in all that all members did: here 100 million times."""
    window = Window(BEGAN, BEGAN + 1000)
    every: Any = {"group": "g", "host": "h", "because": None, "duration_ms": 200.0}
    doing: Any = {"member": None, "kind": "state", "what": "joining", "unfinished": False}
    spans = [
        Span(trace=name, consumer=name, began=At(at), ended=At(at + 0.2), **every, **doing)
        for number in range(5000)
        for name, at in [(f"worker-{number % 40}", BEGAN + number / 5)]
    ]
    silences = [
        Silence(partition="t-0", consumer=f"worker-{number % 40}", began=At(at), ended=At(at + 5),
                reason=None, sentence="Nothing.", **every)
        for number in range(20_000)
        for at in [BEGAN + 800 + number / 100]
    ]  # fmt: skip
    lanes = Lanes.of(spans, [], [])

    begins = time.process_time()
    _, data = members_chart(lanes, spans, silences, [], window)

    assert time.process_time() - begins < 3.0
    assert len(data["silent"]) == 40


@pytest.mark.gate
def test_a_page_of_many_partitions_is_small() -> None:
    page = draw(many()).html()

    assert len(page.encode()) < 3_000_000


def test_of_a_long_time_a_part_is_drawn_and_the_picture_says_so() -> None:
    events = of_two()
    late = [{**one, "t": one["t"] + 7200} for one in of_two()]

    timeline = pictures_of(Tables(tell([*events, *late])[0]))["timeline"]

    assert max(one["b"] - one["a"] for one in timeline.data["spans"]) <= 600_000
    assert any(line.startswith("Shown: 2027-01-15 ") for line in timeline.lines)


# -- colours


def lightness(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2


def contrast(one: str, other: str) -> float:
    dark, light = sorted([lightness(one), lightness(other)])
    return (light + 0.05) / (dark + 0.05)


def test_letters_and_silence_can_be_read_on_light_and_on_dark_ground() -> None:
    dark = colours.PAIRS
    for ground, ink in ((colours.GROUND, colours.INK), (dark[colours.GROUND], dark[colours.INK])):
        assert contrast(ground, ink) > 10
    assert contrast(colours.GROUND, colours.SILENT) > 15
    assert contrast(dark[colours.GROUND], dark[colours.SILENT]) > 15


@pytest.mark.parametrize("owner", [*colours.OWNERS, colours.OTHERS])
def test_the_name_on_a_ribbon_can_be_read_in_any_colour(owner: str) -> None:
    assert contrast(owner, colours.on(owner)) > 3.0
    assert contrast(colours.PAIRS.get(owner, owner), colours.on(owner)) > 3.0


def test_neighbouring_owners_differ_in_lightness_for_print() -> None:
    first = colours.OWNERS[:7]
    assert all(contrast(one, other) > 1.2 for one, other in pairwise(first))


def test_an_svg_has_the_dark_colours_for_screens_and_the_light_ones_for_paper() -> None:
    svg = drawn()["timeline"]

    assert "@media screen and (prefers-color-scheme:dark)" in svg
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg))
    assert colours.GROUND in used
    known = {*colours.PAIRS, *colours.OWNERS, *colours.SERIES, colours.BLACK, colours.WHITE}
    known |= {colours.CALLBACK, colours.WAITING, colours.COORDINATOR, colours.HELD, colours.OTHERS}
    assert used <= known


# -- what comes out


def test_a_page_loads_nothing_and_sends_nothing() -> None:
    page = draw(Tables(tell(of_two())[0])).html()

    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert "@import" not in tags
    assert re.findall(r'(?:src|href|url)[=(]"?([^"]*)', tags) == ["data:,"]
    assert "editor: false" in page


def test_no_secret_is_in_a_picture() -> None:
    secret = "hunter2-" * 3
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        group.joins(sasl_plain_password=secret, ssl_password=secret)
        sim.run(for_=2)
        tables = Tables(read(json.dumps(event) for event in group.events())[0])

    assert tables.rebalances
    assert secret not in draw(tables).html()  # which has all that its pictures are drawn from


def test_tables_without_a_group_give_a_page_that_says_so() -> None:
    pictures = draw(Tables())

    assert pictures.svgs() == {}
    assert "No rebalance and no silence is in these logs." in pictures.html()


@pytest.mark.gate
def test_a_notebook_shows_the_pictures() -> None:
    pictures = draw(Tables(tell(of_two())[0]))

    assert pictures._repr_html_().count("<svg") == 4


def test_the_command_writes_a_page_and_a_file_for_each_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, page, folder = tmp_path / "g.jsonl", tmp_path / "why.html", tmp_path / "svg"
    log.write_text("\n".join(json.dumps(event) for event in of_two()))

    assert main(["why", str(log), "--html", str(page), "--svg", str(folder)]) == 0

    assert page.read_text().startswith("<!doctype html>")
    names = ["causes.svg", "rebalance-2.svg", "rebalance.svg", "timeline.svg"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert f"{page} is written" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "g.jsonl"
    log.write_text("\n".join(json.dumps(event) for event in of_two()))

    assert main(["why", str(log), "--html", str(tmp_path / "nowhere" / "x.html")]) == 2

    told = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"aktor why: cannot write .*x\.html: No such file or directory", told)
