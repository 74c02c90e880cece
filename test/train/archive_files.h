/* Files of tensors, byte by byte. */
#ifndef TAPIR_ARCHIVE_FILES_H
#define TAPIR_ARCHIVE_FILES_H

#include "base/crc32.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <unistd.h>

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    unlink(path); /* some disks wait when a file is emptied and written anew */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline size_t read_file(const char *path, char *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, size, f);
    fclose(f);
    assert_true(n < size);
    return n;
}

/* Bytes that grow. */
typedef struct bytes {
    char data[1 << 16];
    size_t n;
} bytes;

static inline void add(bytes *b, const void *from, size_t n)
{
    assert_true(b->n + n <= sizeof b->data);
    if (n)
        memcpy(b->data + b->n, from, n);
    b->n += n;
}

/* A number, its lowest byte first. */
static inline void add_number(bytes *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        add(b, &(char){(char)(i < 8 ? v >> (8 * i) : 0)}, 1);
}

/* A safetensors file of a header and data. */
static inline void write_parts(const char *path, const char *header, const void *data, size_t n)
{
    static bytes b;
    b.n = 0;
    add_number(&b, strlen(header), 8);
    add(&b, header, strlen(header));
    add(&b, data, n);
    write_file(path, b.data, b.n);
}

/* ---- zip ---------------------------------------------------------------------------------------------- */

/* A member: what is said of it, and what is there. */
typedef struct member {
    const char *name;
    size_t name_length; /* 0: of the text */
    const void *data;
    size_t n;
    unsigned method, flags;
    uint64_t size; /* as said; 0: n */
    uint32_t sum;  /* as said; 0: the right one */
    int64_t shift; /* of the place that the directory says */
} member;

typedef struct zip {
    bytes file, directory;
    unsigned n;
} zip;

static inline void zip_common(bytes *b, const member *m, uint32_t sum)
{
    add_number(b, 20, 2);
    add_number(b, m->flags, 2);
    add_number(b, m->method, 2);
    add_number(b, 0, 4);
    add_number(b, sum, 4);
    add_number(b, m->n, 4);
    add_number(b, m->size ? m->size : m->n, 4);
    add_number(b, m->name_length ? m->name_length : strlen(m->name), 2);
    add_number(b, 0, 2);
}

static inline void zip_add(zip *z, member m)
{
    static tpi_crc32_table table;
    const size_t at = z->file.n, name = m.name_length ? m.name_length : strlen(m.name);
    tpi_crc32_begin(&table);
    const uint32_t sum = m.sum ? m.sum : tpi_crc32(&table, 0, m.data, m.n);
    add_number(&z->file, 0x04034b50, 4);
    zip_common(&z->file, &m, sum);
    add(&z->file, m.name, name);
    add(&z->file, m.data, m.n);
    add_number(&z->directory, 0x02014b50, 4);
    add_number(&z->directory, 20, 2);
    zip_common(&z->directory, &m, sum);
    add_number(&z->directory, 0, 10);
    add_number(&z->directory, (uint64_t)((int64_t)at + m.shift), 4);
    add(&z->directory, m.name, name);
    z->n++;
}

static inline void zip_write(zip *z, const char *path)
{
    bytes *b = &z->file;
    const size_t at = b->n;
    add(b, z->directory.data, z->directory.n);
    add_number(b, 0x06054b50, 4);
    add_number(b, 0, 4);
    add_number(b, z->n, 2);
    add_number(b, z->n, 2);
    add_number(b, z->directory.n, 4);
    add_number(b, at, 4);
    add_number(b, 0, 2);
    write_file(path, b->data, b->n);
}

/* An .npy file of bytes. */
static inline void npy(bytes *b, const char *descr, const char *shape, const void *data,
                       size_t n)
{
    char header[256];
    const int length =
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    b->n = 0;
    add(b, "\x93NUMPY\1\0", 8);
    add_number(b, (uint64_t)length, 2);
    add(b, header, (size_t)length);
    add(b, data, n);
}

/* The bytes as a stream of DEFLATE that squeezes nothing (RFC 1951, 3.2.4). */
static inline void deflated(bytes *to, const bytes *from)
{
    to->n = 0;
    add_number(to, 1, 1);
    add_number(to, from->n, 2);
    add_number(to, ~from->n, 2);
    add(to, from->data, from->n);
}

#endif
