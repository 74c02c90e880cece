/* Cases as ONNX models, for runtimes that are not ours: DIR/op_n/model.onnx beside
 * test_data_set_0/input_k.pb and output_k.pb, the form of ONNX's own test cases. Outputs are the
 * result and its gradients, computed eagerly; sizes are free as in graphs. */
#include "case.h"
#include "onnx/export/emit.h"
#include "onnx/format/write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct counts {
    int exported, gradients, nullary, refused;
} counts;

static tp_tensor *placeholder(tp_graph *g, const char *name, const case_operand *o, bool fixed)
{
    int64_t shape[TP_MAX_RANK];
    for (int axis = 0; axis < o->rank; axis++) {
        char size[48];
        snprintf(size, sizeof size, "s%" PRId64, o->shape[axis]);
        shape[axis] =
            !fixed && !o->fixed && o->shape[axis] != 1 ? tp_symbol(g, size) : o->shape[axis];
    }
    return tp_placeholder(g, name, o->dtype, o->rank, shape);
}

static bool make_folder(const char *format, const char *dir, const char *name, char *path,
                        size_t size)
{
    snprintf(path, size, format, dir, name);
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* As tp_onnx_tensor_save does, but thousands of them: without waiting for the disk. */
static bool save_value(tp_ctx *tp, const char *path, tp_tensor *t)
{
    tpi_str s = TPI_STR(&tp->mem);
    t = tp_contiguous(t);
    for (int i = 0; i < t->rank; i++)
        tpi_pb_put_int(&s, TPI_PB_TENSOR_DIMS, t->shape[i]);
    tpi_pb_put_int(&s, TPI_PB_TENSOR_DATA_TYPE, tpi_onnx_type((tp_dtype)t->dtype));
    tpi_pb_put_bytes(&s, TPI_PB_TENSOR_RAW_DATA, t->data, tpi_bytes(t));
    FILE *f = fopen(path, "wb");
    bool ok = f && !s.failed && fwrite(s.text, 1, s.len, f) == s.len;
    ok = f && fclose(f) == 0 && ok;
    tpi_str_free(&s);
    return ok;
}

static bool save_values(tp_ctx *tp, const char *folder, const char *kind, int n,
                        tp_tensor *const *t)
{
    for (int k = 0; k < n; k++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s_%d.pb", folder, kind, k);
        if (!save_value(tp, path, t[k]))
            return false;
    }
    return true;
}

/* One model; the names of nodes that are asked for twice are asked for once. False: refused. */
static bool save_model(const op_case *c, tp_graph *g, const char *path,
                       const case_results *nodes, const case_results *eager, int n,
                       case_results *kept)
{
    static const char *const in_names[] = {"a", "b", "c", "d", "e", "f"};
    const char *out_names[CASE_MAX_OUT];
    char made[CASE_MAX_OUT][16];
    kept->n = 0;
    for (int k = 0; k < n; k++) {
        tp_tensor *t = tp_graph_read(g, nodes->t[k]);
        if (!tp_name_of(t)) {
            snprintf(made[k], sizeof made[k], "out_%d", k);
            tp_name(t, made[k]);
        }
        bool twice = false;
        for (int i = 0; i < kept->n; i++)
            twice |= strcmp(out_names[i], tp_name_of(t)) == 0;
        if (twice)
            continue;
        out_names[kept->n] = tp_name_of(t);
        kept->t[kept->n++] = eager->t[k];
    }
    return tp_onnx_save(g, path, c->n_in, in_names, kept->n, out_names) == TP_OK;
}

/* How much of a case to try: all with free sizes, all with fixed ones, the result alone. */
enum { FREE, FIXED_SIZES, FORWARD, REFUSED };

static bool try_case(const case_options *o, const op_case *c, tp_ctx *tp,
                     const case_results *eager, int how, const char *path, case_results *kept)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[CASE_MAX_IN] = {0};
    case_results nodes;
    tp_seed(tp, o->seed);
    for (int k = 0; k < c->n_in; k++)
        in[k] = placeholder(g, (char[]){(char)('a' + k), 0}, &c->in[k], how != FREE);
    const uint64_t random_at = tp->random_at;
    case_evaluate(tp, c, (case_kind){0}, in, &nodes);
    tp->random_at = random_at;
    if (tp_error(tp) != TP_OK || nodes.n != eager->n) {
        case_fail(o, c, "no graph of it: %s", tp_error_message(tp));
        return false;
    }
    return save_model(c, g, path, &nodes, eager, how == FORWARD ? 1 : nodes.n, kept);
}

static void export_case(const case_options *o, const op_case *c, counts *counted)
{
    char name[48], folder[1000], data[1040], path[1040];
    snprintf(name, sizeof name, "%s", c->name);
    *strchr(name, '/') = '_';
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *x[CASE_MAX_IN];
    case_results eager, kept;
    tp_scope_begin(tp);
    case_draw_operands(tp, c, o->seed, false, x);
    for (int k = 0; k < c->n_in; k++)
        if (case_is_float(tp_dtype_of(x[k])))
            tp_require_grad(x[k]);
    tp_seed(tp, o->seed);
    case_evaluate(tp, c, (case_kind){0}, x, &eager);
    if (tp_error(tp) != TP_OK || !make_folder("%s/%s", o->dump, name, folder, sizeof folder) ||
        !make_folder("%s/%s", folder, "test_data_set_0", data, sizeof data)) {
        case_fail(o, c, "no folder %s, or eager: %s", o->dump, tp_error_message(tp));
        tp_close(tp);
        return;
    }
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    remove(path);
    int how = FREE;
    for (; how < REFUSED && !try_case(o, c, tp, &eager, how, path, &kept); how++) {
        if (how == FORWARD || !strstr(tp_error_message(tp), "cases.def:"))
            printf("refused: %s: %s\n", c->name, tp_error_message(tp));
        if (!strstr(tp_error_message(tp), "cases.def:"))
            case_fail(o, c, "the refusal names no line: %s", tp_error_message(tp));
        tp_clear_error(tp);
    }
    counted->refused += how == REFUSED;
    counted->exported += how != REFUSED;
    counted->gradients += how != REFUSED && kept.n > 1;
    if (how != REFUSED && (!save_values(tp, data, "input", c->n_in, x) ||
                           !save_values(tp, data, "output", kept.n, kept.t)))
        case_fail(o, c, "values not saved: %s", tp_error_message(tp));
    tp_close(tp);
}

int case_mode_onnx(const case_options *o, op_case *cases, int n)
{
    counts counted = {0};
    if (!o->dump) {
        printf("onnx needs --dump DIR\n");
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (!case_wanted(o, &cases[i]) || cases[i].fails != TP_OK)
            continue;
        if (cases[i].n_in == 0)
            counted.nullary++;
        else
            export_case(o, &cases[i], &counted);
    }
    printf("%d exported, %d of them with gradients; %d refused by name; %d skipped: without "
           "operands they are computed at once\n",
           counted.exported, counted.gradients, counted.refused, counted.nullary);
    return counted.exported;
}
