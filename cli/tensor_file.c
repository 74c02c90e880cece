/* Values in files: tensors as NumPy's .npy or ONNX's .pb; sequences as folders of them, or .pb. */
#include "cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool ends_in(const char *path, const char *suffix)
{
    const size_t n = strlen(path), len = strlen(suffix);
    return n >= len && strcmp(path + n - len, suffix) == 0;
}

/* A tensor of a .npy or .pb file; NULL: refused. */
static tp_tensor *tensor_load(tp_ctx *tp, const char *path)
{
    if (!cli_is_file(path))
        return NULL;
    tp_tensor *t = NULL;
    if (ends_in(path, ".pb"))
        t = tp_onnx_tensor_load(tp, path);
    else if (ends_in(path, ".npy"))
        t = tp_npy_load(tp, path);
    else
        cli_refuse(path, "a tensor is a .npy or .pb file, by its name");
    if (t && tp_failed(t)) {
        cli_refuse_error(path, tp);
        return NULL;
    }
    return t;
}

/* ---- sequences and optionals ----------------------------------------------------------------- */

/* "FOLDER/3.npy" or .pb, whichever is there; NULL: neither. Freed by free(). */
static char *element_path(const char *folder, int k)
{
    const size_t size = strlen(folder) + 32;
    char *path = malloc(size);
    struct stat info;
    for (int as_pb = 0; as_pb < 2 && path; as_pb++) {
        snprintf(path, size, "%s/%d.%s", folder, k, as_pb ? "pb" : "npy");
        if (stat(path, &info) == 0)
            return path;
    }
    free(path);
    return NULL;
}

/* How many .npy and .pb are in a folder; -1: refused. */
static int count_tensors(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    if (!dir) {
        cli_refuse(folder, "it cannot be read");
        return -1;
    }
    for (const struct dirent *e; (e = readdir(dir));)
        n += ends_in(e->d_name, ".npy") || ends_in(e->d_name, ".pb");
    closedir(dir);
    return n;
}

static bool load_folder(tp_ctx *tp, const char *folder, port *to)
{
    const int n = count_tensors(folder);
    to->v = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(tp_tensor *));
    if (n >= 0 && !to->v)
        cli_no_memory();
    for (to->n = 0; to->v && to->n < n; to->n++) {
        char *path = element_path(folder, to->n);
        if (!path) {
            cli_refuse(folder,
                       "it holds %d tensors, but no %d.npy or %d.pb: those of a sequence are "
                       "counted from 0",
                       n, to->n, to->n);
            return false;
        }
        to->v[to->n] = tensor_load(tp, path);
        free(path);
        if (!to->v[to->n])
            return false;
    }
    return to->v;
}

/* A file of the whole value. Each tensor in it takes some bytes. */
static bool load_whole(tp_ctx *tp, const char *path, port *to)
{
    struct stat info;
    const long most = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size / 2 : 0;
    const int room = most < 1 << 20 ? (int)most + 1 : 1 << 20;
    to->v = calloc((size_t)room, sizeof(tp_tensor *));
    if (!to->v) {
        cli_no_memory();
        return false;
    }
    if (tp_onnx_value_load(tp, path, to->type, room, to->v, &to->n) == TP_OK)
        return true;
    cli_refuse_error(path, tp);
    return false;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The value that to->type says is in a file or folder. False: refused. */
static bool value_load(tp_ctx *tp, const char *path, port *to)
{
    const bool tensor = type_is_tensor(to->type), sequence = type_is_sequence(to->type);
    if (type_is_optional(to->type) && !*path) {
        to->n = -1;
        return true;
    }
    if (sequence && is_folder(path))
        return load_folder(tp, path, to);
    if (!tensor && (sequence || ends_in(path, ".pb"))) {
        if (!cli_is_file(path))
            return false;
        if (ends_in(path, ".pb"))
            return load_whole(tp, path, to);
        cli_refuse(path,
                   "input \"%s\" is a sequence: it takes a folder of 0.npy, 1.npy and so on, "
                   "or a .pb of them all",
                   to->name);
        return false;
    }
    to->v = calloc(1, sizeof(tp_tensor *));
    if (!to->v)
        cli_no_memory();
    else
        to->v[0] = tensor_load(tp, path);
    to->n = 1;
    return to->v && to->v[0];
}

/* ---- options ------------------------------------------------------------------------------------ */

/* The input of which "NAME=FILE" speaks: names may hold '=', so the longest that fits. */
static int input_of(const char *text, int n, const char *const *names)
{
    int found = -1;
    size_t longest = 0;
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(names[i]);
        if (len >= longest && strncmp(text, names[i], len) == 0 && text[len] == '=') {
            longest = len;
            found = i;
        }
    }
    return found;
}

static void refuse_input(const char *path, const char *text, int n, const char *const *names)
{
    char name[200];
    const size_t len = strcspn(text, "=");
    snprintf(name, sizeof name, "%.*s", len < 190 ? (int)len : 190, text);
    const char *near = cli_nearest(name, n, names);
    if (!text[len])
        cli_refuse(NULL, "--input %s: it takes NAME=FILE", text);
    else if (near)
        cli_refuse(path, "there is no input \"%s\"; did you mean \"%s\"?", name, near);
    else if (n)
        cli_refuse(path, "there is no input \"%s\"; the first one is \"%s\"", name, names[0]);
    else
        cli_refuse(path, "there is no input \"%s\": the model takes none", name);
}

bool values_given(model *m, const texts *inputs, int n, const char *const *names,
                  const char *const *types)
{
    for (int i = 0; i < inputs->n; i++) {
        const int k = input_of(inputs->v[i], n, names);
        if (k < 0) {
            refuse_input(m->path, inputs->v[i], n, names);
            return false;
        }
        for (int earlier = 0; earlier < i; earlier++)
            if (m->given[earlier].name == names[k]) {
                cli_refuse(m->path, "input \"%s\" is given twice", names[k]);
                return false;
            }
        port *to = &m->given[m->n_given++];
        *to = (port){.name = names[k], .type = types ? types[k] : NULL};
        if (!value_load(m->tp, inputs->v[i] + strlen(names[k]) + 1, to))
            return false;
    }
    return true;
}
