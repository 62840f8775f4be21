"""The text of the option `where`: its nodes of sqlglot, and where in the text a node stands.

What is no SQL is refused here, each with its place, what is expected there, and an example.
sqlglot's own words name its classes, and the end of what it could read.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Final

from sqlglot import Dialect, exp
from sqlglot.errors import ParseError, TokenError

from aktor.errors import ConfigurationError

__all__ = ["EXAMPLE", "Placed", "Refused", "WhereText"]

EXAMPLE: Final = "value.country = 'DE'"
_JOINED: Final = f"partition = 1 and {EXAMPLE}"

#: A text, a name or a comment as a whole, or one letter.
_ITEM: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/|.""", re.DOTALL | re.VERBOSE
)
_NOT_HEX: Final = re.compile(r"x'[^']*[^'0-9a-f][^']*'", re.IGNORECASE)

#: What stands for an operator in other languages.
_ELSEWHERE: Final = {
    "&&": f"write and, as {_JOINED}",
    "||": f"write or, as partition = 1 or {EXAMPLE}",
    "xor": "write <>, as value.paid <> (partition = 1)",
    "===": f"write =, as {EXAMPLE}",
}
#: What follows a condition in a query.
_OF_A_QUERY: Final = ("order", "group", "limit", "having", "select", "from", "where", "with")

#: Between two conditions or values; and after what nothing has stood yet.
_SIGNS: Final = ("and", "or", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "like", "in")
_BEFORE_NOTHING: Final = ("(", "not", *_SIGNS)

#: Words that are neither a value nor a name.
_BETWEEN: Final = (
    *("and", "or", "not", "in", "like", "ilike", "rlike", "regexp", "between", "is", "escape"),
    *("as", "div", "case", "when", "then", "else", "end"),
)
#: Words that begin a value when a text in quotes follows.
_OF_A_VALUE: Final = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval")
#: Values that are words: no function has such a name.
_VALUES: Final = ("true", "false", "null")

_OPENED_BY: Final = {")": "(", "]": "[", "}": "{"}
_CLOSED_BY: Final = {opening: closing for closing, opening in _OPENED_BY.items()}
_BRACKETS: Final = {
    "(": f"a condition in parentheses is ({EXAMPLE})",
    "{": f"a condition in parentheses is ({EXAMPLE})",
    "[": "fields are named with a dot, as value.country",
}

#: What is expected where a part of such a node of sqlglot's is missing.
_MISSING: Final = {
    "And": f"a condition on each side of and, as {_JOINED}",
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
    # The last words of a text.
    "is": "null, not null, true or false, as value.country is null",
    "not": "null, in, between or like after not, as value.country is not null",
}


class Refused(ConfigurationError):
    """A part of the text, `node`, is not understood; None: it is the condition in which it was
    read."""

    def __init__(self, said: str, node: Any = None) -> None:
        super().__init__(said)
        self.node = node


class Placed(ConfigurationError):
    """A part of the text is not understood, and the error's text begins with its place."""

    def __init__(self, start: int, said: str) -> None:
        super().__init__(f"character {start + 1}: {said}")


class WhereText:
    """Owns the text and its tokens.

    Raises ConfigurationError for what is no SQL.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        _check_letters(text)
        self._dialect = Dialect.get_or_raise("spark")
        try:
            self._tokens: list[Any] = _with_quotes(self._dialect.tokenize(text), text)
        except TokenError:
            found = _NOT_HEX.search(text)
            if found is None:
                raise Refused(f"it cannot be read as SQL; write it as {EXAMPLE}") from None
            raise Placed(
                found.start(), f"{found[0]} is not made of hexadecimal digits, as X'00ff' is"
            ) from None
        self._check_tokens()
        self._check_brackets()
        self._by_start = {token.start: place for place, token in enumerate(self._tokens)}

    def node(self) -> Any:
        """The condition, as sqlglot reads it."""
        try:
            # A condition, and no statement: for those it knows too little of, it writes to stderr.
            found = self._dialect.parser().parse_into(exp.Condition, self._tokens, self._text)
        except ParseError as error:
            raise self._no_condition(error.errors[0]) from None
        top = found[0] if found else None
        if top is None:
            raise self._missing_at(self._tokens[0])
        if top.find(exp.Alias, exp.Aliases):  # it takes a word that stands alone for a name
            named = [n for n, token in enumerate(self._tokens) if self._is_word(token, "as")]
            raise self._unexpected(named[-1] if named else 0)
        return top

    def placed(self, error: ConfigurationError, node: Any) -> Placed:
        """The same error with the place of its node, or of this one, before it."""
        node = (error.node if isinstance(error, Refused) else None) or node
        return Placed(self._span(node)[0], error.args[0])

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
        if start in self._by_start:
            found.append(self._by_start[start])
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
        for place in range(first, len(tokens)):
            if place > last and open_ <= 0:
                break
            kind = tokens[place].token_type.name
            open_ += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
            last = max(place, last)
        return first, last

    def _is_word(self, token: Any, word: str) -> bool:
        return self._word(token).lower().split(" ")[0] == word

    def _word(self, token: Any) -> str:
        """The token as the user has written it, with its quotes."""
        return self._text[token.start : token.end + 1]

    def _check_tokens(self) -> None:
        """Refuse nothing, more than one statement, and a query."""
        tokens = self._tokens
        while tokens and self._word(tokens[-1]) == ";":
            tokens.pop()
        if not tokens:
            raise Refused(f"it has no condition: write one, as {EXAMPLE}, or leave where out")
        for token in tokens:
            if self._word(token) == ";":
                raise Placed(
                    token.start,
                    "; ends a statement, and where is one condition: join several by and, as"
                    f" {_JOINED}",
                )
        word = self._word(tokens[0])
        if word.lower() in ("where", "select", "from", "with", "having"):
            raise Placed(
                tokens[0].start,
                f"{word} begins a query, and where is the condition alone, as {EXAMPLE}",
            )
        if word.lower() in ("in", "is"):  # sqlglot takes them for names
            raise self._missing_at(tokens[0])

    def _check_brackets(self) -> None:
        """Refuse brackets without their others."""
        open_: list[Any] = []
        for token in self._tokens:
            word = self._word(token)
            if word in _BRACKETS:
                open_.append(token)
                continue
            opening = _OPENED_BY.get(word)
            if opening is not None and not (open_ and self._word(open_.pop()) == opening):
                said = f"this {word} closes no {opening} before it: {_BRACKETS[opening]}"
                raise Placed(token.start, said)
        if open_:
            word = self._word(open_[-1])
            said = f"this {word} is not closed by a {_CLOSED_BY[word]}: {_BRACKETS[word]}"
            raise Placed(open_[-1].start, said)

    def _no_condition(self, found: dict[str, Any]) -> Placed:
        """What sqlglot has found, in words of SQL."""
        where = (found.get("line"), found.get("col"))
        place = next(
            (n for n, one in enumerate(self._tokens) if (one.line, one.col) == where),
            len(self._tokens) - 1,
        )
        token, said = self._tokens[place], found.get("description") or ""
        missing = re.search(r"missing for .*?(\w+)'?>?$", said)
        is_name = missing is not None and missing[1].startswith("Alias")
        if missing is None or is_name or self._of_other_languages(token):
            return self._unexpected(place)
        if "'this' missing" in said:
            token = self._first_of_nothing(token)
        return self._missing_at(token, missing[1])

    def _missing_at(self, token: Any, of: str = "") -> Placed:
        """What is missing at this token: to a node of this class, or after the last word."""
        expected = _MISSING.get(of, f"a column and a value beside it, as {EXAMPLE}")
        said = f"something is missing at {self._word(token)}; expected is {expected}"
        return Placed(token.start, said)

    def _unexpected(self, place: int) -> Placed:
        """Why the token at this place, or one before it, is not expected."""
        alone = self._without_operator()
        token = self._tokens[place if alone is None else alone]
        if (other := self._of_other_languages(token)) is not None:
            return other
        if self._word(self._tokens[-1]).lower() in _MISSING:
            return self._missing_at(self._tokens[-1], self._word(self._tokens[-1]).lower())
        start, word = token.start, self._word(token)
        if word.lower().split(" ")[0] in _OF_A_QUERY:
            return Placed(
                start, f"{word} belongs to a query, and where is the condition alone, as {EXAMPLE}"
            )
        if alone is not None:
            before = self._word(self._tokens[alone - 1])
            return Placed(
                start,
                f"an operator is missing between {before} and {word}: expected is and, or, or a"
                f" sign such as =, as {_JOINED}",
            )
        return Placed(
            start,
            f"{word} is not expected here; a condition is a column, a sign and a value, and"
            f" conditions are joined by and, or, as {_JOINED}",
        )

    def _of_other_languages(self, token: Any) -> Placed | None:
        """The refusal of an operator that SQL does not have, if the token ends one."""
        for sign, instead in _ELSEWHERE.items():
            start = token.end + 1 - len(sign)
            said = self._text[max(0, start) : token.end + 1]
            if start <= token.start and said.lower() == sign:
                return Placed(start, f"{said} is no operator of Spark's SQL: {instead}")
        return None

    def _without_operator(self) -> int | None:
        """The first token with which something begins right after something else has ended."""
        words = [self._word(token) for token in self._tokens]
        for place, (before, word) in enumerate(itertools.pairwise(words), 1):
            is_over = _is_name_or_value(before) or before in (")", "]")
            begins = word == "(" or _is_name_or_value(word)
            if is_over and begins and not _belong_together(before, word):
                return place
        return None

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


def _is_name_or_value(word: str) -> bool:
    return bool(re.match(r"[\w'\"`]", word)) and word.lower() not in _BETWEEN


def _belong_together(before: str, word: str) -> bool:
    """Whether the two are parts of one value: a call, two texts, a text with its type."""
    if word == "(":
        return bool(re.match(r"[a-z_`]", before, re.IGNORECASE)) and before.lower() not in _VALUES
    is_text = word[0] in "'\""
    return is_text and (before[0] in "'\"" or before.lower() in _OF_A_VALUE)


def _check_letters(text: str) -> None:
    """Refuse quotes that have no end, and letters that look like quotes."""
    for item in _ITEM.finditer(text):
        letter, start = item[0], item.start()
        if letter in "'\"":
            raise Placed(
                start,
                f"the text that {letter} begins has no end: a text stands in two, as 'DE', and a '"
                " in it is written twice, as 'it''s'",
            )
        if letter == "`":
            raise Placed(start, "the name that ` begins has no end: write `the name`")
        if letter in "‘’“”„´":
            raise Placed(start, f"{letter} is no quote of SQL: a text is written as 'DE'")
        if letter == "/" and text.startswith("/*", start):
            raise Placed(start, "the comment has no end: write /* ... */")
        if "\\" in letter:
            raise Placed(
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
