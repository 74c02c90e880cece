/* Variables, and the names of concrete tensors. */
#include "core/variable.h"

#include "core/copy.h"

static tp_tensor *make_variable(tpi_at at, const char *what, tp_tensor *init, const char *name)
{
    if (!tpi_is_live(init) || init->status != TP_OK)
        return tpi_refuse_operand(init ? init->ctx : NULL, at, what, 0, init);
    tp_ctx *ctx = init->ctx;
    TPI_ALONE(ctx, at, what);
    if (init->graph)
        return tpi_fail(
            ctx, at, what, TP_E_SYMBOLIC,
            "the first value is symbolic: a variable begins with a concrete one, and "
            "tp_assign in a graph changes it");
    if (!name)
        return tpi_fail(ctx, at, what, TP_E_NULL, "the name is NULL");
    if (!*name)
        return tpi_fail(ctx, at, what, TP_E_NAME, "the name is empty");
    if (ctx->caller.blocks)
        return ctx->block_rules->refuse_variable(ctx, at, what, name);
    tpi_look_at(at, init, TPI_LOOK_READ);
    if (init->status != TP_OK)
        return init;
    tp_tensor *t = tpi_tensor(ctx, at, (tp_dtype)init->dtype, init->rank, init->shape);
    if (!t || !tpi_tensor_alloc(t))
        return tpi_no_memory(ctx, at, what);
    t->name = tpi_strdup(&ctx->mem, name);
    if (!t->name)
        return tpi_no_memory(ctx, at, what);
    tpi_copy_out(init, t->data);
    t->flags |= TPI_VARIABLE | TPI_STATE;
    return t;
}

tp_tensor *tp_variable_at(const char *file, int line, tp_tensor *init, const char *name)
{
    return make_variable(TPI_AT(file, line), "tp_variable", init, name);
}

TPI_BARE(tp_tensor *, tp_variable, (tp_tensor * init, const char *name), init, name)

tp_tensor *tp_param_at(const char *file, int line, tp_tensor *init, const char *name)
{
    const tpi_at at = TPI_AT(file, line);
    if (tpi_is_live(init) && init->status == TP_OK && init->dtype < TP_F32)
        return tpi_fail(init->ctx, at, "tp_param", TP_E_DTYPE,
                        "a gradient is asked of floats only, not of %s",
                        tp_dtype_name((tp_dtype)init->dtype));
    tp_tensor *t = make_variable(at, "tp_param", init, name);
    if (t->status == TP_OK)
        t->flags |= TPI_REQUIRES | TPI_LEAF;
    return t;
}

TPI_BARE(tp_tensor *, tp_param, (tp_tensor * init, const char *name), init, name)

const char *(tp_name_of)(const tp_tensor *t)
{
    if (tpi_is_live(t))
        tpi_note_symbol(t);
    return tpi_is_live(t) ? t->name : NULL;
}

bool tpi_set_name(tp_tensor *t, const char *name)
{
    char *copy = tpi_strdup(&t->ctx->mem, name);
    if (!copy)
        return false;
    tpi_strfree(&t->ctx->mem, t->name);
    t->name = copy;
    return true;
}

/* ---- assignment ----------------------------------------------------------------------------- */

tp_tensor *tpi_refuse_assign(tpi_at at, const tp_tensor *var, const tp_tensor *value)
{
    tp_ctx *ctx = var->ctx;
    if (!(var->flags & TPI_VARIABLE))
        return tpi_fail(ctx, at, "assign", TP_E_STATE,
                        "the target is no variable: its value never changes (tp_variable makes "
                        "one)");
    if (var->dtype != value->dtype)
        return tpi_fail(ctx, at, "assign", TP_E_DTYPE,
                        "the variable is %s, the value %s: tp_cast converts it",
                        tp_dtype_name((tp_dtype)var->dtype),
                        tp_dtype_name((tp_dtype)value->dtype));
    bool same = var->rank == value->rank, repeats = false;
    for (int i = 0; i < var->rank && same; i++) {
        same = var->shape[i] == value->shape[i];
        repeats |= var->shape[i] > 1 && var->stride[i] == 0;
    }
    if (!same)
        return tpi_fail(ctx, at, "assign", TP_E_SHAPE, "sizes differ: variable %s, value %s",
                        SHAPE(var), SHAPE(value));
    if (repeats)
        return tpi_fail(ctx, at, "assign", TP_E_STATE,
                        "the target %s is a broadcast view, in which elements share memory: "
                        "assign to what it is a view of",
                        SHAPE(var));
    return NULL;
}

void tpi_move_in(tp_tensor *var, tp_tensor *value, bool mine)
{
    tpi_buf *a = var->buf, *b = value->buf;
    const bool whole = var->flags & value->flags & TPI_CONTIGUOUS && var->data == a->data &&
                       value->data == b->data;
    if (!mine || !whole || a->exposed || a->refs != 1 || b->refs != 1 || !a->size || !b->size) {
        tpi_copy_strided(tp_dtype_size((tp_dtype)var->dtype), var->rank, var->shape, var->data,
                         var->stride, value->data, value->stride);
        return;
    }
    b->version = a->version;
    var->buf = b;
    var->data = b->data;
    value->buf = a;
    value->data = a->data;
}

tp_tensor *tpi_assign_concrete(tpi_at at, tp_tensor *var, tp_tensor *value)
{
    tp_tensor *failed = tpi_refuse_assign(at, var, value);
    if (failed)
        return failed;
    if (tpi_count(var) == 0)
        return var;
    if (!tpi_may_write(var))
        return tpi_no_memory(var->ctx, at, "assign");
    if (value->buf != var->buf && value->flags & TPI_CONTIGUOUS) {
        tpi_copy_in(var, value->data);
    } else if (var->flags & TPI_CONTIGUOUS && value->buf != var->buf) {
        tpi_copy_out(value, var->data);
    } else { /* gaps on both sides, or the same memory */
        const size_t bytes = tpi_bytes(value);
        void *copy = tpi_take(&var->ctx->mem, bytes);
        if (!copy)
            return tpi_no_memory(var->ctx, at, "assign");
        tpi_copy_out(value, copy);
        tpi_copy_in(var, copy);
        tpi_give_back(&var->ctx->mem, copy, bytes);
    }
    var->buf->version++;
    return var;
}
