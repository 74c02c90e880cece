/* Reading JSON of files, piece by piece. Nothing of it is trusted; what is wrong first is the error. */
#ifndef TAPIR_JSON_H
#define TAPIR_JSON_H

#include "base/file.h"
#include "base/strbuf.h"

typedef struct tpi_json {
    tpi_mem *mem;
    tpi_file_error *error;
    const char *path, *what;        /* of the file; "the header" */
    const char *begin, *at, *limit; /* bytes are counted from `begin` */
} tpi_json;

/* Malformed: "path: TEXT". False. */
#define TPI_JSON_BAD(j, ...) tpi_file_fail((j)->error, TP_E_FORMAT, (j)->path, __VA_ARGS__)
bool tpi_json_no_memory(tpi_json *j);

char tpi_json_next(tpi_json *j);           /* what comes; 0 at the end */
bool tpi_json_eat(tpi_json *j, char c);    /* was it there? */
bool tpi_json_expect(tpi_json *j, char c); /* an error if not */
bool tpi_json_end(tpi_json *j);            /* an error unless nothing follows */
/* A string, put behind `out` and closed by a 0; none has a 0 inside. */
bool tpi_json_string(tpi_json *j, tpi_str *out);
/* A short one. */
bool tpi_json_word(tpi_json *j, char *word, size_t size);
/* "[1, 2]": at most `most` integers from 0 on; their count, or below 0. */
int tpi_json_naturals(tpi_json *j, int most, int64_t *v);
/* Calls `member` for each member of an object, at its key. */
bool tpi_json_object(tpi_json *j, bool (*member)(tpi_json *j, void *user), void *user);
/* Any value. */
bool tpi_json_skip(tpi_json *j);

/* A string as it is written. */
void tpi_json_put_string(tpi_str *out, const char *text);

#endif
