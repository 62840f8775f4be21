"""Whether commits fail: that hinders no record, so it is told after what does."""

from __future__ import annotations

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.reason import FAULT_AFTER
from aktor.consumer.present.reasons.words import first_line, plural, seconds

__all__ = ["commits_fail"]


def commits_fail(p: Picture) -> str:
    """Since when and why offsets are not committed, in a clause; "" if they are."""
    fail = None if p.commits is None or p.forked else p.commits.fail
    if fail is None or p.now - fail.since < FAULT_AFTER:
        return ""
    last, error = p.now - fail.at, first_line(fail.error)
    if fail.attempts == 1:
        return f"a commit failed {seconds(last)} ago: {error}"
    lasted, attempts = seconds(p.now - fail.since), plural(fail.attempts, "attempt")
    return f"commits have failed for {lasted} ({attempts}, the last {seconds(last)} ago): {error}"
