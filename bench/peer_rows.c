#include "peer_rows.h"

#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text after "key": on the line; NULL when the key is not there. */
static const char *after(const char *line, const char *key)
{
    const size_t n = strlen(key);
    for (const char *p = line; (p = strchr(p, '"')); p++) {
        if (strncmp(p + 1, key, n) != 0 || p[n + 1] != '"')
            continue;
        p += n + 2;
        p += strspn(p, " \t");
        if (*p == ':')
            return p + 1 + strspn(p + 1, " \t");
    }
    return NULL;
}

static bool word(const char *line, const char *key, char out[PEER_WORD])
{
    const char *p = after(line, key);
    if (!p || *p != '"')
        return false;
    const size_t n = strcspn(p + 1, "\"\\");
    if (p[n + 1] != '"' || n >= PEER_WORD)
        return false;
    memcpy(out, p + 1, n);
    out[n] = '\0';
    return true;
}

static bool row_of(const char *line, int threads, peer_row *row)
{
    const char *value = after(line, "value"), *spread = after(line, "threads");
    if (!value || (spread && atoi(spread) != threads) ||
        !word(line, "workload", row->workload) || !word(line, "system", row->system) ||
        !word(line, "metric", row->metric))
        return false;
    char *end;
    row->value = strtod(value, &end);
    return end > value;
}

static bool add(peer_rows *r, const peer_row *row)
{
    if (r->n == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        peer_row *more = realloc(r->v, room * sizeof *more);
        if (!more)
            return false;
        r->v = more;
        r->room = room;
    }
    r->v[r->n++] = *row;
    return true;
}

/* The shell reads `command` as it is, and the workloads behind it as words. */
static char *line_of(const char *command, int n, const char *const *workloads, int threads)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fprintf(f, "THREADS=%d; export THREADS; %s", threads, command);
    for (int i = 0; i < n; i++)
        fprintf(f, " '%s'", workloads[i]);
    return fclose(f) == 0 ? text : NULL;
}

bool peer_rows_run(peer_rows *r, const char *command, int n, const char *const *workloads,
                   int threads)
{
    char *line = line_of(command, n, workloads, threads);
    FILE *f = line ? popen(line, "r") : NULL;
    free(line);
    if (!f)
        return false;
    char *text = NULL;
    size_t size = 0;
    bool good = true;
    while (getline(&text, &size, f) >= 0) {
        peer_row row;
        if (row_of(text, threads, &row))
            good &= add(r, &row);
    }
    free(text);
    return pclose(f) == 0 && good;
}

void peer_rows_free(peer_rows *r)
{
    free(r->v);
    *r = (peer_rows){0};
}

static bool same(const peer_row *a, const peer_row *b)
{
    return strcmp(a->workload, b->workload) == 0 && strcmp(a->metric, b->metric) == 0 &&
           strcmp(a->system, b->system) == 0;
}

static double median_of(const peer_rows *r, const peer_row *like, double *v)
{
    int n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (same(&r->v[i], like))
            v[n++] = r->v[i].value;
    return limit_of(v, n).median;
}

const peer_row *peer_rows_best(const peer_rows *r, const char *workload, const char *metric,
                               const char *system, bool rate, double *value)
{
    double *v = workload && r->n ? malloc(r->n * sizeof *v) : NULL;
    const peer_row *best = NULL;
    for (size_t i = 0; v && i < r->n; i++) {
        const peer_row *row = &r->v[i];
        if (strcmp(row->workload, workload) != 0 || strcmp(row->metric, metric) != 0)
            continue;
        if (system && strncmp(row->system, system, strlen(system)) != 0)
            continue;
        const double median = median_of(r, row, v);
        if (!best || (rate ? median > *value : median < *value)) {
            best = row;
            *value = median;
        }
    }
    free(v);
    return best;
}
