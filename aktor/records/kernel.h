/* What Cython cannot say, or says too slowly: how a record is allocated and read, and a checksum. */

#ifndef AKTOR_RECORDS_KERNEL_H
#define AKTOR_RECORDS_KERNEL_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A tuple of a subclass with `size` empty places, which the garbage collector does not track.
 *
 * CPython untracks plain tuples that hold only numbers, text and bytes, but never those of a
 * subclass; it would visit each record about three times. A record that is not tracked leaks only
 * if it becomes part of a cycle, and its fields cannot refer back to it: they are numbers, bytes,
 * and lists of pairs of text and bytes. */
static inline PyObject *
aktor_untracked_tuple(PyTypeObject *type, Py_ssize_t size)
{
    PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, type, size);
    if (made == NULL)
        return NULL;
    memset(made->ob_item, 0, (size_t)size * sizeof(PyObject *));
#if PY_VERSION_HEX >= 0x030E0000
    made->ob_hash = -1;
#endif
    return (PyObject *)made;
}

/* An empty list that the garbage collector does not track; see above. */
static inline PyObject *
aktor_untracked_list(void)
{
    PyObject *made = PyList_New(0);
    if (made != NULL)
        PyObject_GC_UnTrack(made);
    return made;
}

/* What can be wrong with a record; `kernel.pyx` has the texts. */
enum {
    AKTOR_SOUND,
    AKTOR_BEYOND,
    AKTOR_TOO_LONG,
    AKTOR_STRUCTURE,
    AKTOR_NEGATIVE_DELTA,
    AKTOR_DELTA,
    AKTOR_NEGATIVE_KEY,
    AKTOR_NEGATIVE_VALUE,
    AKTOR_NEGATIVE_HEADERS,
    AKTOR_HEADER_WITHOUT_KEY,
    AKTOR_NEGATIVE_HEADER,
    AKTOR_HEADER_BEYOND,
    AKTOR_LENGTH
};

/* The rest of `aktor_varint`: numbers of two bytes and more. */
static const uint8_t *
aktor_long_varint(const uint8_t *at, const uint8_t *end, int longest, uint64_t *value, int *fault)
{
    uint64_t found = 0;
    for (int index = 0; index < longest; index++) {
        if (at == end) {
            *fault = AKTOR_BEYOND;
            return NULL;
        }
        uint8_t byte = *at++;
        if (index == 9 && byte > 1)
            break; /* more than 64 bits */
        found |= (uint64_t)(byte & 0x7f) << (7 * index);
        if (byte < 0x80) {
            if (longest == 5 && found >> 32)
                break;
            *value = found;
            return at;
        }
    }
    *fault = AKTOR_TOO_LONG;
    return NULL;
}

/* Reads the unsigned varint at `at`, of `longest` bytes at most (5: 32 bits, 10: 64 bits), and
 * returns where it ends; NULL with a `fault` if the bytes end before it, or if it is too long. */
static inline const uint8_t *
aktor_varint(const uint8_t *at, const uint8_t *end, int longest, uint64_t *value, int *fault)
{
    if (at < end && *at < 0x80) {
        *value = *at;
        return at + 1;
    }
    return aktor_long_varint(at, end, longest, value, fault);
}

/* One record, in the bytes of its batch. Sizes are -1 for what is null. */
typedef struct {
    const uint8_t *key, *value;
    int64_t key_size, value_size;
    int64_t offset_delta, timestamp_delta;
    const uint8_t *headers; /* the first one */
    uint32_t header_count;
    int64_t header_bytes; /* of their names and values; -1 if there are none */
    const uint8_t *end;
} aktor_record;

/* One header of a record that was read: its name and its value, and where it ends. */
static inline const uint8_t *
aktor_read_header(const uint8_t *at, const uint8_t *end, const uint8_t **name, int64_t *name_size,
                  const uint8_t **value, int64_t *value_size)
{
    uint64_t size = 0;
    int fault;
    at = aktor_varint(at, end, 5, &size, &fault);
    *name = at;
    *name_size = (int64_t)(size >> 1);
    at = aktor_varint(at + *name_size, end, 5, &size, &fault);
    *value = at;
    *value_size = size & 1 ? -1 : (int64_t)(size >> 1);
    return size & 1 ? at : at + *value_size;
}

/* Checks the headers at `at`, the first of which follows their count. */
static int
aktor_check_headers(const uint8_t *at, const uint8_t *end, aktor_record *record)
{
    uint64_t size = 0;
    int fault = AKTOR_SOUND;
    at = aktor_varint(at, end, 5, &size, &fault);
    if (at == NULL)
        return fault;
    if (size & 1)
        return AKTOR_NEGATIVE_HEADERS;
    record->headers = at;
    record->header_count = (uint32_t)(size >> 1);
    if (record->header_count)
        record->header_bytes = 0;
    for (uint32_t left = record->header_count; left; left--) {
        at = aktor_varint(at, end, 5, &size, &fault);
        if (at == NULL)
            return fault;
        if (size & 1)
            return AKTOR_HEADER_WITHOUT_KEY;
        if (size >> 1 >= (uint64_t)(end - at))
            return AKTOR_BEYOND;
        at += size >> 1;
        record->header_bytes += size >> 1;
        at = aktor_varint(at, end, 5, &size, &fault);
        if (at == NULL)
            return fault;
        if (size & 1) {
            if (size != 1)
                return AKTOR_NEGATIVE_HEADER;
            continue;
        }
        if (size >> 1 > (uint64_t)(end - at))
            return left > 1 ? AKTOR_BEYOND : AKTOR_HEADER_BEYOND;
        at += size >> 1;
        record->header_bytes += size >> 1;
    }
    record->end = at;
    return AKTOR_SOUND;
}

/* Reads the record at `at`. Its offset delta must be greater than `previous` and not greater than
 * `last`. (Deltas count from the base offset of the batch.) */
static inline int
aktor_read_record(const uint8_t *at, const uint8_t *end, int64_t previous, int64_t last,
                  aktor_record *record)
{
    uint64_t length = 0, number = 0;
    int fault = AKTOR_SOUND;
    at = aktor_varint(at, end, 5, &length, &fault);
    if (at == NULL)
        return fault;
    const uint8_t *start = at;
    if (at == end)
        return AKTOR_BEYOND;
    at = aktor_varint(at + 1, end, 10, &number, &fault); /* the attributes are unused */
    if (at == NULL)
        return fault;
    record->timestamp_delta = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
    at = aktor_varint(at, end, 5, &number, &fault);
    if (at == NULL)
        return fault;
    record->offset_delta = (int64_t)(number >> 1);
    if (number & 1)
        return AKTOR_NEGATIVE_DELTA;
    if (record->offset_delta <= previous || record->offset_delta > last)
        return AKTOR_DELTA;

    if (at == end)
        return AKTOR_BEYOND;
    if (*at == 1) {
        record->key = NULL;
        record->key_size = -1;
        at++;
    } else {
        at = aktor_varint(at, end, 5, &number, &fault);
        if (at == NULL)
            return fault;
        if (number & 1)
            return AKTOR_NEGATIVE_KEY;
        record->key = at;
        record->key_size = (int64_t)(number >> 1);
        if (record->key_size > end - at)
            return AKTOR_BEYOND;
        at += record->key_size;
    }

    at = aktor_varint(at, end, 5, &number, &fault);
    if (at == NULL)
        return fault;
    if (number & 1) {
        if (number != 1)
            return AKTOR_NEGATIVE_VALUE;
        record->value = NULL;
        record->value_size = -1;
    } else {
        record->value = at;
        record->value_size = (int64_t)(number >> 1);
        if (record->value_size > end - at)
            return AKTOR_BEYOND;
        at += record->value_size;
    }

    record->headers = NULL;
    record->header_count = 0;
    record->header_bytes = -1;
    if (at == end)
        return AKTOR_BEYOND;
    if (*at == 0) {
        record->end = at + 1;
    } else {
        fault = aktor_check_headers(at, end, record);
        if (fault)
            return fault;
    }
    return (uint64_t)(record->end - start) * 2 == length ? AKTOR_SOUND : AKTOR_LENGTH;
}

/* Skips the record at `at` if its offset delta is less than `wanted`. Returns 1 if it did: then
 * `at` is where the next record begins, and `previous` is the delta of the record that was skipped.
 * Returns 0 if the delta is not less, and -1 with a `fault` if the record is not sound. */
static inline int
aktor_skip_record(const uint8_t **at, const uint8_t *end, int64_t wanted, int64_t *previous,
                  int *fault)
{
    uint64_t length = 0, number = 0;
    const uint8_t *start = aktor_varint(*at, end, 5, &length, fault);
    if (start == NULL)
        return -1;
    *fault = AKTOR_BEYOND;
    if (start == end)
        return -1;
    const uint8_t *pos = aktor_varint(start + 1, end, 10, &number, fault);
    if (pos == NULL)
        return -1;
    pos = aktor_varint(pos, end, 5, &number, fault);
    if (pos == NULL)
        return -1;
    if ((int64_t)(number >> 1) >= wanted)
        return 0;
    *fault = AKTOR_STRUCTURE;
    if (length & 1 || number & 1 || (uint64_t)(pos - start) > length >> 1 ||
        (int64_t)(number >> 1) <= *previous)
        return -1;
    *fault = AKTOR_BEYOND;
    if (length >> 1 > (uint64_t)(end - start))
        return -1;
    *at = start + (length >> 1);
    *previous = (int64_t)(number >> 1);
    return 1;
}

static inline uint32_t
aktor_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t
aktor_be64(const uint8_t *at)
{
    return (int64_t)((uint64_t)aktor_be32(at) << 32 | aktor_be32(at + 4));
}

/* Adds two numbers of 64 bits; 0 if the sum is not one. */
static inline int
aktor_sum(int64_t one, int64_t other, int64_t *sum)
{
#if defined(__GNUC__) || defined(__clang__)
    return !__builtin_add_overflow(one, other, sum);
#else
    if (other > 0 ? one > INT64_MAX - other : one < INT64_MIN - other)
        return 0;
    *sum = one + other;
    return 1;
#endif
}

/* CRC-32C by the processor's own instruction, for short batches, where a call of the crc32c package
 * takes longer than its work. 0 from `aktor_has_crc`: this processor has none. */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

static inline int
aktor_has_crc(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t
aktor_crc(const uint8_t *at, size_t size)
{
    uint64_t crc = 0xffffffff;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; at++, size--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

#elif defined(__ARM_FEATURE_CRC32) && (defined(__GNUC__) || defined(__clang__))

#include <arm_acle.h>

static inline int
aktor_has_crc(void)
{
    return 1;
}

static uint32_t
aktor_crc(const uint8_t *at, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __crc32cd(crc, word);
    }
    for (; size; at++, size--)
        crc = __crc32cb(crc, *at);
    return ~crc;
}

#else

static inline int
aktor_has_crc(void)
{
    return 0;
}

static inline uint32_t
aktor_crc(const uint8_t *at, size_t size)
{
    (void)at, (void)size;
    return 0;
}

#endif

#endif
