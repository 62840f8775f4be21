/* Records as columns, in the layout of Apache Arrow: buffers that grow, without Python's objects. */

#ifndef AKTOR_RECORDS_COLUMNS_H
#define AKTOR_RECORDS_COLUMNS_H

#include <stdlib.h>

#include "kernel.h"

typedef struct {
    uint8_t *bytes;
    int64_t size, room;
} aktor_buffer;

/* Makes room for `more` bytes; 0 if there is no memory. */
static inline int
aktor_reserve(aktor_buffer *buffer, int64_t more)
{
    if (buffer->size + more <= buffer->room)
        return 1;
    int64_t room = buffer->room * 2 > buffer->size + more ? buffer->room * 2 : buffer->size + more;
    uint8_t *bytes = realloc(buffer->bytes, (size_t)room);
    if (bytes == NULL)
        return 0;
    buffer->bytes = bytes;
    buffer->room = room;
    return 1;
}

#define AKTOR_ADD(buffer, type, number)                                                            \
    do {                                                                                           \
        type added = (type)(number);                                                               \
        memcpy((buffer)->bytes + (buffer)->size, &added, sizeof added);                            \
        (buffer)->size += (int64_t)sizeof added;                                                   \
    } while (0)

/* Bytes that may be null: where each ends, all of them, and a bit for each that is not null. */
typedef struct {
    aktor_buffer ends, data, valid;
    int64_t count, nulls;
} aktor_binary;

/* Adds `size` bytes, or null if that is negative; 0 if there is no memory. */
static inline int
aktor_add_binary(aktor_binary *binary, const uint8_t *bytes, int64_t size)
{
    int64_t taken = size < 0 ? 0 : size;
    if (!aktor_reserve(&binary->ends, 8) || !aktor_reserve(&binary->data, taken) ||
        !aktor_reserve(&binary->valid, 1))
        return 0;
    if (!binary->count)
        AKTOR_ADD(&binary->ends, int32_t, 0);
    if (!(binary->count & 7))
        binary->valid.bytes[binary->valid.size++] = 0;
    if (taken)
        memcpy(binary->data.bytes + binary->data.size, bytes, (size_t)taken);
    binary->data.size += taken;
    AKTOR_ADD(&binary->ends, int32_t, binary->data.size);
    if (size < 0)
        binary->nulls++;
    else
        binary->valid.bytes[binary->count >> 3] |= (uint8_t)(1 << (binary->count & 7));
    binary->count++;
    return 1;
}

typedef struct {
    aktor_binary key, value, header_name, header_value;
    aktor_buffer topic, partition, offset, timestamp, timestamp_type, leader_epoch, header_ends;
    int64_t rows, bytes;
    int has_key, has_value, has_headers;
} aktor_columns;

/* Adds all of a row but key, value and headers; 0 if there is no memory. */
static inline int
aktor_add_row(aktor_columns *columns, int32_t topic, int32_t partition, int64_t offset,
              int64_t timestamp, int timestamp_type, int32_t leader_epoch)
{
    if (!aktor_reserve(&columns->topic, 4) || !aktor_reserve(&columns->partition, 4) ||
        !aktor_reserve(&columns->offset, 8) || !aktor_reserve(&columns->timestamp, 8) ||
        !aktor_reserve(&columns->timestamp_type, 1) ||
        !aktor_reserve(&columns->leader_epoch, 4) || !aktor_reserve(&columns->header_ends, 8))
        return 0;
    AKTOR_ADD(&columns->topic, int32_t, topic);
    AKTOR_ADD(&columns->partition, int32_t, partition);
    AKTOR_ADD(&columns->offset, int64_t, offset);
    AKTOR_ADD(&columns->timestamp, int64_t, timestamp);
    AKTOR_ADD(&columns->timestamp_type, int8_t, timestamp_type);
    AKTOR_ADD(&columns->leader_epoch, int32_t, leader_epoch);
    if (!columns->rows)
        AKTOR_ADD(&columns->header_ends, int32_t, 0);
    AKTOR_ADD(&columns->header_ends, int32_t, columns->header_name.count);
    columns->rows++;
    return 1;
}

/* Adds key and value, as far as they are wanted; 0 if there is no memory. */
static inline int
aktor_add_contents(aktor_columns *columns, const uint8_t *key, int64_t key_size,
                   const uint8_t *value, int64_t value_size)
{
    if (columns->has_key) {
        if (!aktor_add_binary(&columns->key, key, key_size))
            return 0;
        columns->bytes += key_size < 0 ? 0 : key_size;
    }
    if (columns->has_value) {
        if (!aktor_add_binary(&columns->value, value, value_size))
            return 0;
        columns->bytes += value_size < 0 ? 0 : value_size;
    }
    return 1;
}

static inline int
aktor_add_header(aktor_columns *columns, const uint8_t *name, int64_t name_size,
                 const uint8_t *value, int64_t value_size)
{
    columns->bytes += name_size + (value_size < 0 ? 0 : value_size);
    return aktor_add_binary(&columns->header_name, name, name_size) &&
           aktor_add_binary(&columns->header_value, value, value_size);
}

static inline int
aktor_is_ascii(const uint8_t *at, int64_t size)
{
    uint8_t all = 0;
    for (int64_t index = 0; index < size; index++)
        all |= at[index];
    return all < 0x80;
}

/* Adds the headers of a record. 1; 0 if there is no memory; -1, and nothing is added, if a name is
 * not ASCII: then it may not be UTF-8, which Arrow's text must be. */
static inline int
aktor_add_headers(aktor_columns *columns, const aktor_record *record)
{
    const uint8_t *at = record->headers, *name, *value;
    int64_t name_size, value_size;
    for (uint32_t left = record->header_count; left; left--) {
        at = aktor_read_header(at, record->end, &name, &name_size, &value, &value_size);
        if (!aktor_is_ascii(name, name_size))
            return -1;
    }
    at = record->headers;
    for (uint32_t left = record->header_count; left; left--) {
        at = aktor_read_header(at, record->end, &name, &name_size, &value, &value_size);
        if (!aktor_add_header(columns, name, name_size, value, value_size))
            return 0;
    }
    return 1;
}

static inline void
aktor_free_binary(aktor_binary *binary)
{
    free(binary->ends.bytes);
    free(binary->data.bytes);
    free(binary->valid.bytes);
}

static void
aktor_free_columns(aktor_columns *columns)
{
    aktor_free_binary(&columns->key);
    aktor_free_binary(&columns->value);
    aktor_free_binary(&columns->header_name);
    aktor_free_binary(&columns->header_value);
    free(columns->topic.bytes);
    free(columns->partition.bytes);
    free(columns->offset.bytes);
    free(columns->timestamp.bytes);
    free(columns->timestamp_type.bytes);
    free(columns->leader_epoch.bytes);
    free(columns->header_ends.bytes);
}

#endif
