"""Where the embedded cluster differs from Kafka on purpose, and why.

A scenario that stands here must differ: one that agrees again is struck off. docs/embedded.md says
the same to users.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KNOWN"]

#: Scenario ("module.name") -> the reason, as docs/embedded.md has it.
KNOWN: Final = {
    "produce.records_that_contradict_their_batch_are_refused": (
        "Records are not decoded when they are appended, unless the topic is compacted or limits"
        " their age: if the checksum of a batch is right, its contents are accepted."
    ),
    "produce.timestamps_of_creation_are_kept": (
        "The greatest timestamp is taken from the batch header; Kafka computes it again."
    ),
    "produce.the_topic_may_choose_the_codec": (
        "`compression.type` of a topic has no effect: a batch keeps the compression of its"
        " producer."
    ),
    "list_offsets.what_is_below_the_start_is_not_found": (
        "The offset of the greatest timestamp (KIP-734) is looked for from the log's start on;"
        " Kafka also finds records that were deleted and whose segment is still there."
    ),
}
