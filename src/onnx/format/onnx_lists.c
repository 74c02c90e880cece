/* tp_onnx_tensor_load, tp_onnx_value_load: a tensor, a sequence or an optional in a file by itself. */
#include "onnx/format/elements.h"
#include "onnx/format/model.h"
#include "tapir/onnx.h"

#include <string.h>

typedef struct reading {
    tpi_onnx_model *m;
    tpi_at at;
    const char
        *element; /* the type of the elements that it should have, up to its end or a ')' */
    int most, n;
    tp_tensor **out;
} reading;

/* A type that tapir has none for is refused as such; one that is not known is any. */
static bool has_type(const reading *r, int type)
{
    const char *has = tpi_onnx_type_name(type);
    const size_t n = strcspn(r->element, ")");
    return tpi_onnx_dtype(type) == TP_N_DTYPES || n == 0 || r->element[0] == '?' ||
           strncmp(r->element, "undefined", n) == 0 ||
           (strlen(has) == n && memcmp(has, r->element, n) == 0);
}

static bool read_tensor(reading *r, tpi_span message)
{
    tpi_onnx_tensor t;
    if (r->n == r->most)
        return tpi_onnx_bad(r->m, TP_E_VALUE, "it has more than %d tensors", r->most);
    if (!tpi_onnx_tensor_read(r->m, message, &t))
        return false;
    if (!has_type(r, t.type))
        return tpi_onnx_bad(r->m, TP_E_FORMAT, "its elements are %s, not %.*s",
                            tpi_onnx_type_name(t.type), (int)strcspn(r->element, ")"),
                            r->element);
    r->out[r->n] = tpi_onnx_tensor_make(r->m, &t, r->at);
    return r->out[r->n++];
}

/* The fields of that number, each of which is a message; *kind is what ELEM_TYPE says. */
static bool read_parts(reading *r, tpi_span message, uint32_t number,
                       bool (*part)(reading *r, tpi_span message), uint64_t *kind)
{
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        if (f.number == TPI_PB_OPTIONAL_ELEM_TYPE && f.kind == TPI_PB_VARINT)
            *kind = f.value;
        if (f.number == number)
            ok = f.kind == TPI_PB_BYTES ? part(r, f.bytes)
                                        : tpi_onnx_bad(r->m, TP_E_FORMAT, "it is malformed");
    }
    return ok && (!w.bad || tpi_onnx_bad(r->m, TP_E_FORMAT, "it is malformed"));
}

static bool read_sequence(reading *r, tpi_span message)
{
    uint64_t kind;
    return read_parts(r, message, TPI_PB_SEQUENCE_TENSORS, read_tensor, &kind);
}

static bool read_optional(reading *r, tpi_span message, bool sequence)
{
    uint64_t kind = TPI_PB_KIND_NONE;
    const bool ok = sequence
                        ? read_parts(r, message, TPI_PB_OPTIONAL_SEQUENCE, read_sequence, &kind)
                        : read_parts(r, message, TPI_PB_OPTIONAL_TENSOR, read_tensor, &kind);
    r->n = kind == TPI_PB_KIND_NONE ? -1 : r->n;
    return ok;
}

static bool read_value(reading *r, const char *type, tpi_span bytes)
{
    const bool optional = tpi_type_begins(&type, "optional("),
               sequence = tpi_type_begins(&type, "sequence(");
    if (strncmp(type, "other", 5) == 0)
        return tpi_onnx_bad(r->m, TP_E_VALUE, "values of that kind are not supported");
    r->element = type;
    if (optional)
        return read_optional(r, bytes, sequence);
    return sequence ? read_sequence(r, bytes) : read_tensor(r, bytes);
}

/* NULL, or the failed tensor that says why not. */
static tp_tensor *load(tp_ctx *tp, tpi_at at, const char *what, const char *path,
                       const char *type, int most, tp_tensor **out, int *n)
{
    tpi_file_bytes bytes;
    tpi_file_error error;
    if (!tpi_file_read(&tp->mem, path, SIZE_MAX, &bytes, &error))
        return tpi_fail(tp, at, what, error.status, "%s", error.text);
    tpi_onnx_model m = tpi_onnx_model_begin(tp, NULL);
    reading r = {.m = &m, .at = at, .most = most, .out = out};
    tp_tensor *failed = NULL;
    if (read_value(&r, type, (tpi_span){bytes.data, bytes.size}))
        *n = r.n;
    else
        failed = tpi_fail(tp, at, what, m.status, "%s: %s", tpi_onnx_shown(path).text, m.why);
    tpi_onnx_model_free(&m);
    tpi_file_free(&tp->mem, &bytes);
    return failed;
}

tp_status tp_onnx_value_load_at(const char *file, int line, tp_ctx *tp, const char *path,
                                const char *type, int most, tp_tensor **out, int *n)
{
    static const char what[] = "tp_onnx_value_load";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return TP_E_NULL;
    if (!path || !type || !out || !n)
        return tpi_fail_status(tp, at, what, TP_E_NULL, "the %s is NULL",
                               !path   ? "path"
                               : !type ? "type"
                                       : "place of the result");
    *n = 0;
    const tp_tensor *failed = load(tp, at, what, path, type, most, out, n);
    return failed ? (tp_status)failed->status : TP_OK;
}

TPI_BARE(tp_status, tp_onnx_value_load,
         (tp_ctx * tp, const char *path, const char *type, int most, tp_tensor **out, int *n),
         tp, path, type, most, out, n)

tp_tensor *tp_onnx_tensor_load_at(const char *file, int line, tp_ctx *tp, const char *path)
{
    static const char what[] = "tp_onnx_tensor_load";
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *out;
    int n;
    if (!tp)
        return (tp_tensor *)&tpi_nil;
    if (!path)
        return tpi_fail(tp, at, what, TP_E_NULL, "the path is NULL");
    tp_tensor *failed = load(tp, at, what, path, "?", 1, &out, &n);
    return failed ? failed : out;
}

TPI_BARE(tp_tensor *, tp_onnx_tensor_load, (tp_ctx * tp, const char *path), tp, path)
