/* The wire format of protocol buffers, written: fields are added to the end of a text. Failure
 * sticks to the text. */
#ifndef TAPIR_ONNX_WRITE_H
#define TAPIR_ONNX_WRITE_H

#include "base/strbuf.h"
#include "onnx/format/proto.h"

void tpi_pb_put_int(tpi_str *s, uint32_t field, int64_t value);
void tpi_pb_put_bytes(tpi_str *s, uint32_t field, const void *bytes, size_t size);
void tpi_pb_put_text(tpi_str *s, uint32_t field, const char *text);

/* Key and length of a field of bytes that the caller puts behind them. */
void tpi_pb_put_size(tpi_str *s, uint32_t field, uint64_t size);

/* A message in a message: its fields are put between the two; `mark` goes from one to the other. */
size_t tpi_pb_begin(tpi_str *s, uint32_t field);
void tpi_pb_end(tpi_str *s, size_t mark);

/* Puts a name or a place as legal UTF-8: bytes that are none become %XX. */
void tpi_pb_escape(tpi_str *s, const char *text);

#endif
