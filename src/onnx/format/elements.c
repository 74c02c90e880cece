/* Elements as bytes; tp_onnx_tensor_save and tp_onnx_value_save: tensors in files by themselves. */
#include "onnx/format/elements.h"

#include "base/half.h"
#include "ir/notation.h"
#include "onnx/export/emit.h"
#include "tapir/onnx.h"

#include <string.h>

tpi_elements tpi_elements_of(const tp_tensor *t)
{
    const bool packed = t->flags & TPI_CONTIGUOUS;
    return (tpi_elements){.t = packed ? NULL : t,
                          .bytes = t->data,
                          .size = tpi_bytes(t),
                          .element = tp_dtype_size((tp_dtype)t->dtype)};
}

bool tpi_put_elements(tpi_mem *mem, tpi_writer *w, const tpi_elements *from)
{
    const bool swap = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    if (!from->t && !swap) {
        tpi_file_put(w, from->bytes, from->size);
        return true;
    }
    const size_t room = from->t ? tpi_bytes(from->t) : from->size;
    char *copy = tpi_take(mem, room);
    if (!copy)
        return false;
    if (from->t)
        tpi_copy_out(from->t, copy);
    else
        memcpy(copy, from->bytes, from->size);
    if (from->half)
        tpi_halves_of(from->half == TPI_PB_F16 ? TPI_FLOAT16 : TPI_BFLOAT16,
                      tp_dtype_size((tp_dtype)from->t->dtype), (size_t)tpi_count(from->t),
                      copy);
    if (swap)
        tpi_swap_bytes(copy, from->size, from->element);
    tpi_file_put(w, copy, from->size);
    tpi_give_back(mem, copy, room);
    return true;
}

void tpi_put_tensor_head(tpi_str *s, int type, int rank, const int64_t *shape)
{
    for (int i = 0; i < rank; i++)
        tpi_pb_put_int(s, TPI_PB_TENSOR_DIMS, shape[i]);
    tpi_pb_put_int(s, TPI_PB_TENSOR_DATA_TYPE, type);
}

bool tpi_type_begins(const char **type, const char *word)
{
    const size_t n = strlen(word);
    const bool does = strncmp(*type, word, n) == 0;
    *type += does ? n : 0;
    return does;
}

/* ---- files --------------------------------------------------------------------------------- */

typedef struct saving {
    tpi_mem *mem;
    tpi_writer w;
    bool counts;   /* the bytes are only counted */
    uint64_t size; /* so many so far */
    int as;        /* TPI_PB_F16 or TPI_PB_BF16: floats are written as such; 0: as they are */
    bool failed;   /* no memory */
} saving;

/* Takes the text. */
static void put_text(saving *s, tpi_str *text)
{
    s->failed |= text->failed;
    s->size += text->len;
    if (!s->counts && !s->failed)
        tpi_file_put(&s->w, text->text, text->len);
    tpi_str_free(text);
}

static void put_kind(saving *s, uint32_t field, int kind)
{
    tpi_str text = TPI_STR(s->mem);
    tpi_pb_put_int(&text, field, kind);
    put_text(s, &text);
}

/* A tensor; `field` 0: it is the whole file, else a message in another one. */
static void put_tensor(saving *s, uint32_t field, const tp_tensor *t)
{
    tpi_elements from = tpi_elements_of(t);
    tpi_str head = TPI_STR(s->mem), size = TPI_STR(s->mem);
    const bool halves = s->as && t->dtype >= TP_F32;
    if (halves)
        from = (tpi_elements){
            .t = t, .size = 2 * (size_t)tpi_count(t), .element = 2, .half = s->as};
    tpi_put_tensor_head(&head, halves ? s->as : tpi_onnx_type((tp_dtype)t->dtype), t->rank,
                        t->shape);
    if (t->name) {
        const size_t mark = tpi_pb_begin(&head, TPI_PB_TENSOR_NAME);
        tpi_pb_escape(&head, t->name);
        tpi_pb_end(&head, mark);
    }
    tpi_pb_put_size(&head, TPI_PB_TENSOR_RAW_DATA, from.size);
    if (field)
        tpi_pb_put_size(&size, field, head.len + from.size);
    put_text(s, &size);
    put_text(s, &head);
    s->size += from.size;
    if (!s->counts && !s->failed)
        s->failed = !tpi_put_elements(s->mem, &s->w, &from);
}

static void put_sequence(saving *s, int n, tp_tensor *const *t)
{
    put_kind(s, TPI_PB_SEQUENCE_ELEM_TYPE, TPI_PB_KIND_TENSOR);
    for (int i = 0; i < n; i++)
        put_tensor(s, TPI_PB_SEQUENCE_TENSORS, t[i]);
}

static void put_optional(saving *s, bool sequence, int n, tp_tensor *const *t)
{
    put_kind(s, TPI_PB_OPTIONAL_ELEM_TYPE,
             n < 0      ? TPI_PB_KIND_NONE
             : sequence ? TPI_PB_KIND_SEQUENCE
                        : TPI_PB_KIND_TENSOR);
    if (n >= 0 && sequence) {
        saving count = {.mem = s->mem, .counts = true, .as = s->as};
        tpi_str size = TPI_STR(s->mem);
        put_sequence(&count, n, t);
        s->failed |= count.failed;
        tpi_pb_put_size(&size, TPI_PB_OPTIONAL_SEQUENCE, count.size);
        put_text(s, &size);
        put_sequence(s, n, t);
    } else if (n >= 0) {
        put_tensor(s, TPI_PB_OPTIONAL_TENSOR, t[0]);
    }
}

static tp_status end_saving(saving *s, tp_ctx *ctx, tpi_at at, const char *what)
{
    if (s->failed) {
        tpi_file_abandon(&s->w);
        tpi_no_memory(ctx, at, what);
        return TP_E_MEMORY;
    }
    return tpi_file_end(&s->w)
               ? TP_OK
               : tpi_fail_status(ctx, at, what, s->w.error.status, "%s", s->w.error.text);
}

/* Are its elements there? */
static tp_status check_tensor(tp_ctx *ctx, tpi_at at, const char *what, int i,
                              const tp_tensor *t)
{
    const tp_tensor *failed = tpi_refuse_operand(ctx, at, what, i, t);
    if (failed)
        return (tp_status)failed->status;
    if (t->graph)
        return tpi_fail_status(t->ctx, at, what, TP_E_SYMBOLIC,
                               "a symbolic tensor has no elements; save a result of a run");
    tpi_look_at(at, t, TPI_LOOK_READ);
    return (tp_status)t->status;
}

tp_status tp_onnx_tensor_save_at(const char *file, int line, const tp_tensor *t,
                                 const char *path)
{
    static const char what[] = "tp_onnx_tensor_save";
    const tpi_at at = TPI_AT(file, line);
    const tp_status status = check_tensor(NULL, at, what, 0, t);
    if (status != TP_OK)
        return status;
    saving s = {.mem = &t->ctx->mem};
    tpi_file_begin(&s.w, s.mem, &t->ctx->undone, path);
    put_tensor(&s, 0, t);
    return end_saving(&s, t->ctx, at, what);
}

TPI_BARE(tp_status, tp_onnx_tensor_save, (const tp_tensor *t, const char *path), t, path)

tp_status tp_onnx_value_save_at(const char *file, int line, tp_ctx *tp, const char *path,
                                const char *type, int n, tp_tensor *const *tensors)
{
    static const char what[] = "tp_onnx_value_save";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return TP_E_NULL;
    if (!path || !type || (n > 0 && !tensors))
        return tpi_fail_status(tp, at, what, TP_E_NULL, "the %s is NULL",
                               !path   ? "path"
                               : !type ? "type"
                                       : "array of tensors");
    const char *whole = type;
    const bool optional = tpi_type_begins(&type, "optional("),
               sequence = tpi_type_begins(&type, "sequence(");
    if (n < 0 ? n != -1 || !optional : n != 1 && !sequence)
        return tpi_fail_status(tp, at, what, TP_E_VALUE, "%d tensors are no value of type %s",
                               n, whole);
    tp_status status = TP_OK;
    for (int i = 0; i < n && status == TP_OK; i++)
        status = check_tensor(tp, at, what, i, tensors[i]);
    if (status != TP_OK)
        return status;
    saving s = {.mem = &tp->mem,
                .as = tpi_type_begins(&type, "float16")    ? TPI_PB_F16
                      : tpi_type_begins(&type, "bfloat16") ? TPI_PB_BF16
                                                           : 0};
    tpi_file_begin(&s.w, s.mem, &tp->undone, path);
    if (optional)
        put_optional(&s, sequence, n, tensors);
    else if (sequence)
        put_sequence(&s, n, tensors);
    else
        put_tensor(&s, 0, tensors[0]);
    return end_saving(&s, tp, at, what);
}

TPI_BARE(tp_status, tp_onnx_value_save,
         (tp_ctx * tp, const char *path, const char *type, int n, tp_tensor *const *tensors),
         tp, path, type, n, tensors)
