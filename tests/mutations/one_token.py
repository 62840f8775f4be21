"""Bugs of one token: `<` for `<=`, `or` for `and`, another action in the table of error codes.

They were drawn once and stand in one_token.jsonl, by the text of their lines: a file may be moved.
With each stands a test that finds it (`found_by`), or why no test can (`equivalent`). If its line
has become another one, the list has the nearest that there is.
`python -m tests.mutations.one_token` draws those of the present sources anew.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
import re
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("one_token.jsonl")
TABLE: Final = Path("aktor/protocol/error_codes.py")

#: How many of the whole package, and of the table.
ANYWHERE, IN_TABLE = 60, 59
SEED: Final = 39

#: What is put in the place of a token.
OTHER: Final = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "+",
    "//": "*",
    "+=": "-=",
    "-=": "+=",
    "and": "or",
    "or": "and",
    "not": "",
    "is": "is not",
    "in": "not in",
    "True": "False",
    "False": "True",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "break": "continue",
    "continue": "break",
}
#: In these lines a token says what is imported, of which type something is, or decorates it.
_NO_CODE: Final = re.compile(r"(from|import|class|def|@|for|async|\)|\w+: )\W?")


_IS_NOT: Final = ("is", "not")


class NotThereError(Exception):
    """The line of a bug is not in the sources any more, or in several files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneToken:
    """`old` at this column of the `nth` line with this text, both without indentation, is `new`.

    `found_by` is a test that fails then, by its id, and `equivalent` says why none can; both are
    empty if that is not known.
    """

    of: str
    file: str
    line: str
    nth: int
    column: int
    old: str
    new: str
    found_by: str = ""
    equivalent: str = ""

    def put_into(self, root: Path) -> Path:
        """Change the file below `root`. Returns it, relative to `root`. Raises NotThereError."""
        path = self._found_in(root)
        lines = (root / path).read_text().splitlines(keepends=True)
        at = [number for number, line in enumerate(lines) if line.strip() == self.line][self.nth]
        start = lines[at].index(self.line) + self.column
        end = start + len(self.old)
        assert lines[at][start:end] == self.old, self
        lines[at] = lines[at][:start] + self.new + lines[at][end:]
        (root / path).write_text("".join(lines))
        return path

    def _found_in(self, root: Path) -> Path:
        if self._is_in(root / self.file):
            return Path(self.file)
        paths = sorted((root / "aktor").rglob("*.py"))
        same_name = [path for path in paths if path.name == Path(self.file).name]
        for some in (same_name, paths):
            found = [path for path in some if self._is_in(path)]
            if len(found) == 1:
                return found[0].relative_to(root)
        raise NotThereError(f"{self.file}: {self.line}")

    def _is_in(self, path: Path) -> bool:
        if not path.exists():
            return False
        return sum(line.strip() == self.line for line in path.read_text().splitlines()) > self.nth


def one_tokens() -> list[OneToken]:
    """The list."""
    return [OneToken(**json.loads(line)) for line in LIST.read_text().splitlines()]


def draw() -> list[OneToken]:
    """So many of the whole package, and so many of the table of error codes."""
    draws = random.Random(SEED)
    paths = sorted((ROOT / "aktor").rglob("*.py"))
    anywhere = [one for path in paths for one in _of_code(path.relative_to(ROOT))]
    table = list(_of_table(draws))
    draws.shuffle(anywhere)
    chosen = itertools.islice(filter(_compiles, anywhere), ANYWHERE)
    rows = sorted(draws.sample(range(len(table)), IN_TABLE))
    return [*sorted(chosen, key=lambda one: one.file), *(table[number] for number in rows)]


def _of_code(path: Path) -> Iterator[OneToken]:
    tokens = _tokens(path)
    for token, after in itertools.pairwise(tokens):
        text = token.string
        new = OTHER.get(text)
        if token.type == tokenize.NUMBER and text.isdecimal():
            new = str(int(text) + 1)
        if new is None or _NO_CODE.match(token.line.strip()) or (text, after.string) == _IS_NOT:
            continue
        yield _one_token("anywhere", path, token, new)


def _compiles(one: OneToken) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, one.file)
        copy.parent.mkdir(parents=True)
        copy.write_text((ROOT / one.file).read_text())
        one.put_into(Path(folder))
        try:
            ast.parse(copy.read_text())
        except SyntaxError:
            return False
    return True


def _of_table(draws: random.Random) -> Iterator[OneToken]:
    source = (ROOT / TABLE).read_text()
    first = source[: source.index("ROWS: Final")].count("\n")
    actions = sorted(set(re.findall(r"\bDo\.([A-Z_]+)", source)))
    before = ""
    for token in _tokens(TABLE):
        if before == "Do." and token.start[0] > first and token.string in actions:
            others = [action for action in actions if action != token.string]
            yield _one_token("table", TABLE, token, draws.choice(others))
        before = before[-2:] + token.string


def _one_token(of: str, path: Path, token: tokenize.TokenInfo, new: str) -> OneToken:
    lines = (ROOT / path).read_text().splitlines()
    row, column = token.start
    line = lines[row - 1].strip()
    return OneToken(
        of=of,
        file=path.as_posix(),
        line=line,
        nth=sum(one.strip() == line for one in lines[: row - 1]),
        column=column - lines[row - 1].index(line),
        old=token.string,
        new=new,
    )


def _tokens(path: Path) -> list[tokenize.TokenInfo]:
    with (ROOT / path).open("rb") as file:
        return list(tokenize.tokenize(file.readline))


if __name__ == "__main__":
    LIST.write_text("".join(json.dumps(asdict(one)) + "\n" for one in draw()))
