"""What a metadata manager says after an answer."""

from __future__ import annotations

from typing import Any

from aktor.events.metadata import Cluster, ClusterChanged, RefreshMetadata, TopicsRefused
from aktor.managers.metadata.manager import MetadataManager
from tests.unit.managers.builders_positions import answer, tick


def refresh(manager: MetadataManager, response: Any, now: float) -> list[object]:
    """Somebody finds the snapshot stale; a broker answers at `now`."""
    manager.handle(RefreshMetadata(because="a test"))
    return answer(manager, tick(manager, now).request, response, now=now)


def cluster_in(said: list[object]) -> Cluster:
    """The one snapshot that was told."""
    (cluster,) = (one.cluster for one in said if isinstance(one, ClusterChanged))
    return cluster


def refusals_in(said: list[object]) -> list[TopicsRefused]:
    """What was told about topics that cannot be read."""
    return [one for one in said if isinstance(one, TopicsRefused)]
