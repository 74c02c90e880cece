/* Tensors as text:
 *
 *     f32 [2, 3]
 *     [[ 1.0,  2.5, -3.0],
 *      [10.0,  nan,  0.0]]
 *
 * All elements of a tensor are written in one way, so that columns stand in line: with as many
 * decimals as the most demanding one needs (six at most), or all with exponents. */
#include "base/float_mode.h"
#include "base/keep_errno.h"
#include "core/dim.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WHOLE_MAX = 1000, /* a tensor of more elements has its long axes shortened */
    EDGE = 3,         /* to so many elements at both ends */
    LINE_WIDTH = 92,
    DECIMALS = 6
};

typedef struct layout {
    const tp_tensor *t;
    tpi_str *out;
    bool shorten, exponents;
    int decimals, width; /* of an element */
    int column;          /* where the next element would begin */
} layout;

static bool is_float(const tp_tensor *t)
{
    return t->dtype >= TP_F32;
}

/* ---- one element ---------------------------------------------------------------------------- */

typedef char element_text[40];

static int decimals_needed(const char *text)
{
    const char *point = strchr(text, '.');
    if (!point)
        return 0;
    int n = 0;
    for (int i = 1; point[i] >= '0' && point[i] <= '9'; i++) {
        if (point[i] != '0')
            n = i;
    }
    return n;
}

static int format_element(const layout *l, const char *p, element_text text)
{
    const tp_dtype type = (tp_dtype)l->t->dtype;
    if (type == TP_BOOL)
        return snprintf(text, sizeof(element_text), "%s", *p ? "true" : "false");
    if (type == TP_U64)
        return snprintf(text, sizeof(element_text), "%" PRIu64,
                        *(const uint64_t *)(const void *)p);
    if (!is_float(l->t))
        return snprintf(text, sizeof(element_text), "%" PRId64, tpi_load_i64(type, p));
    const double v = tpi_load_f64(type, p);
    if (isnan(v))
        return snprintf(text, sizeof(element_text), "nan");
    return tpi_print(text, sizeof(element_text), l->exponents ? "%.*e" : "%.*f", l->decimals,
                     v);
}

/* ---- walks over the elements that are shown ------------------------------------------------- */

/* Index that follows i along an axis of size n: the middle of a long axis is left out. */
static int64_t next_index(const layout *l, int64_t i, int64_t n)
{
    return l->shorten && n > 2 * EDGE && i + 1 == EDGE ? n - EDGE : i + 1;
}

static void each(layout *l, int axis, const char *p, void (*visit)(layout *l, const char *p))
{
    const tp_tensor *t = l->t;
    if (axis == t->rank) {
        visit(l, p);
        return;
    }
    const int64_t step = t->stride[axis] * (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    for (int64_t i = 0; i < t->shape[axis]; i = next_index(l, i, t->shape[axis]))
        each(l, axis + 1, p + i * step, visit);
}

/* Exponents when fixed point would be very long or lose small values. */
static void look_at_size(layout *l, const char *p)
{
    const double v = fabs(tpi_load_f64((tp_dtype)l->t->dtype, p));
    if (isfinite(v) && v != 0 && (v >= 1e8 || v < 1e-4))
        l->exponents = true;
}

static void look_at_decimals(layout *l, const char *p)
{
    const double v = tpi_load_f64((tp_dtype)l->t->dtype, p);
    char text[400];
    if (!isfinite(v))
        return;
    tpi_print(text, sizeof text, l->exponents ? "%.*e" : "%.*f", DECIMALS, v);
    const int n = decimals_needed(text);
    l->decimals = n > l->decimals ? n : l->decimals;
}

static void look_at_width(layout *l, const char *p)
{
    element_text text;
    const int n = format_element(l, p, text);
    l->width = n > l->width ? n : l->width;
}

static void indent(layout *l, int n)
{
    tpi_str_printf(l->out, "\n%*s", n, "");
    l->column = n;
}

static void put_row(layout *l, int axis, const char *p, int64_t step)
{
    const int64_t n = l->t->shape[axis];
    element_text text;
    for (int64_t i = 0, next; i < n; i = next) {
        next = next_index(l, i, n);
        format_element(l, p + i * step, text);
        tpi_str_printf(l->out, "%*s", l->width, text);
        l->column += l->width;
        if (next == n)
            break;
        tpi_str_put(l->out, ",");
        const bool gap = next != i + 1;
        if (l->column + 2 + l->width + (gap ? 5 : 0) > LINE_WIDTH) {
            indent(l, axis + 1);
        } else {
            tpi_str_put(l->out, " ");
            l->column += 2;
        }
        if (gap) {
            tpi_str_put(l->out, "..., ");
            l->column += 5;
        }
    }
}

static void put_axis(layout *l, int axis, const char *p)
{
    const tp_tensor *t = l->t;
    const int64_t n = t->shape[axis];
    const int64_t step = t->stride[axis] * (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    tpi_str_put(l->out, "[");
    l->column++;
    if (axis == t->rank - 1) {
        put_row(l, axis, p, step);
    } else {
        for (int64_t i = 0, next; i < n; i = next) {
            next = next_index(l, i, n);
            put_axis(l, axis + 1, p + i * step);
            if (next == n)
                break;
            /* A blank line between matrices. */
            tpi_str_put(l->out, t->rank - axis > 2 ? ",\n" : ",");
            indent(l, axis + 1);
            if (next != i + 1) {
                tpi_str_put(l->out, t->rank - axis > 2 ? "...,\n" : "...,");
                indent(l, axis + 1);
            }
        }
    }
    tpi_str_put(l->out, "]");
}

static void put_values(const tp_tensor *t, tpi_str *out)
{
    layout l = {.t = t, .out = out, .shorten = tpi_count(t) > WHOLE_MAX};
    if (is_float(t)) {
        each(&l, 0, t->data, look_at_size);
        l.decimals = 1;
        each(&l, 0, t->data, look_at_decimals);
    }
    element_text text;
    if (t->rank == 0) {
        format_element(&l, t->data, text);
        tpi_str_printf(out, " %s", text);
    } else if (tpi_count(t) == 0) {
        tpi_str_put(out, " []");
    } else {
        each(&l, 0, t->data, look_at_width);
        tpi_str_put(out, "\n");
        put_axis(&l, 0, t->data);
    }
}

/* ---- public --------------------------------------------------------------------------------- */

static void put_tensor(const tp_tensor *t, tpi_str *out)
{
    TPI_DEFAULT_FLOAT_MODE;
    tpi_str_put(out, tp_dtype_name((tp_dtype)t->dtype));
    if (t->rank > 0) {
        tpi_str_put(out, " [");
        for (int i = 0; i < t->rank; i++) {
            tpi_str_put(out, i ? ", " : "");
            tpi_dim_print(tpi_dims_of(t), t->shape[i], out);
        }
        tpi_str_put(out, "]");
    }
    if (t->graph)
        tpi_str_printf(out, " symbolic%s%s", t->name ? " " : "", t->name ? t->name : "");
    else
        put_values(t, out);
}

/* The whole text; `s` may be freed in any case. Out of memory: s->failed. */
static const char *text_of(const tp_tensor *t, tpi_str *s)
{
    *s = (tpi_str){0};
    if (tpi_is_live(t) && t->ctx && !t->graph)
        tpi_look_at(TPI_AT(NULL, 0), t, TPI_LOOK_SHOW);
    if (tp_failed(t))
        return tp_error_text(t);
    *s = TPI_STR(&t->ctx->mem);
    put_tensor(t, s);
    return s->failed ? "" : s->text;
}

tp_status(tp_print)(const tp_tensor *t, FILE *out)
{
    TPI_KEEP_ERRNO;
    if (!out)
        return TP_E_NULL;
    tpi_str s;
    const char *text = text_of(t, &s);
    tp_status status = tp_status_of(t);
    if (s.failed)
        status =
            tpi_fail_status(t->ctx, TPI_AT(NULL, 0), "tp_print", TP_E_MEMORY, "out of memory");
    else if (fprintf(out, "%s%s\n", tp_failed(t) ? "failed: " : "", text) < 0)
        status = status == TP_OK ? tpi_fail_status(t->ctx, TPI_AT(NULL, 0), "tp_print", TP_E_IO,
                                                   "the stream does not take the text")
                                 : status;
    if (s.mem)
        tpi_str_free(&s);
    return status;
}

size_t(tp_format)(const tp_tensor *t, char *out, size_t size)
{
    tpi_str s;
    const char *text = text_of(t, &s);
    if (s.failed)
        tpi_fail_status(t->ctx, TPI_AT(NULL, 0), "tp_format", TP_E_MEMORY, "out of memory");
    const char *prefix = tp_failed(t) ? "failed: " : "";
    const size_t len = strlen(prefix) + strlen(text);
    if (out && size)
        snprintf(out, size, "%s%s", prefix, text);
    if (s.mem)
        tpi_str_free(&s);
    return len;
}
