"""Topics as the metadata manager keeps them: tracked, missing, without a name, and former ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any, Final, NamedTuple

from kafka.protocol.metadata import MetadataRequest

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER
from aktor.events.metadata import TopicInfo, TopicPattern, TrackTopics
from aktor.events.present import TopicTrouble
from aktor.protocol.error_codes import Answer, Do, forbids_topic, means, name_of
from aktor.settings import Settings

__all__ = ["FormerIds", "MissingTopics", "TrackedTopics", "UnnamedTopics"]


class TrackedTopics:
    """Owns which topics each owner wants to be kept fresh: those that it names, and those that its
    pattern matches."""

    def __init__(self) -> None:
        self._named: dict[str, frozenset[str]] = {}
        self._patterns: dict[str, TopicPattern] = {}

    @property
    def named(self) -> frozenset[str]:
        """The topics that any owner names."""
        return frozenset().union(*self._named.values())

    def named_by(self, owner: str) -> frozenset[str]:
        """The topics that this owner names."""
        return self._named.get(owner, frozenset())

    @property
    def has_pattern(self) -> bool:
        """Whether an owner has a pattern: only an answer with all topics tells which ones match."""
        return bool(self._patterns)

    def pattern_of(self, owner: str) -> TopicPattern | None:
        """The pattern of this owner, if it has one."""
        return self._patterns.get(owner)

    def is_matched(self, topic: str, info: TopicInfo) -> bool:
        """Whether the pattern of any owner matches this topic."""
        return any(pattern.matches(topic, info) for pattern in self._patterns.values())

    def track(self, track: TrackTopics) -> None:
        """The owner wants these topics and this pattern in place of those that it had."""
        self._named.pop(track.owner, None)
        self._patterns.pop(track.owner, None)
        if track.topics:
            self._named[track.owner] = track.topics
        if track.pattern is not None:
            self._patterns[track.owner] = track.pattern


#: A topic that no answer had so far is reported as unknown after this many answers in a row ...
UNKNOWN_ANSWERS: Final = 2
#: ... and this many seconds: a topic that is being created is unknown for a moment.
UNKNOWN_SECONDS: Final = 2.0


class _Unknown:
    """Since when brokers do not know a topic, and in how many answers in a row."""

    __slots__ = ("answers", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.answers = 0

    def count(self) -> int:
        """One more answer does not know the topic; returns how many in a row did not."""
        self.answers += 1
        return self.answers


class _Refusal(NamedTuple):
    """The error with which a topic is refused, and since when."""

    kind: type[Exception]
    since: float


class MissingTopics:
    """Owns which topics brokers do not know, which ones they refuse and why, and which ones they
    have described before."""

    def __init__(self) -> None:
        self._unknown: dict[str, _Unknown] = {}
        self._refused: dict[str, _Refusal] = {}
        #: Topics of which nothing is known yet, since they were answered with an error that may
        #: pass, such as one that this client does not know.
        self._failing: dict[str, _Refusal] = {}
        self._seen: set[str] = set()

    @property
    def unknown(self) -> Set[str]:
        """The topics that brokers do not know, by the last answer about each."""
        return self._unknown.keys()

    @property
    def forbidden(self) -> frozenset[str]:
        """The topics that this principal may not describe."""
        refused = self._refused.items()
        return frozenset(topic for topic, refusal in refused if forbids_topic(refusal.kind))

    @property
    def invalid(self) -> frozenset[str]:
        """The topics that are refused for good: a name that a broker called invalid never becomes
        valid."""
        refused = self._refused.items()
        return frozenset(topic for topic, refusal in refused if not _may_be_mended(refusal.kind))

    def may_appear(self, topic: str) -> bool:
        """Whether another answer may describe the topic: we may be authorized later."""
        refused = self._refused.get(topic)
        return refused is None or _may_be_mended(refused.kind)

    def is_absent(self, topic: str) -> bool:
        """Whether the last answers about the topic do not know it: more than one, since a single
        broker may lag behind the others."""
        unknown = self._unknown.get(topic)
        return unknown is not None and unknown.answers >= UNKNOWN_ANSWERS

    def troubles(self) -> Mapping[str, TopicTrouble]:
        """Which topics are not described, why, and since when."""
        if not (self._unknown or self._refused or self._failing):
            return _NO_TROUBLES
        failing = {
            topic: TopicTrouble(since=since, error=name_of(kind), may_pass=True)
            for topic, (kind, since) in self._failing.items()
        }
        refused = {
            topic: TopicTrouble(since=since, error=name_of(kind), forbidden=forbids_topic(kind))
            for topic, (kind, since) in self._refused.items()
        }
        unknown = {topic: TopicTrouble(since=one.since) for topic, one in self._unknown.items()}
        return {**failing, **refused, **unknown}

    # -- what answers say

    def described(self, topic: str) -> None:
        """An answer describes the topic: it exists, and we may read it."""
        self._seen.add(topic)
        self._refused.pop(topic, None)
        self._failing.pop(topic, None)

    def not_unknown(self, topic: str) -> None:
        """An answer describes the topic, or has another error for it."""
        self._unknown.pop(topic, None)

    def fails(self, topic: str, kind: type[Exception], now: float) -> None:
        """The topic, of which nothing is known, was answered with an error that may pass."""
        known = self._failing.get(topic)
        self._failing[topic] = _Refusal(kind, now if known is None else known.since)

    def count_unknown(self, topic: str, now: float) -> bool:
        """Count an answer that does not know the topic. True from the second such answer in a row
        on: a single broker may lag behind the others."""
        return self._unknown.setdefault(topic, _Unknown(now)).count() >= UNKNOWN_ANSWERS

    def never_existed(self, topic: str, now: float) -> bool:
        """Whether an unknown topic was not described before, and is not just being created."""
        return topic not in self._seen and now - self._unknown[topic].since >= UNKNOWN_SECONDS

    def refuse(self, topic: str, kind: type[Exception], now: float) -> bool:
        """The topic is refused; False if the application was told so already."""
        known = self._refused.get(topic)
        if known is not None and known.kind is kind:
            return False
        self._refused[topic] = _Refusal(kind, now)
        self._failing.pop(topic, None)
        return True

    # -- what is wanted

    def forget_refusals(self, topics: Set[str]) -> bool:
        """Tell the application again if these are refused; False if none of them was."""
        refused = topics & self._refused.keys()
        for topic in refused:
            del self._refused[topic]
        return bool(refused)

    def forget(self, topics: Collection[str]) -> None:
        """Nobody wants these any more."""
        self._seen.difference_update(topics)
        for topic in topics:
            self._unknown.pop(topic, None)
            self._refused.pop(topic, None)
            self._failing.pop(topic, None)


#: So it is in nearly every tick.
_NO_TROUBLES: Final[Mapping[str, TopicTrouble]] = {}


def _may_be_mended(refused: type[Exception]) -> bool:
    return Do.RETRY in means(Answer.METADATA_TOPIC, refused)


#: From Metadata v12 on topics may be asked for by their ids (KIP-516).
BY_ID: Final = 12


class UnnamedTopics:
    """Owns the topic ids whose names are wanted and not known, and the request for the names, of
    which one is in flight at a time."""

    def __init__(self, settings: Settings) -> None:
        self._ids: frozenset[Any] = frozenset()
        self._exchange = Exchange(settings)

    @property
    def due(self) -> float:
        """When the names may be asked for."""
        return self._exchange.due if self._ids else NEVER

    def ask_for(self, ids: frozenset[Any]) -> None:
        """The names of these ids are wanted, in place of those that were wanted before."""
        self._ids = ids
        self._exchange.hurry()

    def patience(self, first: float) -> float:
        """How long the next attempt may take."""
        return self._exchange.patience(first)

    def request(self) -> Any:
        """A request for the names. It creates no topic."""
        topic = MetadataRequest.MetadataRequestTopic
        return MetadataRequest(
            topics=[topic(name=None, topic_id=topic_id) for topic_id in sorted(self._ids)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            min_version=BY_ID,
        )

    def sent(self) -> None:
        """The request is on its way."""
        self._exchange.sent()

    def answered(self, named: Collection[Any], now: float, jitter: float) -> None:
        """An answer names these topics; the others are asked for again after the backoff."""
        self._exchange.ended()
        self._ids = self._ids.difference(named)
        if self._ids:
            self._exchange.failed(now, jitter)

    def failed(self, now: float, jitter: float) -> None:
        """There is no answer: ask again after the backoff."""
        self._exchange.failed(now, jitter)


#: A former id of a topic is taken again only after so many answers in a row that have it.
ANSWERS: Final = 5
#: So many topics that are gone are remembered, the last ones.
GONE_KEPT: Final = 1000


class FormerIds:
    """Owns the former ids of each topic, how many answers in a row had another id than the one that
    we know, and what was known of topics that are gone."""

    def __init__(self) -> None:
        self._ids: dict[str, set[object]] = {}
        self._differing_answers: dict[str, int] = {}
        self._gone: dict[str, TopicInfo] = {}

    def left(self, topic: str, info: TopicInfo) -> None:
        """Answers do not describe the topic any more."""
        self._gone.pop(topic, None)
        self._gone[topic] = info
        if len(self._gone) > GONE_KEPT:
            del self._gone[next(iter(self._gone))]

    def returned(self, topic: str, told: object) -> TopicInfo | None:
        """What was known of a topic that is described again, with this id; None: it is another
        topic, or was never known. Without ids (before Metadata v10) it may be the same."""
        known = self._gone.pop(topic, None)
        if known is None or (told != known.topic_id and None not in (told, known.topic_id)):
            return None
        return known

    def confirm(self, topic: str) -> None:
        """An answer has the id that we know."""
        self._differing_answers.pop(topic, None)

    def has(self, topic: str, told: object) -> bool:
        """Whether the topic had this id before."""
        return told in self._ids.get(topic, ())

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
        self._gone.pop(topic, None)
