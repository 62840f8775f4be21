# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled reader of record batches; `reader` and `records` are its twin in Python.

Both promise the same: signature, records, positions, errors and their texts, which one suite of
tests checks on both. Here are batch headers, checksums, the order of batches and the walk over
their records. Formats v0 and v1, codecs and the texts of public errors are the twin's.

State is in objects only, and a reader belongs to one thread: the guard of its consumer lets one
thread in at a time. So the module does not enable the GIL in a Python without one. (Also with a
GIL `fill` works without it, on nothing but the reader's and the columns' own memory.)
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_Append, PyList_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t

import sys

from crc32c import crc32c
from kafka.consumer.fetcher import ConsumerRecord

from aktor.records.batch import FetchedBatch
from aktor.records.codecs import MAX_BATCH_BYTES, decompress
from aktor.records.columns import MAX_COLUMN_BYTES, Binary, Row
from aktor.records.faults import (
    CodecUnavailable,
    Malformed,
    Oversized,
    passes,
    public_error,
    undeserializable,
)
from aktor.records.extent import timestamp_from
from aktor.records.legacy import Message, MessageCursor
from aktor.records.transactions import AbortedProducers, is_abort_marker

cdef extern from "kernel.h":
    object aktor_untracked_tuple(PyTypeObject *type, Py_ssize_t size)
    object aktor_untracked_list()
    ctypedef struct aktor_record:
        const uint8_t *key
        const uint8_t *value
        const uint8_t *headers
        const uint8_t *end
        int64_t key_size, value_size, offset_delta, timestamp_delta, header_bytes
        uint32_t header_count
    int aktor_read_record(
        const uint8_t *at, const uint8_t *end, int64_t previous, int64_t last, aktor_record *record
    ) nogil
    const uint8_t *aktor_read_header(
        const uint8_t *at,
        const uint8_t *end,
        const uint8_t **name,
        int64_t *name_size,
        const uint8_t **value,
        int64_t *value_size,
    ) nogil
    int aktor_skip_record(
        const uint8_t **at, const uint8_t *end, int64_t wanted, int64_t *previous, int *fault
    ) nogil
    uint32_t aktor_be32(const uint8_t *at) nogil
    int64_t aktor_be64(const uint8_t *at) nogil
    bint aktor_sum(int64_t one, int64_t other, int64_t *sum) nogil
    bint aktor_has_crc() nogil
    uint32_t aktor_crc(const uint8_t *at, size_t size) nogil
    enum:
        AKTOR_BEYOND
        AKTOR_TOO_LONG
        AKTOR_STRUCTURE
        AKTOR_NEGATIVE_DELTA
        AKTOR_DELTA
        AKTOR_NEGATIVE_KEY
        AKTOR_NEGATIVE_VALUE
        AKTOR_NEGATIVE_HEADERS
        AKTOR_HEADER_WITHOUT_KEY
        AKTOR_NEGATIVE_HEADER
        AKTOR_HEADER_BEYOND
        AKTOR_LENGTH

cdef extern from "lz4.h":
    int64_t aktor_lz4_block_size(const uint8_t *at, const uint8_t *end) nogil
    int64_t aktor_lz4_bound(const uint8_t *at, const uint8_t *end) nogil
    int64_t aktor_lz4_frame(const uint8_t *at, const uint8_t *end, uint8_t *to) nogil
    enum:
        AKTOR_LZ4_SLACK

cdef extern from "columns.h":
    ctypedef struct aktor_buffer:
        uint8_t *bytes
        int64_t size
    ctypedef struct aktor_binary:
        aktor_buffer ends, data, valid
        int64_t count, nulls
    ctypedef struct aktor_columns:
        aktor_binary key, value, header_name, header_value
        aktor_buffer topic, partition, offset, timestamp, timestamp_type, leader_epoch, header_ends
        int64_t rows, bytes
        int has_key, has_value, has_headers
    bint aktor_reserve(aktor_buffer *buffer, int64_t more) nogil
    bint aktor_add_row(
        aktor_columns *columns,
        int32_t topic,
        int32_t partition,
        int64_t offset,
        int64_t timestamp,
        int timestamp_type,
        int32_t leader_epoch,
    ) nogil
    bint aktor_add_contents(
        aktor_columns *columns,
        const uint8_t *key,
        int64_t key_size,
        const uint8_t *value,
        int64_t value_size,
    ) nogil
    bint aktor_add_header(
        aktor_columns *columns,
        const uint8_t *name,
        int64_t name_size,
        const uint8_t *value,
        int64_t value_size,
    ) nogil
    int aktor_add_headers(aktor_columns *columns, const aktor_record *record) nogil
    void aktor_free_columns(aktor_columns *columns)

#: See `batch` for what stands where.
cdef enum:
    LOG_OVERHEAD = 12
    MAGIC_AT = 16
    CRC_AT = 17
    CHECKED_FROM = 21
    HEADER_SIZE = 61
    SMALLEST_LENGTH = 14
    SMALLEST_RECORD = 7
    V2 = 2
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    #: Longer batches are left to the crc32c package, which reads three words at a time.
    SHORT = 2048
    FIELDS = 13
    LZ4 = 3
    #: A greater room is not kept for the next batch.
    KEEP_AT_MOST = 4 * 1024 * 1024

if ConsumerRecord.__basicsize__ != tuple.__basicsize__ or len(ConsumerRecord._fields) != FIELDS:
    raise ImportError("kafka-python's ConsumerRecord is not the tuple that this was written for")

cdef PyTypeObject *RECORD = <PyTypeObject *>ConsumerRecord
cdef bint HAS_CRC = aktor_has_crc()
cdef bint HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
cdef object MINUS_ONE = -1
cdef uint8_t NOTHING = 0
cdef dict WRONG = {
    AKTOR_BEYOND: "a record runs beyond its batch",
    AKTOR_TOO_LONG: "a varint is too long",
    AKTOR_STRUCTURE: "a record does not have the structure of one",
    AKTOR_NEGATIVE_DELTA: "a record with a negative offset delta",
    AKTOR_NEGATIVE_KEY: "a key of negative length",
    AKTOR_NEGATIVE_VALUE: "a value of negative length",
    AKTOR_NEGATIVE_HEADERS: "a record with a negative number of headers",
    AKTOR_HEADER_WITHOUT_KEY: "a header without a key",
    AKTOR_NEGATIVE_HEADER: "a header's value of negative length",
    AKTOR_HEADER_BEYOND: "a header runs beyond its batch",
    AKTOR_LENGTH: "a record is not as long as it says",
}
cdef object NEW_TUPLE = tuple.__new__


cdef class _Room:
    """Owns a claim on the bytes of an object: while this lives, they stay where they are."""

    cdef Py_buffer buffer

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef class _Space:
    """Owns memory that a batch is decompressed into. It is not zeroed: where nothing is written,
    nothing is taken."""

    cdef uint8_t *bytes
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        self.bytes = <uint8_t *>PyMem_RawMalloc(size)
        if self.bytes == NULL:
            raise MemoryError(f"no memory to decompress {size} bytes into")
        self.size = size

    def __dealloc__(self):
        PyMem_RawFree(self.bytes)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes, self.size, 0, flags)


cdef class _Piece:
    """A buffer of columns, which keeps them."""

    cdef Columns columns
    cdef aktor_buffer *buffer

    def __getbuffer__(self, Py_buffer *view, int flags):
        # pyarrow refuses NULL as an address, even for a buffer of no bytes.
        cdef void *bytes = self.buffer.bytes
        if bytes == NULL:
            bytes = &NOTHING
        PyBuffer_FillInfo(view, self, bytes, self.buffer.size, 1, flags)

    def __len__(self):
        return self.buffer.size


cdef inline const uint8_t *bytes_of(bytes content) noexcept:
    """The address of the bytes of `content`; NULL if it is None."""
    if content is None:
        return NULL
    return <const uint8_t *>PyBytes_AS_STRING(content)


cdef inline Py_ssize_t size_of(bytes content) except -2:
    """The size of `content`; -1 if it is None, as in a record."""
    return -1 if content is None else len(content)


cdef class Columns:
    """See `aktor.records.columns.Columns`."""

    cdef aktor_columns all
    cdef int64_t _max_bytes
    cdef readonly int64_t limit
    cdef readonly list topics, undated

    def __init__(
        self,
        int64_t limit,
        max_bytes=None,
        *,
        bint key=True,
        bint value=True,
        bint headers=True,
        int64_t expected=0,
    ):
        self.limit = limit
        self._max_bytes = min(max_bytes or MAX_COLUMN_BYTES, MAX_COLUMN_BYTES)
        self.topics = []
        self.undated = []
        self.all.has_key = key
        self.all.has_value = value
        self.all.has_headers = headers
        aktor_reserve(&self.all.value.data, expected)

    def __dealloc__(self):
        aktor_free_columns(&self.all)

    @property
    def rows(self):
        return self.all.rows

    @property
    def size(self):
        return self.all.bytes

    @property
    def full(self):
        """Whether no row may be added."""
        return self.is_full()

    cdef inline bint is_full(self) noexcept nogil:
        return self.all.rows >= self.limit or self.all.bytes >= self._max_bytes

    cdef int32_t topic(self, name):
        """The index of the topic that the next rows are of."""
        if not self.topics or self.topics[len(self.topics) - 1] != name:
            self.topics.append(name)
        return len(self.topics) - 1

    def append(self, record):
        """Add a record, whose key and value are bytes or None."""
        timestamp = record.timestamp
        if timestamp is None:
            self.undated.append(self.all.rows)
            timestamp = 0
        cdef bytes key = record.key, value = record.value
        if not aktor_add_contents(
            &self.all,
            bytes_of(key),
            size_of(key),
            bytes_of(value),
            size_of(value),
        ):
            raise MemoryError
        if self.all.has_headers:
            self.add_headers(record.headers)
        if not aktor_add_row(
            &self.all,
            self.topic(record.topic),
            record.partition,
            record.offset,
            min(max(timestamp, INT64_MIN), INT64_MAX),
            record.timestamp_type or 0,
            record.leader_epoch,
        ):
            raise MemoryError

    cdef int add_headers(self, list headers) except -1:
        cdef bytes name, value
        for text, value in headers:
            name = text.encode()
            if not aktor_add_header(
                &self.all,
                bytes_of(name),
                size_of(name),
                bytes_of(value),
                size_of(value),
            ):
                raise MemoryError
        return 0

    cdef _Piece _piece(self, aktor_buffer *buffer):
        cdef _Piece piece = _Piece()
        piece.columns = self
        piece.buffer = buffer
        return piece

    def numbers(self, name):
        """See the twin."""
        if name == "topic":
            return self._piece(&self.all.topic)
        if name == "partition":
            return self._piece(&self.all.partition)
        if name == "offset":
            return self._piece(&self.all.offset)
        if name == "timestamp":
            return self._piece(&self.all.timestamp)
        if name == "timestamp_type":
            return self._piece(&self.all.timestamp_type)
        if name == "leader_epoch":
            return self._piece(&self.all.leader_epoch)
        raise KeyError(name)

    def binary(self, name):
        """See the twin."""
        if name == "key":
            return self._binary(&self.all.key)
        if name == "value":
            return self._binary(&self.all.value)
        if name == "header_name":
            return self._binary(&self.all.header_name)
        if name == "header_value":
            return self._binary(&self.all.header_value)
        raise KeyError(name)

    cdef _binary(self, aktor_binary *binary):
        if not binary.count:
            return Binary(None, bytes(4), b"")
        return Binary(
            self._piece(&binary.valid) if binary.nulls else None,
            self._piece(&binary.ends),
            self._piece(&binary.data),
        )

    @property
    def header_ends(self):
        """See the twin."""
        return self._piece(&self.all.header_ends) if self.all.rows else bytes(4)

    def between(self, Py_ssize_t start, Py_ssize_t end):
        """See the twin."""
        cdef const int64_t *offsets = <const int64_t *>self.all.offset.bytes
        cdef const int64_t *times = <const int64_t *>self.all.timestamp.bytes
        cdef const int32_t *epochs = <const int32_t *>self.all.leader_epoch.bytes
        assert 0 <= start <= end <= self.all.rows, "there are no such rows"
        return [Row(offsets[row], epochs[row], times[row]) for row in range(start, end)]


cdef class RecordReader:
    """See `aktor.records.reader.RecordReader`."""

    cdef readonly int64_t next_offset
    cdef readonly int32_t leader_epoch
    #: What `take` raises after the records before it.
    cdef readonly object error

    cdef object _view, _topic, _partition, _deserialize_key, _deserialize_value, _aborted
    cdef object _max_batch_bytes
    cdef bint _check_crcs, _deserializes
    cdef _Room _bytes
    cdef const uint8_t *_data
    cdef Py_ssize_t _size

    # The leader epoch of the last batch entered, and the batch's first offset.
    cdef int32_t _entered_epoch
    cdef int64_t _entered_at
    cdef Py_ssize_t _at  # where the next batch begins
    cdef int64_t _after_batch  # the position once the batch before `_at` is through
    cdef int64_t _position  # ahead of `next_offset` by what is in `_ready`
    cdef list _ready
    cdef list _raw  # records after a refused one: they are decoded, and not deserialized yet
    cdef object _messages  # the cursor of a message of format v0 or v1 that is being read

    # The v2 batch that is being read, if `_records` is not NULL: where its next record begins and
    # its last one ends, how many are left, and what its header says.
    cdef const uint8_t *_records
    cdef const uint8_t *_end
    cdef _Room _room
    cdef _Space _space  # for the decompressed batch: this one, and then the next
    cdef int32_t _left
    cdef int64_t _previous, _base_offset, _last_delta, _base_timestamp, _max_timestamp
    cdef int64_t _wrong_delta
    cdef bint _append_time
    cdef object _epoch, _timestamp_type

    def __init__(
        self,
        data,
        *,
        topic,
        partition,
        int64_t fetch_offset,
        bint check_crcs=True,
        bint read_committed=False,
        aborted=(),
        deserialize_key=None,
        deserialize_value=None,
        max_batch_bytes=MAX_BATCH_BYTES,
    ):
        self.next_offset = self._position = fetch_offset
        self.leader_epoch = self._entered_epoch = -1
        self._view = memoryview(data)
        self._bytes = _Room(self._view)
        self._data = <const uint8_t *>self._bytes.buffer.buf
        self._size = self._bytes.buffer.len
        self._topic = topic
        self._partition = partition
        self._check_crcs = check_crcs
        self._deserialize_key = deserialize_key
        self._deserialize_value = deserialize_value
        self._deserializes = deserialize_key is not None or deserialize_value is not None
        self._max_batch_bytes = max_batch_bytes
        self._aborted = AbortedProducers(aborted) if read_committed and aborted else None
        self._ready = []
        self._raw = []

    @property
    def exhausted(self):
        """Whether there is nothing more in here. What is left of a cut-off batch does not count."""
        if (
            PyList_GET_SIZE(self._ready)
            or self._records != NULL
            or self._messages is not None
            or self.error is not None
        ):
            return False
        cdef Py_ssize_t left = self._size - self._at
        if left < LOG_OVERHEAD:
            return True
        cdef int32_t length = <int32_t>aktor_be32(self._data + self._at + 8)
        return SMALLEST_LENGTH <= length and length > left - LOG_OVERHEAD

    @property
    def next_timestamp(self):
        """See `aktor.records.reader.RecordReader`. Where threads take turns at the GIL the batch
        is not left meanwhile (`fill` may move on in it); elsewhere a header must do."""
        cdef aktor_record one
        cdef int64_t timestamp
        if PyList_GET_SIZE(self._ready):
            return self._ready[0].timestamp
        if HAS_GIL and self._records != NULL and self._left > 0:
            if self._append_time or aktor_read_record(
                self._records, self._end, self._previous, self._last_delta, &one
            ):
                return self._max_timestamp
            if aktor_sum(self._base_timestamp, one.timestamp_delta, &timestamp):
                return timestamp
            return self._max_timestamp
        return timestamp_from(self._view, self._at, self._position)

    def take(self, Py_ssize_t limit):
        """The next records, `limit` at most, and none only if this is exhausted.

        What was read before an error is returned first. Then this call and every later one
        raise that same error: `CorruptBatchError`, `BatchTooLargeError`,
        `RecordDeserializationError` or kafka's `UnsupportedCodecError`.
        """
        assert limit > 0, "taking no records would look like the end"
        # Python's code runs in codecs and deserializers only. If it is interrupted there (Ctrl-C),
        # `_ready` and the place in the batch stay good for the next call.
        cdef Py_ssize_t wanted
        while self.error is None:
            wanted = limit - PyList_GET_SIZE(self._ready)
            if wanted <= 0:
                break
            if self._records != NULL:
                if self._deserializes:
                    self._decode_and_deserialize(wanted)
                else:
                    self._decode(wanted)
            elif self._messages is not None:
                self._decode_messages(wanted)
            elif not self._enter_batch():
                break
        return self._hand_over(limit)

    def skip_to(self, int64_t offset):
        """Go on with the first record at or after `offset`, which is not before `next_offset`.

        It may be after a record that a deserializer refused. False if it cannot be found without
        the bytes from `next_offset` on: the batch is corrupt, or the refused record would have to
        be deserialized again. Then the reader must not be used any more.
        """
        if self.error is not None and not passes(self.error, offset):
            return False
        self._ready = [record for record in self._ready if record.offset >= offset]
        self._raw = [record for record in self._raw if record.offset >= offset]
        if not self._ready and not self._raw:
            try:
                if self._records != NULL:
                    self._records = self._skip(
                        self._records, self._end, offset - self._base_offset
                    )
                    if not self._left:
                        self._verify_end(self._records, self._end)
                elif self._messages is not None:
                    self._messages.skip_before(offset)
            except Malformed:
                return False
        self.error = None
        if not self._ready:
            self._position = max(self._position, offset)
            if self._messages is not None:
                self._leave_messages_if_read()
            else:
                self._leave_if_read()
        self._come_to(offset if self._ready else self._position)
        return True

    def fill(self, Columns columns):
        """Add the next records to `columns`; returns how many, and 0 only if this is exhausted or
        they are full.

        Nothing is deserialized. Errors are raised as by `take`.
        """
        cdef int64_t before = columns.all.rows
        for record in self._ready:
            columns.append(record)
        self._ready = []
        while self.error is None and not columns.is_full():
            if PyList_GET_SIZE(self._raw):
                self._fill_with_raw(columns)
            elif self._records != NULL:
                self._fill(columns)
            elif self._messages is not None:
                self._fill_with_messages(columns)
            elif not self._enter_batch():
                break
        self._come_to(self._position)
        if self.error is not None and columns.all.rows == before:
            raise self.error.with_traceback(None)
        return columns.all.rows - before

    cdef list _hand_over(self, Py_ssize_t limit):
        cdef list records = self._ready
        if self.error is not None and not PyList_GET_SIZE(records):
            self._come_to(self._position)
            raise self.error.with_traceback(None)
        if PyList_GET_SIZE(records) <= limit:
            self._ready = []
            self._come_to(self._position)
            return records
        self._ready = records[limit:]
        records = records[:limit]
        self.next_offset = records[limit - 1].offset + 1
        self.leader_epoch = records[limit - 1].leader_epoch
        return records

    cdef inline void _come_to(self, int64_t offset) noexcept:
        """Everything before this offset is taken. Of the last batch entered that may be nothing: if
        its first record cannot be read, the position is before the batch."""
        self.next_offset = offset
        self._follow_epoch(offset)

    cdef inline void _follow_epoch(self, int64_t offset) noexcept:
        if offset > self._entered_at:
            self.leader_epoch = self._entered_epoch

    # -- batches

    cdef bint _enter_batch(self) except -1:
        """Check the batch at `_at` and either move past it or make it the one being read.

        False if there is no batch left.
        """
        cdef int64_t claimed = self._position
        cdef Py_ssize_t left = self._size - self._at
        cdef const uint8_t *batch = self._data + self._at
        cdef int32_t length
        try:
            if left < LOG_OVERHEAD:
                return False
            length = <int32_t>aktor_be32(batch + 8)
            if length < SMALLEST_LENGTH:
                raise Malformed(f"a batch of {length} bytes is too short")
            if length > left - LOG_OVERHEAD:
                return False
            if batch[MAGIC_AT] == V2:
                claimed = aktor_be64(batch)
                self._enter_records(batch, length + LOG_OVERHEAD)
            elif batch[MAGIC_AT] < V2:
                self._enter_messages(length + LOG_OVERHEAD)
            else:
                raise Malformed(f"unknown message format v{batch[MAGIC_AT]}")
        except (Malformed, Oversized, CodecUnavailable) as fault:
            self._fail(fault, max(self._position, claimed))
        return True

    cdef int _enter_records(self, const uint8_t *batch, Py_ssize_t size) except -1:
        """Begin with the v2 batch of `size` bytes, or pass it if there is nothing to deliver."""
        if size < HEADER_SIZE:
            raise Malformed(f"a batch of {size} bytes is shorter than its header")
        cdef int64_t base_offset = aktor_be64(batch)
        cdef int32_t last_delta = <int32_t>aktor_be32(batch + 23)
        cdef int32_t count = <int32_t>aktor_be32(batch + 57)
        if base_offset < 0 or last_delta < 0 or base_offset >= INT64_MAX - last_delta:
            raise Malformed(f"offsets {base_offset} and {last_delta:+} after it")
        cdef int64_t last_offset = base_offset + last_delta
        # Compaction may leave fewer records than offsets, never more.
        if count < 0 or count > <int64_t>last_delta + 1:
            raise Malformed(f"{count} records in {_offsets(base_offset, last_offset)}")
        if self._check_crcs:
            self._verify(batch, size, base_offset, last_offset)
        self._verify_order(base_offset)
        self._follow_epoch(self._position)  # all of the batch before this one is taken
        self._entered_epoch = <int32_t>aktor_be32(batch + 12)
        self._entered_at = base_offset
        cdef int flags = batch[22]
        if self._is_hidden(flags, aktor_be64(batch + 43), last_offset, size):
            return self._pass(size, last_offset + 1)
        if last_offset < self._position:
            return self._pass(size, last_offset + 1)

        cdef _Room room = self._bytes
        cdef const uint8_t *records = batch + HEADER_SIZE
        cdef const uint8_t *end = batch + size
        if flags & CODEC_MASK:
            room = self._decompressed(flags & CODEC_MASK, records, end)
            records = <const uint8_t *>room.buffer.buf
            end = records + room.buffer.len
        if count > (end - records) // SMALLEST_RECORD:
            offsets = _offsets(base_offset, last_offset)
            raise Malformed(f"{count} records in {end - records} bytes of {offsets}")
        self._base_offset = base_offset
        self._last_delta = last_delta
        self._previous = -1
        self._left = count
        cdef const uint8_t *first = records
        if count and base_offset < self._position:
            first = self._skip(records, end, self._position - base_offset)
        if not self._left:
            self._verify_end(first, end)
            return self._pass(size, last_offset + 1)
        # All at once and last: an interrupt before this leaves the batch still to be entered.
        self._room = room
        self._records = first
        self._end = end
        self._base_timestamp = aktor_be64(batch + 27)
        self._max_timestamp = aktor_be64(batch + 35)
        self._epoch = self._entered_epoch
        self._append_time = (flags & LOG_APPEND_TIME) != 0
        self._timestamp_type = 1 if self._append_time else 0
        self._after_batch = last_offset + 1
        self._at += size
        return 0

    cdef _Room _decompressed(self, int codec, const uint8_t *at, const uint8_t *end):
        """The decompressed records of the batch; `at` to `end` are the compressed bytes."""
        cdef int64_t bound = -1, size
        if codec == LZ4:
            bound = aktor_lz4_bound(at, end)
        if 0 <= bound <= self._max_batch_bytes:
            self._make_space(bound + aktor_lz4_block_size(at, end) + AKTOR_LZ4_SLACK)
            with nogil:
                size = aktor_lz4_frame(at, end, self._space.bytes)
            if size >= 0:
                return _Room(memoryview(self._space)[:size])
        payload = self._view[at - self._data : end - self._data]
        return _Room(decompress(codec, payload, self._max_batch_bytes, self._make_space))

    def _make_space(self, Py_ssize_t size):
        """Space for so many bytes. An old space is used again: nothing is read from it any more."""
        if self._space is None or self._space.size < size:
            self._space = None
            self._space = _Space(size)
        return self._space

    cdef int _pass(self, Py_ssize_t size, int64_t after) except -1:
        """Move past a batch of which there is nothing to deliver."""
        self._at += size
        self._after_batch = after
        self._position = max(self._position, after)
        return 0

    cdef int _verify(
        self, const uint8_t *batch, Py_ssize_t size, int64_t base_offset, int64_t last_offset
    ) except -1:
        cdef uint32_t wanted = aktor_be32(batch + CRC_AT)
        cdef uint32_t found
        if HAS_CRC and size < SHORT:
            found = aktor_crc(batch + CHECKED_FROM, size - CHECKED_FROM)
        else:
            found = crc32c(self._view[self._at + CHECKED_FROM : self._at + size])
        if found != wanted:
            offsets = _offsets(base_offset, last_offset)
            raise Malformed(f"checksum {found:#010x} instead of {wanted:#010x} in {offsets}")
        return 0

    cdef int _verify_order(self, int64_t offset) except -1:
        if self._at and offset < self._after_batch:
            raise Malformed(f"offset {offset} after those before {self._after_batch}")
        return 0

    cdef bint _is_hidden(
        self, int flags, int64_t producer_id, int64_t last_offset, Py_ssize_t size
    ) except -1:
        """Whether the batch is a control batch or of an aborted transaction (KIP-98)."""
        if self._aborted is None or producer_id < 0:
            return flags & CONTROL
        self._aborted.reach(last_offset)
        if flags & CONTROL:
            batch = FetchedBatch(self._view[self._at : self._at + size])
            if is_abort_marker(batch, self._max_batch_bytes):
                self._aborted.end(producer_id)
            return True
        return flags & TRANSACTIONAL and producer_id in self._aborted

    cdef const uint8_t *_skip(
        self, const uint8_t *at, const uint8_t *end, int64_t wanted
    ) except NULL:
        """Pass the records whose offsets are less than `wanted` after the first."""
        cdef int fault = 0, passed
        while self._left:
            passed = aktor_skip_record(&at, end, wanted, &self._previous, &fault)
            if passed < 0:
                raise self._malformed(fault)
            if not passed:
                break
            self._left -= 1
        return at

    cdef int _verify_end(self, const uint8_t *at, const uint8_t *end) except -1:
        if at != end:
            offsets = _offsets(self._base_offset, self._base_offset + self._last_delta)
            raise Malformed(f"{end - at} bytes after the last record of {offsets}")
        return 0

    # -- records

    cdef int _decode(self, Py_ssize_t limit) except -1:
        """Move up to `limit` records from the batch being read to `_ready`."""
        try:
            self._read_rows(limit, self._ready)
        except Malformed as fault:
            self._fail(fault, self._position)
            return 0
        self._leave_if_read()
        return 0

    cdef int _decode_and_deserialize(self, Py_ssize_t limit) except -1:
        """As `_decode`. Records that follow a refused one are decoded already."""
        cdef const uint8_t *records = self._records
        cdef int32_t left = self._left
        cdef int64_t previous = self._previous, position = self._position
        cdef list raw = self._raw, rows = raw[:limit]
        fault = None
        try:
            if not rows:
                try:
                    self._read_rows(limit, rows)
                except Malformed as malformed:
                    fault = malformed
            error, rest = self._deserialize(rows)
        except BaseException:
            # Interrupted: the same records will be decoded again.
            self._records, self._left, self._previous = records, left, previous
            self._position = position
            raise
        self._raw = rest + raw[limit:]
        self._ready += rows
        if rows:
            self._position = rows[len(rows) - 1].offset + 1
        if error is not None:
            self._position = error.offset
            self.error = error
        elif fault is not None:
            self._fail(fault, self._position)
        else:
            self._leave_if_read()
        return 0

    cdef int _leave_if_read(self) except -1:
        if not self._left and not PyList_GET_SIZE(self._raw):
            self._records = NULL
            self._room = None
            if self._space is not None and self._space.size > KEEP_AT_MOST:
                self._space = None
            self._position = max(self._position, self._after_batch)
        return 0

    cdef int _read_rows(self, Py_ssize_t limit, list rows) except -1:
        """Append the next records of the batch, `limit` at most.

        Raises `Malformed` at the first bad one, after those before it were appended.
        """
        cdef const uint8_t *at = self._records
        cdef aktor_record one
        cdef int64_t timestamp = 0, previous_delta = 0
        cdef int fault
        cdef object record
        cdef object topic = self._topic, partition = self._partition, epoch = self._epoch
        cdef object timestamp_type = self._timestamp_type
        cdef object when = self._max_timestamp if self._append_time else None

        while limit > 0 and self._left > 0:
            fault = aktor_read_record(at, self._end, self._previous, self._last_delta, &one)
            if fault:
                raise self._malformed(fault, one.offset_delta)
            # Records of a batch often have the same timestamp: one object does for them.
            if not self._append_time and (when is None or one.timestamp_delta != previous_delta):
                previous_delta = one.timestamp_delta
                if aktor_sum(self._base_timestamp, previous_delta, &timestamp):
                    when = timestamp
                else:
                    when = int(self._base_timestamp) + int(previous_delta)

            record = aktor_untracked_tuple(RECORD, FIELDS)
            _put(record, 0, topic)
            _put(record, 1, partition)
            _put(record, 2, epoch)
            _put(record, 3, self._base_offset + one.offset_delta)
            _put(record, 4, when)
            _put(record, 5, timestamp_type)
            _put(record, 6, None if one.key == NULL else _bytes(one.key, one.key_size))
            _put(record, 7, None if one.value == NULL else _bytes(one.value, one.value_size))
            _put(record, 8, _headers(&one))
            _put(record, 9, None)
            _put(record, 10, MINUS_ONE if one.key_size < 0 else one.key_size)
            _put(record, 11, MINUS_ONE if one.value_size < 0 else one.value_size)
            _put(record, 12, MINUS_ONE if one.header_bytes < 0 else one.header_bytes)
            PyList_Append(rows, record)
            at = one.end
            self._move(&one)
            limit -= 1
        if not self._left:
            self._verify_end(at, self._end)
        return 0

    # -- columns

    cdef int _fill(self, Columns columns) except -1:
        """Move records from the batch being read to `columns`, until these are full."""
        cdef int fault
        try:
            while self._left and not columns.is_full():
                fault = self._read_columns(columns)
                if fault:
                    raise self._malformed(fault, self._wrong_delta)
            if not self._left:
                self._verify_end(self._records, self._end)
        except Malformed as wrong:
            self._fail(wrong, self._position)
            return 0
        self._leave_if_read()
        return 0

    cdef int _read_columns(self, Columns columns) except -1:
        """Add the next records to `columns` without the GIL, until these are full or a header has a
        name that is not ASCII (its record is added with the GIL). Returns the fault, 0 for none."""
        cdef aktor_record one
        cdef int32_t topic = columns.topic(self._topic), partition = self._partition
        cdef int fault = 0, headers = 1
        cdef bint room = True
        with nogil:
            while self._left and not columns.is_full():
                fault = aktor_read_record(
                    self._records, self._end, self._previous, self._last_delta, &one
                )
                if fault:
                    self._wrong_delta = one.offset_delta
                    break
                if columns.all.has_headers and one.header_count:
                    headers = aktor_add_headers(&columns.all, &one)
                    if headers < 0:
                        break
                room = headers and self._add_row(columns, &one, topic, partition)
                if not room:
                    break
                self._move(&one)
        if not room:
            raise MemoryError
        if headers < 0:
            columns.add_headers(_headers(&one))
            if not self._add_row(columns, &one, topic, partition):
                raise MemoryError
            self._move(&one)
        return fault

    cdef inline bint _add_row(
        self, Columns columns, const aktor_record *one, int32_t topic, int32_t partition
    ) noexcept nogil:
        cdef int64_t timestamp = self._max_timestamp
        if not self._append_time and not aktor_sum(
            self._base_timestamp, one.timestamp_delta, &timestamp
        ):
            timestamp = INT64_MAX if one.timestamp_delta > 0 else INT64_MIN
        return aktor_add_contents(
            &columns.all, one.key, one.key_size, one.value, one.value_size
        ) and aktor_add_row(
            &columns.all,
            topic,
            partition,
            self._base_offset + one.offset_delta,
            timestamp,
            self._append_time,
            self._entered_epoch,
        )

    cdef int _fill_with_raw(self, Columns columns) except -1:
        """Move records that follow a refused one to `columns`, until these are full."""
        cdef Py_ssize_t moved = 0
        while moved < PyList_GET_SIZE(self._raw) and not columns.is_full():
            columns.append(self._raw[moved])
            self._position = self._raw[moved].offset + 1
            moved += 1
        del self._raw[:moved]
        if self._messages is not None:
            self._leave_messages_if_read()
        else:
            self._leave_if_read()
        return 0

    cdef int _fill_with_messages(self, Columns columns) except -1:
        """Move the next record from the message of format v0 or v1 being read to `columns`."""
        cdef list rows = []
        cursor = self._messages
        try:
            mark = cursor.decode(1, rows)
        except Malformed as wrong:
            self._fail(wrong, self._position)
            return 0
        columns.append(rows[0])
        cursor.mark = mark
        self._position = rows[0].offset + 1
        self._leave_messages_if_read()
        return 0

    # -- both

    cdef inline void _move(self, const aktor_record *one) noexcept nogil:
        """The record was read."""
        self._records = one.end
        self._left -= 1
        self._previous = one.offset_delta
        self._position = self._base_offset + one.offset_delta + 1

    cdef object _malformed(self, int fault, int64_t delta=0):
        if fault == AKTOR_DELTA:
            return Malformed(f"offset delta {delta} after {self._previous}, of {self._last_delta}")
        return Malformed(WRONG[fault])

    # -- formats v0 and v1

    cdef int _enter_messages(self, Py_ssize_t size) except -1:
        """Begin with the message, or pass it if there is nothing to deliver."""
        view = self._view[self._at : self._at + size]
        outer = Message(view, 0, view[MAGIC_AT])
        if self._check_crcs:
            outer.verify(view)
        self._verify_order(outer.offset)
        cdef int64_t after = outer.offset + 1
        if after <= self._position:
            return self._pass(size, after)
        cursor = MessageCursor(
            view,
            outer,
            self._topic,
            self._partition,
            self._entered_epoch,
            check_crcs=self._check_crcs,
            limit=self._max_batch_bytes,
        )
        cursor.skip_before(self._position)
        self._at += size
        self._after_batch = after
        self._messages = cursor
        self._leave_messages_if_read()
        return 0

    cdef int _decode_messages(self, Py_ssize_t limit) except -1:
        """Move up to `limit` records from the message being read to `_ready`."""
        cdef list raw = self._raw, rows = raw[:limit], rest = []
        cursor = self._messages
        mark = cursor.mark
        error = fault = None
        if not rows:
            try:
                mark = cursor.decode(limit, rows)
            except Malformed as malformed:
                fault = malformed
        if self._deserializes:
            error, rest = self._deserialize(rows)
        cursor.mark = mark
        # If there is a fault, the mark is before all of these records.
        self._raw = rest + raw[limit:] if fault is None else []
        self._ready += rows
        if rows:
            self._position = rows[len(rows) - 1].offset + 1
        if error is not None:
            self._position = error.offset
            self.error = error
        elif fault is not None:
            self._fail(fault, self._position)
        else:
            self._leave_messages_if_read()
        return 0

    cdef int _leave_messages_if_read(self) except -1:
        if not self._messages.mark.left and not PyList_GET_SIZE(self._raw):
            self._messages = None
            self._position = max(self._position, self._after_batch)
        return 0

    # -- deserializers and errors

    cdef object _deserialize(self, list rows):
        """Deserialize in place. At the first failure cut the list there, and return the error and
        the records after the refused one."""
        cdef Py_ssize_t index
        cdef object record, made
        for index in range(PyList_GET_SIZE(rows)):
            record = rows[index]
            key, value, headers = record[6], record[7], record[8]
            try:
                if self._deserialize_key is not None:
                    key = self._deserialize_key(self._topic, headers, key)
                if self._deserialize_value is not None:
                    value = self._deserialize_value(self._topic, headers, value)
            except Exception as cause:
                rest = rows[index + 1 :]
                del rows[index:]
                return undeserializable(record, cause), rest
            # Made by `tuple.__new__`, so that the garbage collector tracks it: a deserializer may
            # return a container that refers to the record, and such a cycle would not be freed.
            made = list(record)
            made[6] = key
            made[7] = value
            rows[index] = NEW_TUPLE(ConsumerRecord, made)
        return None, []

    cdef int _fail(self, fault, int64_t offset) except -1:
        """Keep the public error for `fault`; the position goes to `offset` and stays there."""
        self._position = offset
        # Nothing more is read. Kept, the memory of a hostile batch would stay until a seek.
        self._records = NULL
        self._room = None
        self._space = None
        self.error = public_error(
            fault,
            topic=self._topic,
            partition=self._partition,
            offset=offset,
            max_batch_bytes=self._max_batch_bytes,
        )
        return 0


cdef inline void _put(object record, Py_ssize_t place, object field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(record, place, field)


cdef inline object _bytes(const uint8_t *at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>at, size)


cdef object _offsets(int64_t first, int64_t last):
    return f"offsets {first} to {last}"


cdef list _headers(const aktor_record *record):
    """The headers of a record that was read: pairs of name and value."""
    cdef list headers = aktor_untracked_list()
    cdef const uint8_t *at = record.headers
    cdef const uint8_t *name = NULL
    cdef const uint8_t *value = NULL
    cdef int64_t name_size = 0, value_size = 0
    for _ in range(record.header_count):
        at = aktor_read_header(at, record.end, &name, &name_size, &value, &value_size)
        headers.append((_text(name, name_size), None if value_size < 0 else _bytes(value, value_size)))
    return headers


cdef inline object _text(const uint8_t *at, Py_ssize_t size):
    # As Java does: a name that is not UTF-8 must not keep the record from being read.
    return PyUnicode_DecodeUTF8(<const char *>at, size, "replace")
