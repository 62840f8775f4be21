# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True
"""Avro to the memory of Arrow's arrays: columns that grow, and steps that read into them.

A program is a tree of steps. `resolution` makes one for each pair of schemas, that with which a
value was written and that as which it is read. Several programs write into the same columns, so
that values of several schemas may follow each other in a batch. A value that a step refuses leaves
nothing in the columns but a null.

No step reads beyond its value, and none writes more than is in proportion to it.

State is in objects only, and columns and their steps belong to one thread, that of a Spark task. So
the module does not enable the GIL in a Python without one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    #: An item of an array takes a byte or more, unless it is a null or has no fields. So a value has
    #: at most so many items more than it has bytes. Without a limit a few bytes could say that 2**62
    #: nulls follow.
    EMPTY_ITEMS = 1000
    #: How deep a value of a schema that has itself in it may be.
    DEEPEST = 500


class Malformed(ValueError):
    """This value is not Avro of its schema, or does not fit into the type that it is read as."""


cdef struct Memory:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t room


cdef inline uint8_t *_more(Memory *memory, Py_ssize_t size) except NULL:
    """Room for so many bytes at the end; it is there also for none."""
    cdef Py_ssize_t room
    cdef uint8_t *data
    if memory.data == NULL or memory.size + size > memory.room:
        room = max(memory.size + size, 2 * memory.room, 4096)
        data = <uint8_t *>PyMem_RawRealloc(memory.data, room)
        if data == NULL:
            raise MemoryError()
        memory.data = data
        memory.room = room
    data = memory.data + memory.size
    memory.size += size
    return data


cdef bytes _taken(Memory *memory):
    found = PyBytes_FromStringAndSize(<char *>memory.data, memory.size)
    memory.size = 0
    return found


cdef bytes _bits(Memory *memory):
    """A bit for each byte, which is 0 or 1."""
    cdef Py_ssize_t place, row
    cdef Py_ssize_t whole = memory.size // 8
    cdef uint64_t eight = 1
    cdef bint first_is_lowest = (<uint8_t *>&eight)[0] == 1
    found = PyBytes_FromStringAndSize(NULL, (memory.size + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>PyBytes_AS_STRING(found)
    if not first_is_lowest:
        whole = 0
    for place in range(whole):
        memcpy(&eight, memory.data + 8 * place, 8)
        # The product has the lowest bits of all eight bytes side by side, in its highest byte.
        bits[place] = <uint8_t>(eight * <uint64_t>0x0102040810204080 >> 56)
    memset(bits + whole, 0, PyBytes_GET_SIZE(found) - whole)
    for row in range(8 * whole, memory.size):
        bits[row >> 3] |= memory.data[row] << (row & 7)
    memory.size = 0
    return found


# -- columns


cdef class Column:
    """Owns which rows are null. A column of nulls has nothing else."""

    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    #: A byte for each row, as long as there is a null; else nothing.
    cdef Memory valid

    def __dealloc__(self):
        PyMem_RawFree(self.valid.data)

    cdef inline int is_there(self) except -1:
        if self.nulls:
            _more(&self.valid, 1)[0] = 1
        self.rows += 1
        return 0

    cdef int null(self) except -1:
        if not self.nulls:
            memset(_more(&self.valid, self.rows), 1, self.rows)
        _more(&self.valid, 1)[0] = 0
        self.nulls += 1
        self.rows += 1
        return 0

    cdef void cut(self, Py_ssize_t rows) noexcept:
        """Leave only the first rows: a value was refused, of which something may be here."""
        cdef Py_ssize_t row
        if self.nulls:
            for row in range(rows, self.rows):
                self.nulls -= self.valid.data[row] == 0
        self.valid.size = rows if self.nulls else 0
        self.rows = rows

    def clear(self):
        """Leave nothing here, and in the children."""
        self.cut(0)

    def take(self):
        """How many rows there are, how many of them are null, and the buffers of the array. The
        column is empty then, its children are not."""
        rows, nulls = self.rows, self.nulls
        valid = _bits(&self.valid) if nulls else None
        self.rows = self.nulls = 0
        return rows, nulls, [valid, *self.buffers(rows)]

    def buffers(self, rows):
        return []


cdef class Fixed(Column):
    """Values of one width: 1, 4, 8 or 16 bytes."""

    cdef Memory data
    cdef Py_ssize_t width

    def __cinit__(self, Py_ssize_t width):
        self.width = width

    def __dealloc__(self):
        PyMem_RawFree(self.data.data)

    cdef int null(self) except -1:
        memset(_more(&self.data, self.width), 0, self.width)
        return Column.null(self)

    cdef inline int add(self, const void *value) except -1:
        cdef uint8_t *to = _more(&self.data, self.width)
        # A width that the compiler knows is no call.
        if self.width == 8:
            memcpy(to, value, 8)
        elif self.width == 4:
            memcpy(to, value, 4)
        elif self.width == 1:
            to[0] = (<const uint8_t *>value)[0]
        else:
            memcpy(to, value, self.width)
        return self.is_there()

    cdef void cut(self, Py_ssize_t rows) noexcept:
        Column.cut(self, rows)
        self.data.size = rows * self.width

    def buffers(self, rows):
        return [_taken(&self.data)]


cdef class Flags(Fixed):
    """True and false."""

    def buffers(self, rows):
        return [_bits(&self.data)]


cdef class Lengths(Column):
    """Where each row ends in what belongs to all rows."""

    cdef Memory ends
    cdef int32_t end

    def __dealloc__(self):
        PyMem_RawFree(self.ends.data)

    cdef inline int grow(self, Py_ssize_t more) except -1:
        if more > INT32_MAX - self.end:
            raise Malformed("the batch is too large for Arrow: more than 2 GiB of one field")
        self.end += <int32_t>more
        (<int32_t *>_more(&self.ends, 4))[0] = self.end
        return self.is_there()

    cdef int null(self) except -1:
        (<int32_t *>_more(&self.ends, 4))[0] = self.end
        return Column.null(self)

    cdef void cut(self, Py_ssize_t rows) noexcept:
        Column.cut(self, rows)
        self.ends.size = rows * 4
        self.end = (<int32_t *>self.ends.data)[rows - 1] if rows else 0

    def buffers(self, rows):
        found = b"\0\0\0\0" + _taken(&self.ends)
        self.end = 0
        return [found]


cdef class Bytes(Lengths):
    """Bytes and strings."""

    cdef Memory data

    def __dealloc__(self):
        PyMem_RawFree(self.data.data)

    cdef inline int add(self, const uint8_t *at, Py_ssize_t size) except -1:
        self.grow(size)
        memcpy(_more(&self.data, size), at, size)
        return 0

    cdef void cut(self, Py_ssize_t rows) noexcept:
        Lengths.cut(self, rows)
        self.data.size = self.end

    def buffers(self, rows):
        return [*Lengths.buffers(self, rows), _taken(&self.data)]


cdef class List(Lengths):
    """Lists, and maps: lists of keys and values, which are in two columns."""

    cdef readonly tuple children

    def __cinit__(self, *children):
        self.children = children

    cdef void cut(self, Py_ssize_t rows) noexcept:
        Lengths.cut(self, rows)
        for child in self.children:
            (<Column>child).cut(self.end)


cdef class Struct(Column):
    cdef readonly tuple children

    def __cinit__(self, *children):
        self.children = children

    cdef int null(self) except -1:
        for child in self.children:
            (<Column>child).null()
        return Column.null(self)

    cdef void cut(self, Py_ssize_t rows) noexcept:
        Column.cut(self, rows)
        for child in self.children:
            (<Column>child).cut(rows)


# -- steps


cdef struct Input:
    const uint8_t *at
    const uint8_t *end
    int depth
    int64_t items  # how many items of arrays and maps there may still be


cdef int _cut(Input *read) except -1:
    raise Malformed("the value ends too early")


cdef inline int64_t _long(Input *read) except? -1:
    """A number in zigzag form."""
    cdef uint64_t found = 0
    cdef uint64_t part
    cdef int shift = 0
    while True:
        if read.at == read.end:
            _cut(read)
        part = read.at[0]
        read.at += 1
        if shift == 63 and part > 1:
            raise Malformed("a number has more than 64 bits")
        found |= (part & 0x7F) << shift
        if part < 0x80:
            return <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
        shift += 7


cdef inline const uint8_t *_take(Input *read, int64_t size) except NULL:
    cdef const uint8_t *at = read.at
    if size < 0:
        raise Malformed("a length is negative")
    if size > read.end - at:
        _cut(read)
    read.at += size
    return at


cdef class Step:
    """Reads a part of a value."""

    cdef int run(self, Input *read) except -1:
        raise NotImplementedError


cdef class SkipLong(Step):
    cdef int run(self, Input *read) except -1:
        _long(read)
        return 0


cdef class SkipFixed(Step):
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        self.size = size

    cdef int run(self, Input *read) except -1:
        _take(read, self.size)
        return 0


cdef class SkipBytes(Step):
    cdef int run(self, Input *read) except -1:
        _take(read, _long(read))
        return 0


cdef class SkipItems(Step):
    """An array or a map that is not read."""

    cdef Step item

    def __cinit__(self, Step item):
        self.item = item

    cdef int run(self, Input *read) except -1:
        cdef int64_t count
        while True:
            count = _long(read)
            if count == 0:
                return 0
            if count < 0:  # then the size in bytes follows
                _take(read, _long(read))
                continue
            _count(read, count)
            while count:
                self.item.run(read)
                count -= 1


cdef int _count(Input *read, int64_t count) except -1:
    if count > read.items:
        raise Malformed("an array or a map has more items than the value has bytes")
    read.items -= count
    return 0


cdef class Sequence(Step):
    """One step after the other. A schema that has itself in it is deep: `steps` is set later."""

    cdef public tuple steps

    def __cinit__(self, steps=()):
        self.steps = tuple(steps)

    cdef int run(self, Input *read) except -1:
        cdef Py_ssize_t number
        read.depth += 1
        if read.depth > DEEPEST:
            raise Malformed("it is nested too deeply")
        for number in range(PyTuple_GET_SIZE(self.steps)):
            (<Step>PyTuple_GET_ITEM(self.steps, number)).run(read)
        read.depth -= 1
        return 0


cdef class Union(Step):
    """The step of the branch that is there."""

    cdef public tuple branches

    def __cinit__(self, branches=()):
        self.branches = tuple(branches)

    cdef int run(self, Input *read) except -1:
        cdef int64_t branch = _long(read)
        if branch < 0 or branch >= PyTuple_GET_SIZE(self.branches):
            raise Malformed(f"a union of {len(self.branches)} types has no type {branch}")
        return (<Step>PyTuple_GET_ITEM(self.branches, branch)).run(read)


cdef class Refuse(Step):
    cdef str reason

    def __cinit__(self, str reason):
        self.reason = reason

    cdef int run(self, Input *read) except -1:
        raise Malformed(self.reason)


cdef class Constant(Step):
    """A default, which is in none of the values."""

    cdef bytes data
    cdef Step step

    def __cinit__(self, bytes data, Step step):
        self.data = data
        self.step = step

    cdef int run(self, Input *read) except -1:
        cdef Input own
        own.at = <const uint8_t *>PyBytes_AS_STRING(self.data)
        own.end = own.at + PyBytes_GET_SIZE(self.data)
        own.depth = read.depth
        own.items = PyBytes_GET_SIZE(self.data) + EMPTY_ITEMS
        return self.step.run(&own)


cdef class ToNull(Step):
    cdef Column column

    def __cinit__(self, Column column):
        self.column = column

    cdef int run(self, Input *read) except -1:
        return self.column.null()


cdef class ToFlag(Step):
    cdef Flags column

    def __cinit__(self, Flags column):
        self.column = column

    cdef int run(self, Input *read) except -1:
        cdef const uint8_t *at = _take(read, 1)
        if at[0] > 1:
            raise Malformed(f"a boolean is {at[0]}")
        return self.column.add(at)


cdef class ToInteger(Step):
    """A number without fraction, from `int` or `long`, times `factor`."""

    cdef Fixed column
    cdef bint is_int
    cdef int64_t factor
    cdef int64_t most

    def __cinit__(self, Fixed column, *, bint is_int, int64_t factor=1):
        self.column = column
        self.is_int = is_int
        self.factor = factor
        self.most = INT64_MAX // factor

    cdef int run(self, Input *read) except -1:
        cdef int64_t found = _long(read)
        cdef int32_t small
        if self.is_int and not INT32_MIN <= found <= INT32_MAX:
            raise Malformed(f"an int is {found}")
        if self.factor != 1:
            if not -self.most <= found <= self.most:
                raise Malformed(f"the time {found} does not fit into microseconds")
            found *= self.factor
        if self.column.width == 4:
            small = <int32_t>found
            return self.column.add(&small)
        return self.column.add(&found)


cdef class ToReal(Step):
    """`float` or `double`, from one of these (`width` is 4 or 8), or from `int` or `long` (0)."""

    cdef Fixed column
    cdef int width

    def __cinit__(self, Fixed column, *, int width):
        self.column = column
        self.width = width

    cdef int run(self, Input *read) except -1:
        cdef float single
        cdef double twice
        cdef int64_t whole
        if self.width == self.column.width:
            return self.column.add(_take(read, self.width))
        if self.width == 4:
            memcpy(&single, _take(read, 4), 4)
            twice = single
            return self.column.add(&twice)
        whole = _long(read)
        if self.column.width == 4:
            single = <float>whole
            return self.column.add(&single)
        twice = <double>whole
        return self.column.add(&twice)


cdef class ToBytes(Step):
    """Bytes and strings; `size` is that of a `fixed`, or -1. Strings are checked."""

    cdef Bytes column
    cdef Py_ssize_t size
    cdef bint is_text

    def __cinit__(self, Bytes column, *, Py_ssize_t size=-1, bint is_text=False):
        self.column = column
        self.size = size
        self.is_text = is_text

    cdef int run(self, Input *read) except -1:
        cdef Py_ssize_t size = _long(read) if self.size < 0 else self.size
        cdef const uint8_t *at = _take(read, size)
        if self.is_text:
            _check_text(at, size)
        return self.column.add(at, size)


cdef inline int _check_text(const uint8_t *at, Py_ssize_t size) except -1:
    cdef Py_ssize_t place
    cdef uint8_t all_of_them = 0
    for place in range(size):
        all_of_them |= at[place]
    if all_of_them >= 0x80:
        try:
            PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
        except UnicodeDecodeError:
            raise Malformed("a string is no UTF-8") from None
    return 0


cdef class ToSymbol(Step):
    """The symbols of an enum, in UTF-8; None: the schema as which it is read does not have it."""

    cdef Bytes column
    cdef tuple symbols

    def __cinit__(self, Bytes column, symbols):
        self.column = column
        self.symbols = tuple(symbols)

    cdef int run(self, Input *read) except -1:
        cdef int64_t place = _long(read)
        if place < 0 or place >= PyTuple_GET_SIZE(self.symbols):
            raise Malformed(f"an enum of {len(self.symbols)} symbols has no symbol {place}")
        symbol = self.symbols[place]
        if symbol is None:
            raise Malformed(f"the enum has no symbol {place} where it is read, and no default")
        return self.column.add(
            <const uint8_t *>PyBytes_AS_STRING(symbol), PyBytes_GET_SIZE(symbol)
        )


cdef class ToDecimal(Step):
    """Big-endian bytes to 128 bits; their amount is below 10 to the power of the precision."""

    cdef Fixed column
    cdef Py_ssize_t size
    cdef uint64_t limit_high
    cdef uint64_t limit_low

    def __cinit__(self, Fixed column, *, Py_ssize_t size=-1, precision):
        self.column = column
        self.size = size
        limit = 10**precision
        self.limit_high = limit >> 64
        self.limit_low = limit & 0xFFFFFFFFFFFFFFFF

    cdef int run(self, Input *read) except -1:
        cdef Py_ssize_t size = _long(read) if self.size < 0 else self.size
        cdef const uint8_t *at = _take(read, size)
        cdef uint8_t sign = 0xFF if size and at[0] >= 0x80 else 0
        cdef uint64_t halves[2]
        cdef uint64_t high, low
        cdef Py_ssize_t place
        while size > 16:
            if at[0] != sign:
                raise Malformed("a decimal has more digits than its type")
            at += 1
            size -= 1
        halves[0] = halves[1] = <uint64_t>0 - 1 if sign else 0
        for place in range(size):
            halves[1] = halves[1] << 8 | halves[0] >> 56
            halves[0] = halves[0] << 8 | at[place]
        low, high = halves[0], halves[1]
        if (sign != 0) != (high >> 63 != 0):
            raise Malformed("a decimal has more digits than its type")
        if sign:
            low = ~low + 1
            high = ~high + (low == 0)
        if high > self.limit_high or (high == self.limit_high and low >= self.limit_low):
            raise Malformed("a decimal has more digits than its type")
        return self.column.add(halves)


cdef class ToList(Step):
    """An array; or a map, whose `item` reads a key and a value."""

    cdef List column
    cdef Step item

    def __cinit__(self, List column, Step item):
        self.column = column
        self.item = item

    cdef int run(self, Input *read) except -1:
        cdef int64_t count
        cdef Py_ssize_t items = 0
        while True:
            count = _long(read)
            if count == 0:
                return self.column.grow(items)
            if count < 0:
                if count == INT64_MIN:
                    raise Malformed("a length is negative")
                count = -count
                _long(read)  # the size in bytes
            _count(read, count)
            items += count
            while count:
                self.item.run(read)
                count -= 1


cdef class ToStruct(Step):
    """A record: `parts` fill all children."""

    cdef Struct column
    cdef Sequence parts

    def __cinit__(self, Struct column, Sequence parts):
        self.column = column
        self.parts = parts

    cdef int run(self, Input *read) except -1:
        self.parts.run(read)
        return self.column.is_there()


cdef class ToMember(Step):
    """A struct of which one child has a value: a union of several types."""

    cdef Struct column
    cdef int number
    cdef Step step

    def __cinit__(self, Struct column, int number, Step step):
        self.column = column
        self.number = number
        self.step = step

    cdef int run(self, Input *read) except -1:
        cdef int number
        for number in range(<int>PyTuple_GET_SIZE(self.column.children)):
            if number == self.number:
                self.step.run(read)
            else:
                (<Column>PyTuple_GET_ITEM(self.column.children, number)).null()
        return self.column.is_there()


# -- a batch


def read_values(
    Column root, data, offsets, valid, Py_ssize_t first, Py_ssize_t rows, programs
):
    """Read the values of an array of Arrow into `root`; the errors of those that are refused, by
    row.

    `root` is empty. `data`, `offsets` and `valid` are the buffers of the array, which begins with
    row `first` of them. `programs.step(schema_id, row)` gives a step or the text of an error; with
    None for `schema_id` the values have no frame.
    """
    cdef const uint8_t[::1] bytes_view = data
    cdef const int32_t[::1] ends = offsets
    cdef const uint8_t[::1] bits = valid
    cdef bint has_nulls = valid is not None
    cdef Py_ssize_t row, place
    cdef Input read
    cdef Step step = None
    cdef bint framed = programs.framed
    cdef int64_t schema_id = -1
    cdef int64_t known = -1
    cdef uint32_t number
    cdef dict refused = {}
    refusal = None
    if not framed:
        step = programs.step(None, 0)
    for row in range(rows):
        place = first + row
        if has_nulls and not bits[place >> 3] >> (place & 7) & 1:
            root.null()
            continue
        schema_id = -1
        read.at = &bytes_view[0] + ends[place]
        read.end = &bytes_view[0] + ends[place + 1]
        read.depth = 0
        read.items = read.end - read.at + EMPTY_ITEMS
        try:
            if framed:
                if read.end - read.at < 5 or read.at[0] != 0:
                    raise Malformed("it does not begin with a zero byte and the id of a schema")
                number = (
                    <uint32_t>read.at[1] << 24
                    | <uint32_t>read.at[2] << 16
                    | <uint32_t>read.at[3] << 8
                    | <uint32_t>read.at[4]
                )
                schema_id = number
                read.at += 5
                if schema_id != known:
                    known, step, refusal = -1, None, None
                    found = programs.step(schema_id, row)
                    if isinstance(found, str):
                        refusal = found
                    else:
                        step = found
                    known = schema_id
                if step is None:
                    raise Malformed(refusal)
            step.run(&read)
            if read.at != read.end:
                raise Malformed(f"{read.end - read.at} bytes are left at its end")
        except Malformed as error:
            root.cut(row)
            root.null()
            refused[row] = str(error) if schema_id < 0 else f"schema {schema_id}: {error}"
    return refused
