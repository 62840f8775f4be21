"""The text of the option `where`: its nodes of sqlglot, and where in the text a node stands.

What is no SQL is refused here, each with its place, what is expected there, and an example.
sqlglot's own words name its classes, and the end of what it could read.
"""

from __future__ import annotations

import re
from typing import Any, Final

from aktor.errors import ConfigurationError

__all__ = ["EXAMPLE", "Refused", "WhereText"]

EXAMPLE: Final = "value.country = 'DE'"

#: A text, a name or a comment as a whole, or one letter.
_ITEM: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/|.""", re.DOTALL | re.VERBOSE
)
_NOT_HEX: Final = re.compile(r"x'[^']*[^'0-9a-f][^']*'", re.IGNORECASE)

#: What stands for an operator in other languages.
_ELSEWHERE: Final = {
    "&&": "write and",
    "||": "write or",
    "xor": "write a <> b",
}
#: What follows a condition in a query.
_OF_A_QUERY: Final = ("order", "group", "limit", "having", "select", "from", "where", "with")

#: Between two conditions or values; and after what nothing has stood yet.
_SIGNS: Final = ("and", "or", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "like", "in")
_BEFORE_NOTHING: Final = ("(", "not", *_SIGNS)

#: What is expected where sqlglot says that a part of such a node is missing.
_MISSING: Final = {
    "And": f"a condition on each side of and, as partition = 1 and {EXAMPLE}",
    "Or": f"a condition on each side of or, as partition = 1 or {EXAMPLE}",
    "Not": f"a condition after not, as not {EXAMPLE}",
    "Paren": f"a condition in the parentheses, as ({EXAMPLE})",
    "Between": "two values with and, as partition between 1 and 3",
    "Like": "a pattern, as value.country like 'D%'",
    "Escape": "one character, as value.note like '50!%' escape '!'",
    **dict.fromkeys(
        ("Contains", "StartsWith", "EndsWith"),
        "a column and a string, as contains(value.note, 'sale')",
    ),
}


class Refused(ConfigurationError):
    """A part of the text, `node`, is not understood; None: it is the condition in which it was
    read."""

    def __init__(self, said: str, node: Any = None) -> None:
        super().__init__(said)
        self.node = node


class WhereText:
    """Owns the text and its tokens.

    Raises ConfigurationError for what is no SQL.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        _check_letters(text)
        from sqlglot import Dialect
        from sqlglot.errors import TokenError

        self._dialect = Dialect.get_or_raise("spark")
        try:
            self._tokens: list[Any] = _with_quotes(self._dialect.tokenize(text), text)
        except TokenError:
            found = _NOT_HEX.search(text)
            if found is None:
                raise Refused(f"it cannot be read as SQL; write it as {EXAMPLE}") from None
            raise _at(
                found.start(), f"{found[0]} is not made of hexadecimal digits, as X'00ff' is"
            ) from None
        self._check_tokens()

    def node(self) -> Any:
        """The condition, as sqlglot reads it."""
        from sqlglot.errors import ParseError

        try:
            expressions = self._dialect.parser().parse(self._tokens, self._text)
        except ParseError as error:
            raise self._no_condition(error.errors[0]) from None
        assert len(expressions) == 1, "there is one statement"
        return expressions[0]

    def placed(self, error: ConfigurationError, node: Any) -> ConfigurationError:
        """The same error with the place of its node, or of this one, before it."""
        node = (error.node if isinstance(error, Refused) else None) or node
        return _at(self._span(node)[0], error.args[0])

    def piece(self, node: Any) -> str:
        """The node as the user has written it."""
        start, end = self._span(node)
        return self._text[start:end] or type(node).__name__

    def _span(self, node: Any) -> tuple[int, int]:
        """Where the node begins and ends."""
        found = self._places(node)
        if found is not None:
            return self._tokens[found[0]].start, self._tokens[found[1]].end + 1
        head = _head(node)
        for token in self._tokens:
            if self._is_word(token, head):
                return token.start, token.end + 1
        return 0, len(self._text)

    def _places(self, node: Any) -> tuple[int, int] | None:
        """The first and the last token of the node. sqlglot tells it of names and values, and not
        of the words and parentheses around them."""
        tokens = self._tokens
        found = [place for one in node.iter_expressions() for place in self._places(one) or ()]
        start = node.meta.get("start")
        found += [place for place, token in enumerate(tokens) if token.start == start]
        if not found:
            return None
        first, last = min(found), max(found)
        head = _head(node)
        if head in ("not", "(") or not self._is_word(tokens[first], head):
            for place in range(max(0, first - 3), first):
                if self._is_word(tokens[place], head):
                    first = place
        is_dated = type(node).__name__ == "Cast" and first and tokens[first].text[:1].isdigit()
        if is_dated and re.match("date|timestamp", tokens[first - 1].text.lower()):
            first -= 1
        open_ = 0
        for place, token in enumerate(tokens[first:], first):
            if place > last and open_ <= 0:
                break
            kind = token.token_type.name
            open_ += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
            last = max(place, last)
        return first, last

    def _is_word(self, token: Any, word: str) -> bool:
        return self._word(token).lower().split(" ")[0] == word

    def _word(self, token: Any) -> str:
        """The token as the user has written it, with its quotes."""
        return self._text[token.start : token.end + 1]

    def _check_tokens(self) -> None:
        """Refuse what has parentheses without their others, nothing, or more than one statement."""
        tokens = self._tokens
        while tokens and tokens[-1].token_type.name == "SEMICOLON":
            tokens.pop()
        if not tokens:
            raise Refused(f"it has no condition: write one, as {EXAMPLE}, or leave where out")
        open_ = []
        for token in tokens:
            kind = token.token_type.name
            if kind == "SEMICOLON":
                raise _at(
                    token.start,
                    "; ends a statement, and where is one condition: join several by and, as"
                    f" partition = 1 and {EXAMPLE}",
                )
            if kind == "L_PAREN":
                open_.append(token)
            elif kind == "R_PAREN":
                if not open_:
                    raise _at(token.start, "this ) closes no ( before it")
                open_.pop()
        if open_:
            raise _at(open_[-1].start, "this ( is not closed by a )")
        word = self._word(tokens[0])
        if word.lower() in ("where", "select", "from", "with", "having"):
            raise _at(
                tokens[0].start,
                f"{word} begins a query, and where is the condition alone, as {EXAMPLE}",
            )

    def _no_condition(self, found: dict[str, Any]) -> ConfigurationError:
        """What sqlglot has found, in words of SQL."""
        where = (found.get("line"), found.get("col"))
        place = next(
            (n for n, one in enumerate(self._tokens) if (one.line, one.col) == where),
            len(self._tokens) - 1,
        )
        token, said = self._tokens[place], found.get("description") or ""
        if "===" in self._text[max(0, token.start - 2) : token.end + 1]:
            return _at(token.start - 2, "=== is no operator of Spark's SQL: write =")
        if "'this' missing" in said:
            token = self._first_of_nothing(token)
        word = self._word(token)
        missing = re.search(r"missing for .*?(\w+)'?>?$", said)
        if missing is not None:
            expected = _MISSING.get(missing[1], f"a column and a value beside it, as {EXAMPLE}")
            return _at(token.start, f"something is missing at {word}; expected is {expected}")
        if said.startswith("Expecting"):
            return _at(token.start, f"{said.split('.')[0].lower()} after {word}")
        if word.lower() in _ELSEWHERE:
            return _at(
                token.start, f"{word} is no operator of Spark's SQL: {_ELSEWHERE[word.lower()]}"
            )
        if word.lower().split(" ")[0] in _OF_A_QUERY:
            return _at(
                token.start,
                f"{word} belongs to a query, and where is the condition alone, as {EXAMPLE}",
            )
        return _at(
            token.start,
            f"{word} is not expected here; a condition is a column, a sign and a value, and"
            f" conditions are joined by and, or, as partition = 1 and {EXAMPLE}",
        )

    def _first_of_nothing(self, found: Any) -> Any:
        """The first operator before which nothing stands; this token if there is none."""
        before = "("
        for token in self._tokens:
            word = self._word(token).lower()
            if word in _SIGNS and before in _BEFORE_NOTHING:
                return token
            before = word
        return found


def _head(node: Any) -> str:
    """The first word with which sqlglot writes a node."""
    found = re.match(r"\w+|.", node.sql(dialect="spark"))
    return found[0].lower() if found else ""


def _at(start: int, said: str) -> Refused:
    return Refused(f"character {start + 1}: {said}")


def _check_letters(text: str) -> None:
    """Refuse quotes that have no end, and letters that look like quotes."""
    for item in _ITEM.finditer(text):
        letter, start = item[0], item.start()
        if letter in "'\"":
            raise _at(
                start,
                f"the text that {letter} begins has no end: a text stands in two, as 'DE', and a '"
                " in it is written twice, as 'it''s'",
            )
        if letter == "`":
            raise _at(start, "the name that ` begins has no end: write `the name`")
        if letter in "‘’“”„´":
            raise _at(start, f"{letter} is no quote of SQL: a text is written as 'DE'")
        if letter == "/" and text.startswith("/*", start):
            raise _at(start, "the comment has no end: write /* ... */")
        if "\\" in letter:
            raise _at(
                start + letter.index("\\"),
                "it has a backslash, which means several things in SQL: a ' in a text is written"
                " twice, as 'it''s'; like has escape '!'; other texts are for a filter of Spark"
                " after reading",
            )


def _with_quotes(tokens: list[Any], text: str) -> list[Any]:
    """The tokens, where 'it''s' is one text, as it is for Spark. sqlglot makes two of it, as it
    does of 'it' 's', which for Spark is its."""
    found: list[Any] = []
    for token in tokens:
        before = found[-1] if found else None
        quote = text[token.start]
        if (
            before is not None
            and token.token_type.name == before.token_type.name == "STRING"
            and before.end + 1 == token.start
            and text[before.end] == quote == text[before.start]
        ):
            found[-1] = type(token)(
                token.token_type,
                before.text + quote + token.text,
                token.line,
                token.col,
                before.start,
                token.end,
                [*before.comments, *token.comments],
            )
        else:
            found.append(token)
    return found
