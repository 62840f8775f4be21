"""`python -m tests.error_table`: write docs/errors.md anew, from `aktor.protocol.error_codes`."""

from __future__ import annotations

from pathlib import Path

from kafka.errors import KafkaError, KafkaTimeoutError, RetriableError, UnknownError

from aktor.errors import AuthenticationError
from aktor.protocol.error_codes import (
    CORRUPT,
    FORBIDDEN,
    LASTING,
    ROWS,
    Answer,
    Do,
    Rows,
    name_of,
)
from aktor.protocol.remedies import remedy
from tests.state_tables import docstrings

DOCUMENT = Path(__file__).parent.parent / "docs" / "errors.md"

#: What is no request of its own, or one of the handshake: the whole connection fails.
PARTS = (
    Answer.API_VERSIONS,
    Answer.SASL_HANDSHAKE,
    Answer.SASL_AUTHENTICATE,
    Answer.METADATA_TOPIC,
    Answer.FETCH_PARTITION,
    Answer.FETCH_FOLLOWER,
)

HEAD = (
    "# What error codes mean",
    "A broker's answer has an error code, for all of it or for a topic or partition; or there is no"
    " answer. What the consumer does about each of these stands in one table,"
    " `aktor/protocol/error_codes.py`; this page is made from it (`python -m tests.error_table`)."
    " Where the member's state matters too, the manager decides; the row says between what.",
    "A test lets every manager, and the handshake of a connection, meet every code in every kind of"
    " answer, and every reason why there is no answer"
    " (`tests/unit/managers/test_error_codes.py`). For each action in the table it compares the row"
    " with what is said and sent. Some actions cannot be seen beside others: LEAVE of a member that"
    " stays, for example. The test says which.",
    "Codes without a row of their own go by whether Kafka calls them retriable. A code that is"
    " newer than this version is treated as UNKNOWN_SERVER_ERROR, and an error that is raised for"
    " it tells its number. UNSUPPORTED_VERSION is also the error of a request that the broker has"
    " no version of, and is not sent.",
    "An error that is raised ends with what to do about it; `aktor/protocol/remedies.py` has these"
    " words, and the last column shows them. The text also names the topic, partition, offset or"
    " group that it is about, and the broker that refused it (`tests/unit/managers/"
    "test_error_texts.py`). A code that has no words of its own here has those that the table of"
    " another answer shows, if one does.",
    "## Actions",
)


def actions() -> list[str]:
    """Each action and its docstring, which a row of the page has on one line."""
    rows = [f"| {one.name} | {' '.join(docstrings(Do)[str(one.name)])} |" for one in Do]
    return ["| action | what is done |", "|---|---|", *rows]


def _written(action: Do) -> str:
    return ", ".join(str(one.name) for one in action)


def _table(answer: Answer, rows: Rows, *, whole: bool) -> list[str]:
    lines = ["| code | actions | what the error advises |", "|---|---|---|"]

    def row(code: str, action: Do, error: type[BaseException]) -> str:
        advice = remedy(answer, error) if Do.RAISE in action else ""
        return f"| {code} | {_written(action)} | {advice} |"

    named = sorted(
        (getattr(one, "errno", 0), name_of_row(one), do, one) for one, do in rows.codes.items()
    )
    lines += [row(f"{name} ({code})", do, one) for code, name, do, one in named]
    if whole:
        unanswered = rows.retriable if rows.unanswered is None else rows.unanswered
        lines.append(row("no answer (a timeout, no connection)", unanswered, KafkaTimeoutError))
        denied = row("no answer (our credentials were refused)", rows.denied, AuthenticationError)
        lines.append(denied)
    lines.append(row("others that are retriable", rows.retriable, RetriableError))
    lines.append(row("all others", rows.fatal, KafkaError))
    if rows.unknown is not None:
        unknown = "UNKNOWN_SERVER_ERROR (-1), and codes not known here"
        lines.append(row(unknown, rows.unknown, UnknownError))
    return lines


def name_of_row(error: type[BaseException]) -> str:
    """Kafka's name of a code."""
    assert issubclass(error, Exception)
    return name_of(error)


def lasting() -> list[str]:
    """The errors of a partition that only a seek ends."""
    names = ", ".join(f"`{one.__name__}`" for one in LASTING)
    return [
        "## Errors of a partition that stand until a seek",
        "",
        f"{names}: the application gets such an error again at a later `poll`, until it seeks or"
        " pauses the partition. Each other error of a partition is raised once for each attempt to"
        " find its position, or to fetch from it (`aktor/consumer/core/partition_errors.py`).",
    ]


def beside_the_rows() -> list[str]:
    """Errors that lead to more than one answer's row says."""
    return [
        "## Errors that lead to more than their rows say",
        "",
        f"`{CORRUPT.__name__}` (the broker cannot read a batch, or our decoder cannot): the"
        " error is raised, and the batch is fetched again a few times"
        " (`aktor/consumer/core/partition_errors.py`). If the bytes that come are sound, the error"
        " is over.",
        "",
        "RAISE of ApiVersions, SaslHandshake or SaslAuthenticate ends the connection. The network"
        " actor tells the application of a refused login at once, but if the login was only to be"
        " renewed, it connects again first. After a refused ApiVersions the requests that wait for"
        " the connection fail, and it connects again after the backoff.",
        "",
        f"`{FORBIDDEN.__name__}` is about topics, not about the member or the group: the error"
        " names the topics. If an answer to OffsetCommit has several errors, the commit ends with"
        " an error that is not retried: with another one first, else with this one. If Metadata"
        " has this error for a topic, calls that ask for offsets or a position in the topic raise"
        " it, because no leader is known that could be asked.",
    ]


def document() -> str:
    """The whole page."""
    lines = ["\n\n".join(HEAD), "", *actions()]
    for answer in Answer:
        lines += [
            "",
            f"## {answer.value}",
            "",
            *_table(answer, ROWS[answer], whole=answer not in PARTS),
        ]
    return "\n".join([*lines, "", *lasting(), "", *beside_the_rows()]) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
