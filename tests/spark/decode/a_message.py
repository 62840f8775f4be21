"""A message of Protocol Buffers with fields of many kinds, made without protoc."""

from __future__ import annotations

import datetime
from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

F = descriptor_pb2.FieldDescriptorProto


def descriptors() -> Any:
    """A FileDescriptorSet with the message shop.Order."""
    found = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2):
        module.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="orders.proto", package="shop", syntax="proto3")
    file.dependency.extend(one.name for one in found.file[:2])
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="SENT", number=4)
    order, line = (file.message_type.add(name=name) for name in ("Order", "Line"))
    states = order.nested_type.add(name="StatesEntry")
    states.options.map_entry = True
    _add(order, 1, "id", F.TYPE_INT64)
    _add(order, 2, "note", F.TYPE_STRING)
    _add(order, 3, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _add(order, 4, "took", F.TYPE_MESSAGE, ".google.protobuf.Duration")
    _add(order, 5, "states", F.TYPE_MESSAGE, ".shop.Order.StatesEntry", F.LABEL_REPEATED)
    _add(order, 6, "lines", F.TYPE_MESSAGE, ".shop.Line", F.LABEL_REPEATED)
    _add(states, 1, "key", F.TYPE_STRING)
    _add(states, 2, "value", F.TYPE_ENUM, ".shop.State")
    _add(line, 1, "name", F.TYPE_STRING)
    _add(line, 2, "count", F.TYPE_UINT32)
    return found


def _add(
    message: Any, number: int, name: str, kind: int, of: str = "", label: int = F.LABEL_OPTIONAL
) -> None:
    field = message.field.add(name=name, number=number, type=kind, label=label)
    if of:
        field.type_name = of


def an_order() -> Any:
    """A message of Order in which all fields but one have values."""
    pool = DescriptorPool()
    for file in descriptors().file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(
        id=-5,
        at=datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
        took=datetime.timedelta(seconds=90),
        states={"a": 4},
        lines=[{"name": "x", "count": 2}, {}],
    )
