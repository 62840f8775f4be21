"""The ids that topics had before they were deleted and created again."""

from __future__ import annotations

from typing import Final

__all__ = ["FormerIds"]

#: A former id of a topic is taken again only after so many answers in a row that have it.
ANSWERS: Final = 5


class FormerIds:
    """Owns the former ids of each topic, and how many answers in a row had another id than
    the one that we know."""

    def __init__(self) -> None:
        self._ids: dict[str, set[object]] = {}
        self._differing_answers: dict[str, int] = {}

    def confirm(self, topic: str) -> None:
        """An answer has the id that we know."""
        self._differing_answers.pop(topic, None)

    def is_outdated(self, topic: str, told: object, known: object) -> bool:
        """Whether an answer that tells another id than the known one comes from a broker that lags.

        The id of a topic changes when the topic is deleted and created again. A broker that lags
        behind then tells the former id. If several answers in a row tell a former id, the id that
        we know was the outdated one, and the told id is taken.
        """
        former = self._ids.setdefault(topic, set())
        times = self._differing_answers[topic] = self._differing_answers.get(topic, 0) + 1
        if told in former and times < ANSWERS:
            return True
        del self._differing_answers[topic]
        former.discard(told)
        former.add(known)
        return False

    def forget(self, topic: str) -> None:
        """The topic is not needed any more."""
        self._ids.pop(topic, None)
        self._differing_answers.pop(topic, None)
