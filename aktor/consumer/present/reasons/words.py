"""How long, how many, when: the words of the reasons."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["a_sentence", "ago", "first_line", "for_long", "made_in", "plural", "seconds"]


def seconds(span: float) -> str:
    if span == math.inf:
        return "unknown time"
    # An owner may have published after `now` was read: nothing was in the future for that.
    return f"{max(0.0, span):.1f} s" if span < 100 else f"{span:.0f} s"


def for_long(since: float, now: float) -> str:
    return "" if since == -math.inf else f" for {seconds(now - since)}"


def ago(at: float, now: float) -> str:
    return "" if at == -math.inf else f" {seconds(now - at)} ago"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def made_in(at: float, now: float, what: str) -> str:
    """ "<what> is made in 0.3 s", if it is known when; `at` -inf: it is under way."""
    if at == -math.inf:
        return f"{what} is under way"
    if at <= now:
        return f"{what} is due"
    return f"{what} is made in {seconds(at - now)}" if at < math.inf else ""


def a_sentence(clause: str) -> str:
    """The clause as a sentence; "" if it is empty."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""


#: How kafka-python's errors begin when they are printed; their name follows.
_NUMBER: Final = re.compile(r"^\[Error -?[0-9]+\] ")


def first_line(text: str, most: int = 240) -> str:
    """The first line of an error's text, cut between two words if it is very long."""
    line = _NUMBER.sub("", text.strip().partition("\n")[0])
    if len(line) <= most:
        return line
    cut = line[: most - 3]
    return f"{cut.rpartition(' ')[0] or cut} ..."
