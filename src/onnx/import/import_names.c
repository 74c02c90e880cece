/* Names and what they stand for: see import_inner.h. */
#include "base/hash.h"
#include "onnx/import/import_inner.h"

static tpi_onnx_value **slot_of(const tpi_onnx_env *f, tpi_span name)
{
    size_t i = (size_t)tpi_hash64(name.at, name.size);
    for (;; i++) {
        tpi_onnx_value **s = &f->slots[i & (f->n_slots - 1)];
        if (!*s || tpi_span_same((*s)->name, name))
            return s;
    }
}

bool tpi_onnx_env_open(tpi_import *im, tpi_onnx_env *f, size_t n_names)
{
    f->n_slots = 16;
    while (f->n_slots < 2 * n_names)
        f->n_slots *= 2;
    f->slots = tpi_onnx_take(im->m, f->n_slots, sizeof(tpi_onnx_value *));
    return f->slots;
}

tpi_onnx_value *tpi_onnx_find(const tpi_onnx_env *f, tpi_span name)
{
    for (; f; f = f->outer) {
        tpi_onnx_value *v = *slot_of(f, name);
        if (v)
            return v;
    }
    return NULL;
}

tpi_onnx_value *tpi_onnx_new_value(tpi_import *im, tp_tensor *tensor)
{
    tpi_onnx_value *v = tpi_onnx_take(im->m, 1, sizeof *v);
    if (v) {
        v->graph = im->g;
        v->tensor = tensor;
    }
    return v;
}

bool tpi_onnx_adopt(tpi_import *im, tpi_onnx_env *f, tpi_onnx_value *v)
{
    tpi_onnx_value **s = slot_of(f, v->name);
    if (*s)
        return tpi_onnx_bad(im->m, TP_E_FORMAT, "the name \"%.*s\" is given to two values",
                            TPI_SPAN(v->name));
    *s = v;
    return true;
}

tpi_onnx_value *tpi_onnx_define(tpi_import *im, tpi_onnx_env *f, tpi_span name)
{
    tpi_onnx_value *v = tpi_onnx_new_value(im, NULL);
    if (!v)
        return NULL;
    v->name = name;
    return tpi_onnx_adopt(im, f, v) ? v : NULL;
}

bool tpi_onnx_out_value(tpi_onnx_op *o, int k, const tpi_onnx_value *v)
{
    return !tpi_onnx_wants(o, k) || tpi_onnx_alias(o->im, o->env, o->node->out[k], v);
}

bool tpi_onnx_alias(tpi_import *im, tpi_onnx_env *f, tpi_span name, const tpi_onnx_value *is)
{
    tpi_onnx_value *v = tpi_onnx_define(im, f, name);
    if (!v)
        return false;
    *v = *is;
    v->name = name;
    return true;
}

bool tpi_onnx_opset_known(tpi_import *im, int64_t opset)
{
    return (opset >= TPI_ONNX_OLDEST && opset <= TPI_ONNX_NEWEST) ||
           tpi_onnx_bad(im->m, TP_E_VALUE, "operator set %lld is not supported: %d to %d are",
                        (long long)opset, TPI_ONNX_OLDEST, TPI_ONNX_NEWEST);
}

bool tpi_onnx_folds_no_more(const tpi_import *im)
{
    return im->folded > im->m->own_bytes + TPI_ONNX_FOLD_TOTAL;
}
