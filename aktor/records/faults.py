"""What can be wrong with a batch, said before topic, partition and offset are known.

These never leave the package: `RecordReader` turns each into the public error with coordinates.
"""

from __future__ import annotations


class Malformed(Exception):
    """The bytes break a rule of the record format; the text says which."""


class Oversized(Exception):
    """A batch decompresses to more bytes than it may."""


class CodecUnavailable(Exception):
    """A batch is compressed in a way that cannot be read here; the text says why and the remedy."""
