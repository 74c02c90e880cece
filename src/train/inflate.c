#include "train/inflate.h"

#include "base/crc32.h"
#include "base/keep_errno.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

const char tpi_inflate_no_memory[] = "out of memory";

/* ---- what is used of zlib.h, whose ABI is that of libz.so.1 ------------------------------------------ */

typedef struct z_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *opaque, unsigned items, unsigned size);
    void (*zfree)(void *opaque, void *address);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} z_stream;

enum { Z_OK = 0, Z_STREAM_END = 1, Z_MEM_ERROR = -4, Z_BUF_ERROR = -5, RAW = -15 };

typedef struct zlib {
    void *library;
    int (*init)(z_stream *z, int window_bits, const char *version, int size);
    int (*go)(z_stream *z, int flush);
    int (*end)(z_stream *z);
} zlib;

/* ISO C has no cast from an object's address to a function's. */
static bool symbol(void *library, const char *name, void *to)
{
    void *at = dlsym(library, name);
    memcpy(to, &at, sizeof at);
    return at;
}

static const char *load(zlib *lib)
{
    *lib = (zlib){.library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!lib->library)
        return "it is deflated, and libz.so.1, which reads that, is not installed";
    if (symbol(lib->library, "inflateInit2_", &lib->init) &&
        symbol(lib->library, "inflate", &lib->go) &&
        symbol(lib->library, "inflateEnd", &lib->end))
        return NULL;
    dlclose(lib->library);
    return "it is deflated, and libz.so.1 is not the library of that name";
}

/* ---- a stream --------------------------------------------------------------------------------------- */

enum { HEAD = 64 }; /* before each block of zlib, with its size */

static void *take(void *mem, unsigned items, unsigned size)
{
    const size_t bytes = HEAD + (size_t)items * size;
    char *p = tpi_take(mem, bytes);
    if (!p)
        return NULL;
    memcpy(p, &bytes, sizeof bytes);
    return p + HEAD;
}

static void give_back(void *mem, void *p)
{
    size_t bytes;
    memcpy(&bytes, (char *)p - HEAD, sizeof bytes);
    tpi_give_back(mem, (char *)p - HEAD, bytes);
}

typedef struct stream {
    zlib lib;
    z_stream z;
    const char *from; /* what was not handed to it yet */
    size_t left;
    bool ended;
} stream;

static const char *begin(stream *s, tpi_mem *mem, const char *from, size_t size)
{
    *s = (stream){.from = from, .left = size};
    const char *why = load(&s->lib);
    if (why)
        return why;
    s->z = (z_stream){.zalloc = take, .zfree = give_back, .opaque = mem};
    const int code = s->lib.init(&s->z, RAW, "1", (int)sizeof s->z);
    if (code == Z_OK)
        return NULL;
    dlclose(s->lib.library);
    return code == Z_MEM_ERROR ? tpi_inflate_no_memory
                               : "it is deflated, and libz.so.1 is another version of it";
}

static void end(stream *s)
{
    s->lib.end(&s->z);
    dlclose(s->lib.library);
}

/* The next bytes, up to *n, which is how many there were. */
static const char *next(stream *s, char *to, size_t *n)
{
    enum { MOST = 1 << 30 };
    const size_t wanted = *n;
    size_t done = 0;
    int code = Z_OK;
    while (code == Z_OK && !s->ended && done < wanted) {
        const size_t part = wanted - done < MOST ? wanted - done : MOST;
        if (s->z.avail_in == 0) {
            s->z.next_in = (const unsigned char *)s->from;
            s->z.avail_in = (unsigned)(s->left < MOST ? s->left : MOST);
            s->from += s->z.avail_in;
            s->left -= s->z.avail_in;
        }
        s->z.next_out = (unsigned char *)to + done;
        s->z.avail_out = (unsigned)part;
        code = s->lib.go(&s->z, 0);
        done += part - s->z.avail_out;
        s->ended = code == Z_STREAM_END;
    }
    *n = done;
    return code == Z_OK || code == Z_STREAM_END ? NULL
           : code == Z_MEM_ERROR                ? tpi_inflate_no_memory
           : code == Z_BUF_ERROR                ? "what is squeezed ends too soon"
                                                : "what is squeezed is damaged";
}

/* All of `bytes`, to `to` or, part by part, nowhere; their checksum is added. */
static const char *pass(stream *s, const tpi_crc32_table *table, size_t bytes, char *to,
                        uint32_t *sum)
{
    char part[1024];
    const char *why = NULL;
    while (bytes && !why) {
        const size_t most = to || bytes < sizeof part ? bytes : sizeof part;
        size_t n = most;
        char *at = to ? to : part;
        why = next(s, at, &n);
        *sum = tpi_crc32(table, *sum, at, n);
        if (!why && n < most)
            why = "it is shorter than it says";
        bytes -= n;
    }
    return why;
}

const char *tpi_inflate(tpi_mem *mem, const tpi_squeezed *in, char *to, uint32_t *sum)
{
    TPI_KEEP_ERRNO;
    tpi_crc32_table table;
    stream s;
    char more;
    size_t n = 1;
    *sum = 0;
    const char *why = begin(&s, mem, in->from, in->size);
    if (why)
        return why;
    tpi_crc32_begin(&table);
    why = pass(&s, &table, in->head, NULL, sum);
    if (!why)
        why = pass(&s, &table, in->bytes, to, sum);
    if (!why)
        why = next(&s, &more, &n);
    if (!why && (n || s.left || s.z.avail_in))
        why = "it is longer than it says";
    end(&s);
    return why;
}

const char *tpi_inflate_first(tpi_mem *mem, const char *from, size_t size, char *to, size_t *n)
{
    TPI_KEEP_ERRNO;
    stream s;
    const char *why = begin(&s, mem, from, size);
    if (why)
        return why;
    why = next(&s, to, n);
    end(&s);
    return why;
}
