"""Names that users gave, as pictures show them: short, in one line, and never twice the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from aktor.trace.plain import visible

__all__ = ["Labels", "several", "short", "wrapped"]

#: A longer name is shortened in the middle, since names often differ at their ends.
LONGEST: Final = 28


def short(text: str, longest: int = LONGEST) -> str:
    """A name for a label."""
    text = visible(text)
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


class Labels(dict[Hashable, str]):
    """A label for each of these, which no other one has: the first words that tell it apart, of
    those that are given for it; else a number."""

    def __init__(self, named: Mapping[Hashable, Iterable[str]], longest: int = LONGEST) -> None:
        options = {
            key: [short(words, longest) for words in many] or ["?"] for key, many in named.items()
        }
        taken: set[str] = set()
        for key, choices in options.items():
            others = [words for other, words in options.items() if other != key]
            alone = (
                text for at, text in enumerate(choices) if all(text not in one for one in others)
            )
            text = base = next(alone, choices[-1])
            number = 1
            while text in taken:
                number += 1
                text = f"{base} #{number}"
            taken.add(text)
            self[key] = text


def several(numbers: Iterable[int], most: int = 6) -> str:
    """Partitions' numbers as ranges: "0-41, 43"."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    told = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:most]]
    return ", ".join(told) + (", …" if len(runs) > most else "")


def wrapped(text: str, width: int, lines: int) -> list[str]:
    """The text in so many lines at most. (A word that is too long is cut off.)"""
    found = [""]
    for word in visible(text).split(" "):
        word = short(word, width)
        if not found[-1]:
            found[-1] = word
        elif len(found[-1]) + 1 + len(word) <= width:
            found[-1] += f" {word}"
        elif len(found) == lines:
            found[-1] += " …"
            break
        else:
            found.append(word)
    return found
