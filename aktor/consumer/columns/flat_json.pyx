# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True, cdivision=True
"""JSON objects of numbers, strings and booleans, straight to the memory of Arrow's arrays.

A reader refuses whatever is not simple: a string with a backslash, a number that takes more than one
rounding, a field that is there twice, another type than the schema says, and all that is no JSON.
Then `JsonBlocks` reads the block in its other way, which takes five times as long. So what is
accepted here must be exactly what Python's parser makes of it, and nothing else matters.

State is in objects only, and a reader belongs to one thread. So the module does not enable the GIL
in a Python without one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1.0

cdef enum:
    #: In a value that the schema does not name.
    DEEPEST = 50
    #: A number with more letters is refused.
    LONGEST = 40

#: Powers of ten that a float has exactly.
cdef double[23] TENS
cdef int _power
TENS[0] = 1.0
for _power in range(1, 23):
    TENS[_power] = TENS[_power - 1] * 10.0

cdef struct Field:
    const char *name
    Py_ssize_t length
    char kind  # l: int64, i: int32, d: float64, b: boolean, s: string
    uint8_t *valid  # a byte for each row
    uint8_t *data  # a number, a byte or the end of a string for each row
    uint8_t *text
    int32_t size  # of the text

cdef struct Text:
    const uint8_t *at
    const uint8_t *end

cdef struct Number:
    int64_t digits  # without the point; at most 18 of them
    int exponent
    bint negative
    bint whole
    bint exact  # whether `digits` has all of them


cdef inline void _skip_spaces(Text *text) noexcept nogil:
    while text.at < text.end and text.at[0] in (32, 9, 10, 13):
        text.at += 1


cdef inline bint _string(Text *text, const uint8_t **begin, Py_ssize_t *size) noexcept nogil:
    """The string that begins here; False if there is none, or not a simple one."""
    cdef const uint8_t *at = text.at
    if at >= text.end or at[0] != 34:
        return False
    at += 1
    begin[0] = at
    while at < text.end and at[0] != 34:
        if at[0] < 32 or at[0] == 92:
            return False
        at += 1
    if at >= text.end:
        return False
    size[0] = at - begin[0]
    text.at = at + 1
    return True


cdef inline bint _name(Text *text, const uint8_t **begin, Py_ssize_t *size) noexcept nogil:
    """The name of a field that begins here, and its colon; False if there is none."""
    if not _string(text, begin, size):
        return False
    _skip_spaces(text)
    if text.at >= text.end or text.at[0] != 58:
        return False
    text.at += 1
    _skip_spaces(text)
    return True


cdef inline bint _is_word(Text *text, const char *word, Py_ssize_t size) noexcept nogil:
    if text.end - text.at < size or memcmp(text.at, word, size):
        return False
    text.at += size
    return True


cdef inline bint _is_digit(const Text *text, const uint8_t *at) noexcept nogil:
    return at < text.end and 48 <= at[0] <= 57


cdef bint _number(Text *text, Number *found) noexcept nogil:
    """The number that begins here; False if there is none, or a very long one."""
    cdef const uint8_t *at = text.at
    cdef int count = 0
    cdef int exponent = 0
    cdef bint minus = False
    found.digits = found.exponent = 0
    found.whole = found.exact = True
    found.negative = at < text.end and at[0] == 45
    if found.negative:
        at += 1
    if not _is_digit(text, at):
        return False
    if at[0] == 48 and _is_digit(text, at + 1):
        return False
    while _is_digit(text, at):
        if count < 18:
            found.digits = found.digits * 10 + (at[0] - 48)
            count += found.digits != 0
        else:
            found.exact = False
        at += 1
    if at < text.end and at[0] == 46:
        found.whole = False
        at += 1
        if not _is_digit(text, at):
            return False
        while _is_digit(text, at):
            if count < 18:
                found.digits = found.digits * 10 + (at[0] - 48)
                found.exponent -= 1
                count += found.digits != 0
            else:
                found.exact = False
            at += 1
    if at < text.end and (at[0] == 101 or at[0] == 69):
        found.whole = False
        at += 1
        if at < text.end and (at[0] == 43 or at[0] == 45):
            minus = at[0] == 45
            at += 1
        if not _is_digit(text, at):
            return False
        while _is_digit(text, at):
            exponent = min(exponent * 10 + (at[0] - 48), 10000)
            at += 1
        found.exponent += -exponent if minus else exponent
    if at - text.at > LONGEST:
        return False
    text.at = at
    return True


cdef bint _double(const Number *number, const uint8_t *at, Py_ssize_t size, double *found) except -1:
    """As Python's `float` of the text, or of the integer that it is."""
    cdef char[LONGEST + 1] copied
    if number.exact and number.digits <= 1 << 53 and -22 <= number.exponent <= 22:
        found[0] = <double>number.digits
        if number.exponent < 0:
            found[0] /= TENS[-number.exponent]
        else:
            found[0] *= TENS[number.exponent]
        # An integer has no -0.
        if number.negative and not (number.whole and number.digits == 0):
            found[0] = -found[0]
        return True
    if number.whole:
        return False
    memcpy(copied, at, size)
    copied[size] = 0
    found[0] = PyOS_string_to_double(copied, NULL, NULL)
    return -1.7976931348623157e308 <= found[0] <= 1.7976931348623157e308


cdef bint _skipped(Text *text, int depth) noexcept nogil:
    """Go on behind a value of any kind; False if there is none, or not a simple one."""
    cdef Number number
    cdef const uint8_t *begin
    cdef Py_ssize_t size
    cdef uint8_t first
    cdef uint8_t last
    if text.at >= text.end or depth > DEEPEST:
        return False
    first = text.at[0]
    if first == 34:
        return _string(text, &begin, &size)
    if first == 116:
        return _is_word(text, "true", 4)
    if first == 102:
        return _is_word(text, "false", 5)
    if first == 110:
        return _is_word(text, "null", 4)
    if first != 123 and first != 91:
        return _number(text, &number)
    text.at += 1
    _skip_spaces(text)
    if text.at < text.end and text.at[0] == first + 2:
        text.at += 1
        return True
    while True:
        if first == 123:
            if not _name(text, &begin, &size):
                return False
        if not _skipped(text, depth + 1):
            return False
        _skip_spaces(text)
        if text.at >= text.end:
            return False
        last = text.at[0]
        text.at += 1
        if last == first + 2:
            return True
        if last != 44:
            return False
        _skip_spaces(text)


cdef bytes _bits(const uint8_t *flags, Py_ssize_t rows):
    """A bit for each byte."""
    cdef Py_ssize_t row
    found = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>PyBytes_AS_STRING(found)
    memset(bits, 0, (rows + 7) // 8)
    for row in range(rows):
        bits[row >> 3] |= flags[row] << (row & 7)
    return found


cdef class FlatReader:
    """Owns the names and types of the fields: `kinds` has a letter for each of `names` (l: int64,
    i: int32, d: float64, b: boolean, s: string)."""

    cdef tuple names
    cdef Field *fields
    cdef int count

    def __cinit__(self, names, str kinds):
        cdef int number
        cdef Field *field
        self.names = tuple(name.encode() for name in names)
        self.count = len(self.names)
        self.fields = <Field *>PyMem_Malloc(max(1, self.count) * sizeof(Field))
        if self.fields == NULL:
            raise MemoryError()
        for number in range(self.count):
            field = &self.fields[number]
            field.name = PyBytes_AS_STRING(self.names[number])
            field.length = len(self.names[number])
            field.kind = ord(kinds[number])

    def __dealloc__(self):
        PyMem_Free(self.fields)

    def read(self, const uint8_t[::1] data, const int32_t[::1] ends, Py_ssize_t first,
             Py_ssize_t rows):
        """The buffers of each field's array, and how many rows of it are null: `(nulls, buffers)`.
        None if the block is refused.

        `data` and `ends` are the buffers of the values, which begin with row `first`. None of the
        values is null.
        """
        cdef Py_ssize_t row
        cdef Text text
        cdef Py_ssize_t size = ends[first + rows] - ends[first]
        cdef uint8_t *memory
        cdef uint8_t *free
        cdef Field *field
        cdef int number
        cdef Py_ssize_t room = 0
        for number in range(self.count):
            room += 9 * rows + 16 + (size if self.fields[number].kind == c"s" else 0)
        memory = <uint8_t *>PyMem_Malloc(room + 16)
        if memory == NULL:
            raise MemoryError()
        try:
            free = memory
            for number in range(self.count):
                field = &self.fields[number]
                field.data = free  # first, since it has to be at a place for whole numbers
                field.valid = free + 8 * rows
                field.text = free + 9 * rows
                field.size = 0
                free += (9 * rows + (size if field.kind == c"s" else 0) + 15) // 8 * 8
                memset(field.valid, 0, rows)
            for row in range(rows):
                text.at = &data[0] + ends[first + row]
                text.end = &data[0] + ends[first + row + 1]
                if not self.object(&text, row):
                    return None
                for number in range(self.count):
                    field = &self.fields[number]
                    if not field.valid[row]:
                        self.null(field, row)
            return [self.taken(&self.fields[number], rows) for number in range(self.count)]
        finally:
            PyMem_Free(memory)

    cdef inline void null(self, Field *field, Py_ssize_t row) noexcept:
        if field.kind == c"s" or field.kind == c"i":
            (<int32_t *>field.data)[row] = field.size
        elif field.kind == c"b":
            field.data[row] = 0
        else:
            (<int64_t *>field.data)[row] = 0

    cdef object taken(self, Field *field, Py_ssize_t rows):
        cdef Py_ssize_t row
        cdef Py_ssize_t nulls = 0
        for row in range(rows):
            nulls += not field.valid[row]
        valid = _bits(field.valid, rows) if nulls else None
        if field.kind == c"b":
            return nulls, [valid, _bits(field.data, rows)]
        if field.kind == c"s":
            ends = b"\0\0\0\0" + PyBytes_FromStringAndSize(<char *>field.data, 4 * rows)
            return nulls, [valid, ends, PyBytes_FromStringAndSize(<char *>field.text, field.size)]
        width = 4 if field.kind == c"i" else 8
        return nulls, [valid, PyBytes_FromStringAndSize(<char *>field.data, width * rows)]

    cdef bint object(self, Text *text, Py_ssize_t row) except -1:
        """Read a value; False if it is refused."""
        cdef const uint8_t *begin
        cdef const uint8_t *whole = text.at
        cdef Py_ssize_t size
        cdef int number = 0
        cdef int tried
        cdef uint8_t last
        cdef Field *field
        _skip_spaces(text)
        if text.at >= text.end or text.at[0] != 123:
            return False
        text.at += 1
        _skip_spaces(text)
        if text.at < text.end and text.at[0] == 125:
            text.at += 1
        else:
            while True:
                if not _name(text, &begin, &size):
                    return False
                # Fields mostly come in one order.
                field = NULL
                for tried in range(self.count):
                    field = &self.fields[number]
                    number = number + 1 if number + 1 < self.count else 0
                    if field.length == size and not memcmp(field.name, begin, size):
                        break
                    field = NULL
                if field == NULL:
                    if not _skipped(text, 0):
                        return False
                elif not self.value(text, field, row):
                    return False
                _skip_spaces(text)
                if text.at >= text.end:
                    return False
                last = text.at[0]
                text.at += 1
                if last == 125:
                    break
                if last != 44:
                    return False
                _skip_spaces(text)
        _skip_spaces(text)
        if text.at != text.end:
            return False
        for number in range(self.count):
            if self.fields[number].valid[row] == 2:
                self.fields[number].valid[row] = 0
        return self.is_utf8(whole, text.end)

    cdef bint is_utf8(self, const uint8_t *at, const uint8_t *end) except -1:
        cdef const uint8_t *one = at
        cdef uint8_t high = 0
        while one < end:
            high |= one[0]
            one += 1
        if high & 0x80:
            try:
                PyUnicode_DecodeUTF8(<char *>at, end - at, NULL)
            except UnicodeDecodeError:
                return False
        return True

    cdef bint value(self, Text *text, Field *field, Py_ssize_t row) except -1:
        """Read the value of a field. While its object is read, a null of this row is noted as 2."""
        cdef Number number
        cdef const uint8_t *begin
        cdef Py_ssize_t size
        cdef double found
        cdef uint8_t first
        if text.at >= text.end or field.valid[row]:
            return False
        first = text.at[0]
        if first == 110:
            field.valid[row] = 2
            return _is_word(text, "null", 4)
        field.valid[row] = 1
        if field.kind == c"s":
            if not _string(text, &begin, &size):
                return False
            memcpy(field.text + field.size, begin, size)
            field.size += <int32_t>size
            (<int32_t *>field.data)[row] = field.size
            return True
        if field.kind == c"b":
            field.data[row] = first == 116
            return _is_word(text, "true", 4) or _is_word(text, "false", 5)
        begin = text.at
        if not _number(text, &number):
            return False
        if field.kind == c"d":
            if not _double(&number, begin, text.at - begin, &found):
                return False
            (<double *>field.data)[row] = found
            return True
        if not (number.whole and number.exact):
            return False
        if number.negative:
            number.digits = -number.digits
        if field.kind == c"l":
            (<int64_t *>field.data)[row] = number.digits
        elif INT32_MIN <= number.digits <= INT32_MAX:
            (<int32_t *>field.data)[row] = <int32_t>number.digits
        else:
            return False
        return True
