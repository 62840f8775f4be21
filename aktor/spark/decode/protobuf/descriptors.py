"""Descriptors of messages, from FileDescriptorSets and from schema registries."""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aktor.errors import ConfigurationError
from aktor.spark.decode.registry import References, Registry, SchemaKind

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

__all__ = [
    "PROTOBUF",
    "DescriptorError",
    "NoSetError",
    "Written",
    "message_of",
    "newest_set",
    "not_installed",
    "set_of",
]


class DescriptorError(ValueError):
    """This describes no message that can be read."""


class NoSetError(DescriptorError):
    """These bytes are no FileDescriptorSet: whatever message is asked for, it is not the fault of
    its name."""


def not_installed(error: ImportError) -> ConfigurationError:
    """A package of `decode=protobuf` is missing."""
    return ConfigurationError(
        "decode=protobuf needs ptars and protobuf on driver and executors: pip install ptars"
        f" protobuf ({error})"
    )


_HOW: Final = "make it by protoc --include_imports --descriptor_set_out=FILE"


def message_of(descriptors: bytes, name: str) -> Descriptor:
    """The message of this name, with its package or without, in a FileDescriptorSet.

    Raises DescriptorError, and ConfigurationError if protobuf is not installed.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise not_installed(error) from None
    try:
        files = list(FileDescriptorSet.FromString(descriptors).file)
    except DecodeError:
        raise NoSetError(f"it is no FileDescriptorSet: {_HOW}") from None
    pool = _pool(files)
    names = [found for file in files for found in _names(file.package, file.message_type)]
    if not names:
        raise NoSetError(f"it has no message: {_HOW}")
    fitting = [one for one in names if one == name] or [
        one for one in names if one.rpartition(".")[2] == name
    ]
    if len(fitting) != 1:
        said = "several messages" if fitting else "no message"
        raise DescriptorError(f"it has {said} {name}; there are {', '.join(fitting or names)}")
    return pool.FindMessageTypeByName(fitting[0])


def set_of(message: Any) -> str:
    """The FileDescriptorSet of a generated class, in base64."""
    files: dict[str, Any] = {}
    _collect(message.DESCRIPTOR.file, files)
    return _as_text(_copied(file) for file in files.values())


def newest_set(registry: Mapping[str, str], subject: str) -> str:
    """The newest schema of a subject, as a FileDescriptorSet in base64.

    Raises ConfigurationError.
    """
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise not_installed(error) from None
    text, references = Registry(registry, PROTOBUF).newest(subject)
    try:
        return _as_text(_files(text, references))
    except DescriptorError as error:
        raise ConfigurationError(f"the schema of {subject}: {error}") from None


class Written:
    """A schema of a registry: the messages with which values may have been written."""

    def __init__(self, text: str, references: References) -> None:
        files = _files(text, references)
        self._pool = _pool(files)
        self._file = files[-1]

    def message(self, places: Sequence[int]) -> Descriptor:
        """The message to which the places lead that stand before a value: the first is the place in
        the file, each other one the place in the message before it. Raises DescriptorError."""
        messages: Any = self._file.message_type
        names = [self._file.package] if self._file.package else []
        for place in places:
            if not 0 <= place < len(messages):
                raise DescriptorError(f"it has no message {list(places)}")
            names.append(messages[place].name)
            messages = messages[place].nested_type
        return self._pool.FindMessageTypeByName(".".join(names))


#: The registry gives the bytes of a FileDescriptorProto in base64 for the text of a .proto file.
PROTOBUF = SchemaKind("PROTOBUF", "serialized", Written)


def _files(text: str, references: References) -> list[FileDescriptorProto]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    found = []
    for name, one in (*references, ("", text)):
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(one, validate=True))
        except (binascii.Error, ValueError, DecodeError):
            raise DescriptorError("the registry gave no descriptor of a file") from None
        if name:  # it is imported by this name
            file.name = name
        found.append(file)
    there = {file.name for file in found}
    imported = {name for file in found for name in file.dependency} - there
    return [*_well_known(imported), *found]


def _pool(files: Iterable[FileDescriptorProto]) -> Any:
    from google.protobuf.descriptor_pool import DescriptorPool

    by_name = {file.name: file for file in files}
    missing = {name for file in by_name.values() for name in file.dependency} - set(by_name)
    by_name |= {file.name: file for file in _well_known(missing)}
    pool = DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptorProto) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for name in file.dependency:
            add(by_name[name])
        pool.Add(file)

    try:
        for file in by_name.values():
            add(file)
    except TypeError as error:
        raise DescriptorError(f"protobuf refuses it: {error}") from None
    return pool


def _well_known(names: Iterable[str]) -> list[FileDescriptorProto]:
    """The files that come with protobuf, and those that they import."""
    files: dict[str, Any] = {}
    for name in sorted(names):
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            if not name.startswith("google/protobuf/"):
                raise ImportError(name)
            _collect(importlib.import_module(module).DESCRIPTOR, files)
        except ImportError:
            raise DescriptorError(
                f"{name} is imported and missing: protoc needs --include_imports"
            ) from None
    return [_copied(file) for file in files.values()]


def _collect(file: Any, files: dict[str, Any]) -> None:
    """Add a file after those that it imports."""
    for one in file.dependencies:
        _collect(one, files)
    files.setdefault(file.name, file)


def _copied(file: Any) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = FileDescriptorProto()
    file.CopyToProto(found)
    return found


def _as_text(files: Iterable[FileDescriptorProto]) -> str:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()


def _names(before: str, messages: Iterable[Any]) -> Iterable[str]:
    for one in messages:
        name = f"{before}.{one.name}" if before else one.name
        if not one.options.map_entry:
            yield name
        yield from _names(name, one.nested_type)
