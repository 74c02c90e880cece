/* Tensors in files: NumPy's .npy, or ONNX's .pb. */
#include "cli.h"

#include <string.h>

static bool ends_in(const char *path, const char *suffix)
{
    const size_t n = strlen(path), len = strlen(suffix);
    return n >= len && strcmp(path + n - len, suffix) == 0;
}

tp_tensor *tensor_load(tp_ctx *tp, const char *path)
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

bool tensors_given(model *m, const texts *inputs, int n, const char *const *names,
                   tp_feed *given)
{
    for (int i = 0; i < inputs->n; i++) {
        const int k = input_of(inputs->v[i], n, names);
        if (k < 0) {
            refuse_input(m->path, inputs->v[i], n, names);
            return false;
        }
        for (int earlier = 0; earlier < i; earlier++)
            if (given[earlier].name == names[k]) {
                cli_refuse(m->path, "input \"%s\" is given twice", names[k]);
                return false;
            }
        given[i].name = names[k];
        given[i].value = tensor_load(m->tp, inputs->v[i] + strlen(names[k]) + 1);
        if (!given[i].value)
            return false;
    }
    return true;
}
