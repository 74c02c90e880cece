/* The wire format of protocol buffers, read in place: a message is a range of bytes, fields are
 * met one after the other, nothing is copied. Every length is checked against the range. */
#ifndef TAPIR_ONNX_WIRE_H
#define TAPIR_ONNX_WIRE_H

#include "onnx/format/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tpi_span {
    const char *at;
    size_t size;
} tpi_span;

typedef struct tpi_wire {
    const char *at, *limit;
    bool bad; /* malformed: no more fields come */
} tpi_wire;

typedef struct tpi_field {
    uint32_t number;
    int kind;       /* TPI_PB_VARINT, _FIXED64, _BYTES, _FIXED32 */
    uint64_t value; /* of the kinds that are numbers */
    tpi_span bytes; /* of TPI_PB_BYTES */
} tpi_field;

tpi_wire tpi_wire_open(tpi_span message);
/* The next field; false at the end and when the message is malformed (w->bad). Groups, which
 * only old files have, are passed over. */
bool tpi_wire_next(tpi_wire *w, tpi_field *f);

/* What is in a repeated field of numbers, whichever way it is written: packed, or one by one.
 *     tpi_numbers n = tpi_numbers_open(&f);
 *     while (tpi_numbers_next(&n, &value)) ... */
typedef struct tpi_numbers {
    tpi_wire rest; /* of a packed field */
    int kind;      /* of the element */
    bool single;
    uint64_t value;
} tpi_numbers;
/* `kind`: how one element is stored. A field of another kind is malformed: n.rest.bad. */
tpi_numbers tpi_numbers_open(const tpi_field *f, int kind);
bool tpi_numbers_next(tpi_numbers *n, uint64_t *value);

#endif
