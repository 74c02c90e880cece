#include "sample_loop.h"

#include "digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool number(const char *text, int64_t *out)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (end == text || *end || n < 1 || n > 1000000)
        return false;
    *out = n;
    return true;
}

static void usage(const char *program, int n, const argument *arguments, bool folder)
{
    fprintf(stderr, "usage: %s%s", program, folder ? " [DATA]" : "");
    for (int i = 0; i < n; i++)
        fprintf(stderr, " [%s N]", arguments[i].name);
    fprintf(stderr, " [--check]\n");
}

bool read_arguments(int argc, char **argv, int n, const argument *arguments, bool *check,
                    const char **folder)
{
    const char *data = getenv("DATA");
    *check = false;
    if (folder)
        *folder = data && *data ? data : NULL;
    for (int i = 1; i < argc; i++) {
        bool good = strcmp(argv[i], "--check") == 0;
        *check = *check || good;
        if (folder && argv[i][0] != '-') {
            *folder = argv[i];
            continue;
        }
        for (int k = 0; k < n && !good && i + 1 < argc; k++)
            if (strcmp(argv[i], arguments[k].name) == 0)
                good = number(argv[++i], arguments[k].value);
        if (!good) {
            usage(argv[0], n, arguments, folder != NULL);
            return false;
        }
    }
    return true;
}

/* ---- digits ------------------------------------------------------------------------------------- */

bool digit_tensors(tp_ctx *tp, const char *folder, const char *which, int64_t n, tp_tensor **to)
{
    digits d;
    const uint64_t seed = strcmp(which, "train") == 0 ? 1 : 2;
    if (!(folder ? digits_read(folder, which, n, &d) : digits_draw(n, seed, &d)))
        return false;
    tp_tensor *images = tp_tensor_new(tp, TP_U8, TP_DIMS(d.n, DIGIT_BYTES), d.images);
    to[0] = tp_mul(tp_cast(images, TP_F32), 1.0 / 255);
    to[1] = tp_cast(tp_tensor_new(tp, TP_U8, TP_DIMS(d.n), d.labels), TP_I64);
    digits_free(&d);
    return true;
}

/* ---- one sample after the other ------------------------------------------------------------------- */

void first_samples(int64_t n, int n_in, tp_tensor *const *in, tp_tensor **first)
{
    for (int i = 0; i < n_in; i++)
        first[i] = tp_slice(in[i], 0, 0, n, 1);
}

void loop_over_samples(tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out,
                       tp_tensor **out)
{
    const int64_t samples = tp_size(in[0], 0);
    tp_ctx *tp = tp_ctx_of(in[0]);
    tp_tensor **all = tp_alloc(tp, (size_t)(samples * n_out) * sizeof(tp_tensor *));
    for (int64_t s = 0; s < samples && all; s++) {
        tp_tensor *one[SAMPLES_MOST], *result[SAMPLES_MOST];
        for (int i = 0; i < n_in; i++)
            one[i] = tp_select(in[i], 0, s);
        body(user, n_in, one, n_out, result);
        for (int k = 0; k < n_out; k++)
            all[k * samples + s] = result[k];
    }
    for (int k = 0; k < n_out; k++)
        out[k] = tp_stack((int)samples, all ? all + k * samples : NULL, 0);
    tp_free(tp, all);
}

static bool same_bits(tp_tensor *a, tp_tensor *b)
{
    const size_t size = (size_t)tp_count(a) * tp_dtype_size(tp_dtype_of(a));
    const void *x = tp_data(tp_contiguous(a)), *y = tp_data(tp_contiguous(b));
    return x && y && tp_count(a) == tp_count(b) && tp_dtype_of(a) == tp_dtype_of(b) &&
           memcmp(x, y, size) == 0;
}

bool show_bits_equal(int n, tp_tensor *const *a, tp_tensor *const *b)
{
    bool same = true;
    for (int i = 0; i < n; i++)
        same = same_bits(a[i], b[i]) && same;
    printf("bits_equal %s\n", same ? "yes" : "no");
    return same;
}

bool check_samples(tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out)
{
    tp_tensor *together[SAMPLES_MOST], *alone[SAMPLES_MOST];
    tp_vmap(body, user, n_in, in, n_out, together, NULL);
    loop_over_samples(body, user, n_in, in, n_out, alone);
    return show_bits_equal(n_out, together, alone);
}

int close_and_tell(tp_ctx *tp, const char *program, bool good)
{
    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "%s: %s\n", program, tp_error_message(tp));
    tp_close(tp);
    return failed || !good;
}
