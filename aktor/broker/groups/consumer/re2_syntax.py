"""What RE2 lets a pattern say, read into a tree (github.com/google/re2/wiki/Syntax).

No look-around, no back references, no possessive repetitions: they are refused as RE2/J refuses
them. What makes no difference to whether a whole name matches is read and forgotten: capturing,
greediness, and the flags for several lines.
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = [
    "Assertion",
    "Choice",
    "Class",
    "Node",
    "PatternError",
    "Repeat",
    "Sequence",
    "parse",
]

_MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 100
_MAX_LENGTH: Final = 4096

_ALL: Final = (1 << 128) - 1


class PatternError(ValueError):
    """It is not an expression of RE2; the text is RE2/J's reason."""


@dataclass(frozen=True, slots=True)
class Class:
    """One character; bit n of `mask` stands for the character n."""

    mask: int


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between characters: "begin", "end", "word" boundary or "not word" boundary."""

    kind: str

    def holds(self, before: str, after: str) -> bool:
        """Whether it is true between these two, "" beyond either end."""
        if self.kind == "begin":
            return not before
        if self.kind == "end":
            return not after
        boundary = _is_word(before) != _is_word(after)
        return boundary == (self.kind == "word")


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Again and again; `most` None: without end."""

    part: Node
    least: int
    most: int | None


Node: TypeAlias = Class | Assertion | Sequence | Choice | Repeat


def _mask(chars: str) -> int:
    return sum(1 << ord(char) for char in set(chars))


def _range_mask(low: int, high: int) -> int:
    """The ASCII characters from low to high."""
    high = min(high, 127)
    return ((1 << (high + 1)) - 1) & ~((1 << low) - 1) if low <= high else 0


_WORD: Final = _mask(string.ascii_letters + string.digits + "_")
_DIGIT: Final = _mask(string.digits)
_SPACE: Final = _mask("\t\n\f\r ")

_PERL: Final = {
    "d": _DIGIT,
    "D": _ALL & ~_DIGIT,
    "s": _SPACE,
    "S": _ALL & ~_SPACE,
    "w": _WORD,
    "W": _ALL & ~_WORD,
}
_POSIX: Final = {
    "alnum": _mask(string.ascii_letters + string.digits),
    "alpha": _mask(string.ascii_letters),
    "ascii": _ALL,
    "blank": _mask("\t "),
    "cntrl": _range_mask(0, 0x1F) | 1 << 0x7F,
    "digit": _DIGIT,
    "graph": _range_mask(0x21, 0x7E),
    "lower": _mask(string.ascii_lowercase),
    "print": _range_mask(0x20, 0x7E),
    "punct": _mask(string.punctuation),
    "space": _mask("\t\n\v\f\r "),
    "upper": _mask(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": _mask(string.hexdigits),
}
#: Scripts without an ASCII character, as far as topics are likely to be named by them.
_OTHER_SCRIPTS: Final = frozenset(
    {"Arabic", "Armenian", "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul"}
    | {"Hebrew", "Hiragana", "Katakana", "Thai"}
)
#: Unicode's general categories, in full and by their first letter.
_CATEGORIES: Final = frozenset(
    {"C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N"}
    | {"Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm"}
    | {"So", "Z", "Zl", "Zp", "Zs"}
)
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ASSERTIONS: Final = {
    "A": Assertion("begin"),
    "z": Assertion("end"),
    "b": Assertion("word"),
    "B": Assertion("not word"),
}
_OCTAL: Final = "01234567"


def _is_word(char: str) -> bool:
    return bool(char) and bool(_WORD >> ord(char) & 1)


def _either_case(mask: int) -> int:
    """The class with both cases of its letters."""
    chars = [chr(n) for n in range(128) if mask >> n & 1]
    return mask | _mask("".join(char.swapcase() for char in chars))


def parse(pattern: str) -> Node:
    """The tree of a pattern; raises PatternError."""
    if len(pattern) > _MAX_LENGTH:
        raise PatternError(f"expression is longer than {_MAX_LENGTH} characters")
    parser = _Parser(pattern)
    node = parser.choice(depth=0)
    if parser.rest:
        raise PatternError("regexp/syntax: internal error")
    return node


class _Parser:
    """Reads a pattern from left to right. Owns the place and the flags."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._fold = False
        self._names: set[str] = set()

    @property
    def rest(self) -> bool:
        """Whether something is left to read."""
        return self._at < len(self._pattern)

    def _looking_at(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self) -> str:
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _take_if(self, text: str) -> bool:
        if not self._looking_at(text):
            return False
        self._at += len(text)
        return True

    def _take_until(self, end: str, reason: str) -> str:
        found = self._pattern.find(end, self._at)
        if found < 0:
            raise PatternError(reason)
        text = self._pattern[self._at : found]
        self._at = found + len(end)
        return text

    def choice(self, *, depth: int) -> Node:
        """Alternatives up to the end or a closing parenthesis."""
        if depth > _MAX_DEPTH:
            raise PatternError("expression nests too deeply")
        parts = [self._sequence(depth)]
        while self._take_if("|"):
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        repeated = False
        while self.rest and not self._looking_at("|") and not self._looking_at(")"):
            times = self._repetition()
            if times is None:
                # RE2/J does not let a brace that is text be repeated.
                repeated = self._looking_at("{")
                self._piece(parts, depth)
                continue
            if not parts:
                raise PatternError("missing argument to repetition operator")
            if repeated:
                raise PatternError("invalid nested repetition operator")
            parts[-1] = Repeat(parts[-1], *times)
            repeated = True
        return Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        """What `*`, `+`, `?` or `{...}` here say; None if there is none of them."""
        times: tuple[int, int | None] | None = None
        if self._take_if("*"):
            times = 0, None
        elif self._take_if("+"):
            times = 1, None
        elif self._take_if("?"):
            times = 0, 1
        elif self._looking_at("{"):
            times = self._counted()
        if times is not None:
            self._take_if("?")
        return times

    def _counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,3}`; anything else is no repetition but text."""
        end = self._pattern.find("}", self._at)
        least, comma, most = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        if not _is_count(least) or (most and not _is_count(most)):
            return None
        self._at = end + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > _MAX_REPEAT or (high is not None and (high > _MAX_REPEAT or high < low)):
            raise PatternError("invalid repeat count")
        return low, high

    def _piece(self, parts: list[Node], depth: int) -> None:
        """One character, class, group or assertion; flags and an empty quotation add nothing."""
        char = self._take()
        if char == "(":
            group = self._group(depth)
            if group is not None:
                parts.append(group)
        elif char == "[":
            parts.append(self._class())
        elif char == ".":
            parts.append(Class(_ALL))
        elif char == "^":
            parts.append(Assertion("begin"))
        elif char == "$":
            parts.append(Assertion("end"))
        elif char == "\\" and self._take_if("Q"):
            parts.extend(self._quotation())
        elif char == "\\":
            parts.append(self._escape())
        else:
            parts.append(self._literal(ord(char)))

    def _literal(self, code: int) -> Class:
        return self._folded(_range_mask(code, code))

    def _folded(self, mask: int) -> Class:
        return Class(_either_case(mask) if self._fold else mask)

    def _quotation(self) -> list[Class]:
        end = self._pattern.find("\\E", self._at)
        end = len(self._pattern) if end < 0 else end
        text = self._pattern[self._at : end]
        self._at = min(end + 2, len(self._pattern))
        return [self._literal(ord(char)) for char in text]

    def _group(self, depth: int) -> Node | None:
        fold = self._fold
        if self._looking_at("?") and not self._named() and not self._flags():
            return None
        node = self.choice(depth=depth + 1)
        if not self._take_if(")"):
            raise PatternError("missing closing )")
        self._fold = fold
        return node

    def _named(self) -> bool:
        """Read `?P<name>`, if it is there."""
        if not (self._take_if("?P<") or self._take_if("?<")):
            return False
        name = self._take_until(">", "invalid named capture")
        if not name or not all(_is_word(char) for char in name if ord(char) < 128):
            raise PatternError("invalid named capture")
        if name in self._names:
            raise PatternError("duplicate capture group name")
        self._names.add(name)
        return True

    def _flags(self) -> bool:
        """Read `?i-s:`; whether a group follows, or the flags are for what comes after."""
        self._take()
        on, seen = True, False
        while self.rest:
            char = self._take()
            if char in ":)":
                if not on and not seen:
                    break
                return char == ":"
            if char == "-" and on:
                on, seen = False, False
            elif char in "imsU":
                seen = True
                if char == "i":
                    self._fold = on
            else:
                break
        raise PatternError("invalid or unsupported Perl syntax")

    def _escape(self) -> Node:
        """What a backslash outside of a class begins."""
        if not self.rest:
            raise PatternError("trailing backslash at end of expression")
        char = self._pattern[self._at]
        if char in _ASSERTIONS:
            self._at += 1
            return _ASSERTIONS[char]
        mask = self._class_escape()
        return Class(mask) if mask is not None else self._literal(self._code())

    def _class_escape(self) -> int | None:
        """The class of `\\d`, `\\pN` and their like, after the backslash; None if it is none."""
        char = self._pattern[self._at]
        if char in _PERL:
            self._at += 1
            return self._folded(_PERL[char]).mask
        if char not in "pP":
            return None
        self._at += 1
        if not self.rest:
            raise PatternError("invalid character class range")
        name = self._take()
        if name == "{":
            name = self._take_until("}", "invalid character class range")
        negated = (char == "P") != name.startswith("^")
        mask = self._folded(_unicode_mask(name.removeprefix("^"))).mask
        return _ALL & ~mask if negated else mask

    def _code(self) -> int:
        """The character that an escape stands for, after the backslash."""
        char = self._take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            return self._hexadecimal()
        if char in _OCTAL and (char == "0" or self._pattern[self._at : self._at + 1] in _DIGITS):
            return self._octal(char)
        if ord(char) < 128 and not char.isalnum():
            return ord(char)
        raise PatternError("invalid escape sequence")

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self.rest and self._pattern[self._at] in _OCTAL:
            digits += self._take()
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        if self._take_if("{"):
            digits = self._take_until("}", "invalid escape sequence")
        else:
            digits = self._pattern[self._at : self._at + 2]
            self._at += 2
            if len(digits) < 2:
                raise PatternError("invalid escape sequence")
        if not digits or any(digit not in string.hexdigits for digit in digits):
            raise PatternError("invalid escape sequence")
        if int(digits, 16) > 0x10FFFF:
            raise PatternError("invalid escape sequence")
        return int(digits, 16)

    def _class(self) -> Class:
        """`[...]`, after the opening bracket."""
        negated = self._take_if("^")
        mask, first = 0, True
        while first or not self._looking_at("]"):
            if not self.rest:
                raise PatternError("missing closing ]")
            first = False
            mask |= self._class_part()
        self._at += 1
        mask = self._folded(mask).mask
        return Class(_ALL & ~mask if negated else mask)

    def _class_part(self) -> int:
        if self._looking_at("[:") and ":]" in self._pattern[self._at + 2 :]:
            self._at += 2
            name = self._take_until(":]", "missing closing ]")
            mask = _POSIX.get(name.removeprefix("^"))
            if mask is None:
                raise PatternError("invalid character class range")
            return _ALL & ~mask if name.startswith("^") else mask
        if self._looking_at("\\") and self._at + 1 < len(self._pattern):
            self._at += 1
            mask = self._class_escape()
            if mask is not None:
                return mask
            self._at -= 1
        low = self._class_code()
        high = low
        if (
            self._looking_at("-")
            and not self._looking_at("-]")
            and self._at + 1 < len(self._pattern)
        ):
            self._at += 1
            high = self._class_code()
            if high < low:
                raise PatternError("invalid character class range")
        return _range_mask(low, high)

    def _class_code(self) -> int:
        if not self.rest:
            raise PatternError("missing closing ]")
        char = self._take()
        if char != "\\":
            return ord(char)
        if not self.rest:
            raise PatternError("trailing backslash at end of expression")
        return self._code()


_DIGITS: Final = tuple(_OCTAL)


def _is_count(text: str) -> bool:
    """A number as RE2 writes it: no sign, no leading zero."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _unicode_mask(name: str) -> int:
    """The ASCII characters of a general category or a script."""
    if name == "Any":
        return _ALL
    if name in _CATEGORIES:
        return _mask(
            "".join(c for c in map(chr, range(128)) if unicodedata.category(c).startswith(name))
        )
    if name == "Latin":
        return _POSIX["alpha"]
    if name == "Common":
        return _ALL & ~_POSIX["alpha"]
    if name in _OTHER_SCRIPTS:
        return 0
    raise PatternError("invalid character class range")
