/* What Cython cannot say, or says too slowly: the allocation of a record, a varint, a checksum. */

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

enum { AKTOR_BEYOND = 1, AKTOR_TOO_LONG = 2 };

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
