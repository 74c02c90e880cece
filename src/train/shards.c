/* Models in several safetensors files, with an index beside them:
 *     {"metadata": {"total_size": 8}, "weight_map": {"NAME": "model-00001-of-00002.safetensors", ...}}
 * What the index says of a tensor counts: of a shard only that is taken which the index has in it. */
#include "train/archive_def.h"

#include <stdlib.h>
#include <string.h>

typedef struct location {
    const char *name, *shard;
} location;

typedef struct reader {
    tpi_archive_reader *r;
    bool has_map, has_texts;
    location *v; /* sorted by name, at last */
    int32_t n, size;
} reader;

/* ---- the index -------------------------------------------------------------------------------------- */

/* A file in the folder of the index: no path that leads elsewhere. */
static bool check_shard(const reader *in, const char *shard)
{
    if (*shard && !strchr(shard, '/') && strcmp(shard, ".") != 0 && strcmp(shard, "..") != 0)
        return true;
    return TPI_ARCHIVE_BAD(in->r,
                           "the shard \"%.60s\" is refused: it is to lie in the folder of the "
                           "index",
                           shard);
}

static bool read_location(tpi_json *j, void *user)
{
    reader *in = user;
    location l = {.name = tpi_archive_keep_string(in->r, j)};
    if (!l.name || !tpi_json_expect(j, ':'))
        return false;
    l.shard = tpi_archive_keep_string(in->r, j);
    if (!l.shard || !check_shard(in, l.shard))
        return false;
    location *v = in->n < INT32_MAX
                      ? tpi_bump_grow(&in->r->a->bump, in->v, in->n, &in->size, sizeof *v)
                      : NULL;
    if (!v)
        return tpi_archive_no_memory(in->r);
    in->v = v;
    v[in->n++] = l;
    return true;
}

static bool read_text(tpi_json *j, void *user)
{
    const reader *in = user;
    return tpi_archive_read_text(in->r, j, true);
}

static bool read_member(tpi_json *j, void *user)
{
    reader *in = user;
    const char *key = tpi_archive_keep_string(in->r, j);
    if (!key || !tpi_json_expect(j, ':'))
        return false;
    bool *has = strcmp(key, "weight_map") == 0 ? &in->has_map
                : strcmp(key, "metadata") == 0 ? &in->has_texts
                                               : NULL;
    if (!has)
        return tpi_json_skip(j);
    if (*has)
        return TPI_JSON_BAD(j, "the index has \"%s\" twice", key);
    *has = true;
    return tpi_json_object(j, has == &in->has_map ? read_location : read_text, in);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const location *)a)->name, ((const location *)b)->name);
}

static bool read_index(reader *in, const tpi_file_map *map)
{
    tpi_json j = {.mem = &in->r->a->ctx->mem,
                  .error = in->r->error,
                  .path = in->r->path,
                  .what = "the index",
                  .begin = map->data,
                  .at = map->data,
                  .limit = map->data + map->size};
    if (!tpi_json_object(&j, read_member, in) || !tpi_json_end(&j))
        return false;
    if (!in->has_map)
        return TPI_JSON_BAD(&j, "the index has no \"weight_map\"");
    if (in->n > 1)
        qsort(in->v, (size_t)in->n, sizeof *in->v, by_name);
    for (int i = 1; i < in->n; i++)
        if (by_name(&in->v[i - 1], &in->v[i]) == 0)
            return TPI_JSON_BAD(&j, "the index has \"%.60s\" twice", in->v[i].name);
    return tpi_archive_sort_texts(in->r, 0);
}

/* ---- the shards ------------------------------------------------------------------------------------- */

/* Is the shard of location i that of an earlier one? */
static bool is_open(const reader *in, int i)
{
    bool is = false;
    for (int k = 0; k < i && !is; k++)
        is = strcmp(in->v[k].shard, in->v[i].shard) == 0;
    return is;
}

static bool is_of(const reader *in, const tpi_stored *t, const char *shard)
{
    const location key = {.name = t->entry.name};
    const location *l = in->n ? bsearch(&key, in->v, (size_t)in->n, sizeof key, by_name) : NULL;
    return l && strcmp(l->shard, shard) == 0;
}

static bool read_shard(const reader *in, const char *shard)
{
    tp_archive *a = in->r->a;
    const char *slash = strrchr(in->r->path, '/');
    const size_t folder = slash ? (size_t)(slash - in->r->path) + 1 : 0, n = strlen(shard) + 1;
    char *path = tpi_bump_take(&a->bump, folder + n, 1);
    if (!path)
        return tpi_archive_no_memory(in->r);
    memcpy(path, in->r->path, folder);
    memcpy(path + folder, shard, n);
    tpi_archive_reader r = {a, path, in->r->error};
    const int first = a->n, first_text = a->n_texts;
    const tpi_held_file *f = tpi_archive_file(&r, path);
    if (!f || !tpi_safetensors_read(&r, f))
        return false;
    const int end = a->n;
    a->n = first;
    a->n_texts = first_text; /* texts are the index's own */
    for (int i = first; i < end; i++)
        if (is_of(in, &a->tensors[i], shard))
            a->tensors[a->n++] = a->tensors[i];
    return true;
}

static bool read_shards(reader *in)
{
    const tp_archive *a = in->r->a;
    for (int i = 0; i < in->n; i++)
        if (!is_open(in, i) && !read_shard(in, in->v[i].shard))
            return false;
    if (!tpi_archive_sort(in->r, 0))
        return false;
    for (int i = 0; i < in->n; i++)
        if (i >= a->n || strcmp(a->tensors[i].entry.name, in->v[i].name) != 0)
            return TPI_ARCHIVE_BAD(in->r, "\"%.60s\" is not in \"%.60s\", as the index says",
                                   in->v[i].name, in->v[i].shard);
    return true;
}

bool tpi_shards_read(tpi_archive_reader *r, const tpi_held_file *index)
{
    reader in = {.r = r};
    return read_index(&in, &index->map) && read_shards(&in);
}
