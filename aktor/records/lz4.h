/* LZ4 as Kafka's clients write it: one frame of independent blocks, without checksums of its own,
 * for the batch has one. Frames of another kind, and those that are not sound, are left to the
 * library that `codecs.py` uses, which also says what is wrong with them. */

#ifndef AKTOR_RECORDS_LZ4_H
#define AKTOR_RECORDS_LZ4_H

#include <stdint.h>
#include <string.h>

enum {
    /* What a frame has before its first block: magic, flags, block size, checksum of these. */
    AKTOR_LZ4_HEADER = 7,
    /* Copies go on in steps, up to so many bytes behind what they are to fill. */
    AKTOR_LZ4_SLACK = 32,
    /* What the format promises at the end of a block: the last five bytes are literals, and no
     * match begins in the last twelve. */
    AKTOR_LZ4_LITERALS = 5,
    AKTOR_LZ4_NO_MATCH = 12
};

static inline uint32_t
aktor_le32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* How many bytes a block of this frame may have; 0 if the frame is of another kind. */
static inline int64_t
aktor_lz4_block_size(const uint8_t *at, const uint8_t *end)
{
    static const uint8_t magic[5] = {0x04, 0x22, 0x4d, 0x18, 0x60};
    if (end - at < AKTOR_LZ4_HEADER || memcmp(at, magic, sizeof magic) != 0)
        return 0;
    switch (at[5] << 8 | at[6]) {
    case 0x4082:
        return 1 << 16;
    case 0x50fb:
        return 1 << 18;
    case 0x6051:
        return 1 << 20;
    case 0x7073:
        return 1 << 22;
    default:
        return 0;
    }
}

/* How many bytes the frame can decompress to, at most; -1: it is left to the library. */
static inline int64_t
aktor_lz4_bound(const uint8_t *at, const uint8_t *end)
{
    int64_t block_size = aktor_lz4_block_size(at, end), bound = 0;
    if (!block_size)
        return -1;
    at += AKTOR_LZ4_HEADER;
    while (end - at >= 4) {
        uint32_t head = aktor_le32(at);
        int64_t size = head & 0x7fffffff;
        at += 4;
        if (!head)
            return bound; /* what follows does not matter: see `codecs.py` */
        if (!size || size > block_size || size > end - at)
            return -1;
        bound += size * 255 < block_size ? size * 255 : block_size;
        at += size;
    }
    return -1;
}

/* The rest of a length that does not fit into its four bits; NULL if the block ends in it. */
static inline const uint8_t *
aktor_lz4_length(const uint8_t *at, const uint8_t *end, int64_t *length)
{
    uint8_t byte;
    do {
        if (at == end)
            return NULL;
        byte = *at++;
        *length += byte;
    } while (byte == 255);
    return at;
}

/* Copies `size` bytes from `distance` before `out`, which may overlap what is written. */
static inline void
aktor_lz4_copy(uint8_t *out, int64_t distance, int64_t size)
{
    const uint8_t *from = out - distance;
    uint8_t *end = out + size;
    if (distance >= 16) {
        do {
            memcpy(out, from, 16);
            out += 16;
            from += 16;
        } while (out < end);
        return;
    }
    while (out < end) { /* twice as much each time */
        int64_t some = out - from < end - out ? out - from : end - out;
        memcpy(out, from, (size_t)some);
        out += some;
    }
}

/* Decompresses a block into `room` bytes, behind which is slack; how many it was, or -1. */
static int64_t
aktor_lz4_block(const uint8_t *at, const uint8_t *end, uint8_t *to, int64_t room)
{
    uint8_t *out = to, *const out_end = to + room;
    while (at < end) {
        unsigned token = *at++;
        int64_t size = token >> 4;
        if (size == 15 && (at = aktor_lz4_length(at, end, &size)) == NULL)
            return -1;
        if (size <= 32 && end - at >= 32 && out_end - out >= 32) {
            memcpy(out, at, 32);
        } else {
            if (size > end - at || size > out_end - out)
                return -1;
            memcpy(out, at, (size_t)size);
        }
        at += size;
        out += size;
        if (at == end)
            return out - to;
        if (end - at < 2 + 1 + AKTOR_LZ4_LITERALS || out_end - out < AKTOR_LZ4_NO_MATCH)
            return -1;

        int64_t distance = at[0] | at[1] << 8;
        at += 2;
        size = token & 15;
        if (size == 15 && (at = aktor_lz4_length(at, end, &size)) == NULL)
            return -1;
        size += 4;
        if (!distance || distance > out - to || size > out_end - out - AKTOR_LZ4_LITERALS ||
            end - at < 1 + AKTOR_LZ4_LITERALS)
            return -1;
        aktor_lz4_copy(out, distance, size);
        out += size;
    }
    return -1;
}

/* Decompresses a frame whose `aktor_lz4_bound` is not -1. `to` must have room for that bound, for
 * one more block and for AKTOR_LZ4_SLACK. Returns how many bytes it gave, or -1 if the frame is not
 * sound. */
static int64_t
aktor_lz4_frame(const uint8_t *at, const uint8_t *end, uint8_t *to)
{
    int64_t block_size = aktor_lz4_block_size(at, end);
    uint8_t *out = to;
    at += AKTOR_LZ4_HEADER;
    for (;;) {
        uint32_t head = aktor_le32(at);
        int64_t size = head & 0x7fffffff;
        at += 4;
        if (!head)
            return out - to;
        if (head >> 31) {
            memcpy(out, at, (size_t)size);
            out += size;
        } else {
            int64_t made = aktor_lz4_block(at, at + size, out, block_size);
            if (made < 0)
                return -1;
            out += made;
        }
        at += size;
    }
}

#endif
