/* Looking at a captured function. */
#include "capture/capture_def.h"

#include <inttypes.h>
#include <string.h>

static void put_place(const tpi_step *s, tpi_str *out)
{
    if (s->at.file)
        tpi_str_printf(out, "%s:%d", s->at.file, s->at.line);
    else
        tpi_str_put(out, "?");
}

static void indent(int depth, tpi_str *out)
{
    for (int i = 0; i < depth; i++)
        tpi_str_put(out, "  ");
}

/* The ops from s to the end of its segment, equal neighbours counted. */
static const tpi_step *put_segment(const tpi_step *s, int depth, int number, tpi_str *out)
{
    const tpi_segment_state state = tpi_segment_state_of(s->segment);
    const tpi_step *last = s;
    int steps = 1;
    while (!last->cut && last->first) {
        last = last->first;
        steps++;
    }
    indent(depth, out);
    tpi_str_printf(out, "segment %d  ", number);
    put_place(s, out);
    tpi_str_printf(out, "  %d steps, %" PRId64 " runs, %" PRId64 " by its program", steps,
                   state.runs, state.program_runs);
    tpi_str_printf(out, "; program: %s", state.program);
    if (state.kernels)
        tpi_str_printf(out, ", %d kernels", state.kernels);
    if (state.compile_ms > 0)
        tpi_str_printf(out, ", %.0f ms", state.compile_ms);
    if (state.programs > 1)
        tpi_str_printf(out, ", made %d times", state.programs);
    if (last->again)
        tpi_str_put(out, "; as often as its loop turns");
    tpi_str_put(out, "\n");
    indent(depth + 1, out);
    int shown = 0;
    for (const tpi_step *t = s;; t = t->first) {
        int same = 1;
        const char *name = t->kind == TPI_STEP_OP       ? t->op->name
                           : t->kind == TPI_STEP_ASSIGN ? "assign"
                                                        : NULL;
        while (t != last && t->first->op == t->op && t->first->kind == t->kind) {
            t = t->first;
            same++;
        }
        if (name && shown < 16) {
            tpi_str_printf(out, "%s%s", shown++ ? ", " : "", name);
            if (same > 1)
                tpi_str_printf(out, " x%d", same);
        } else if (name && shown++ == 16) {
            tpi_str_put(out, ", ...");
        }
        if (t == last)
            break;
    }
    tpi_str_put(out, "\n");
    return last;
}

static void put_tree(const tpi_tree *tree, const char *title, tpi_str *out)
{
    if (!tree->top.first)
        return;
    tpi_str_printf(out, "%s: %" PRId64 " steps\n", title, tree->n_steps);
    int depth = 1, number = 0;
    const tpi_step *s = tree->top.first;
    while (s) {
        const tpi_step *before = s->above;
        if (before->first && before->first->next) {
            depth = 1;
            for (const tpi_step *t = before; t && t != &tree->top; t = t->above)
                depth += t->first && t->first->next;
            indent(depth, out);
            tpi_str_printf(out, "taken %" PRIu32 " times:\n", s->taken);
        }
        if (s->kind == TPI_STEP_OP || s->kind == TPI_STEP_SCALAR ||
            s->kind == TPI_STEP_ASSIGN) {
            s = put_segment(s, depth + 1, number++, out);
        } else if (s->kind != TPI_STEP_ENTRY) {
            static const char *const looks[] = {"a value is read", "tp_truth",
                                                "assigned at once", "settled",
                                                "printed or saved"};
            indent(depth + 1, out);
            put_place(s, out);
            if (s->kind == TPI_STEP_RETURN)
                tpi_str_put(out, "  return");
            else if (s->look == TPI_LOOK_TRUTH)
                tpi_str_printf(out, "  tp_truth is %s", s->truth ? "true" : "false");
            else
                tpi_str_printf(out, "  %s", looks[s->look]);
            tpi_str_printf(out, ", %" PRIu32 " times\n", s->taken);
        }
        s = tpi_tree_walk(tree, s);
    }
}

char *tp_function_text(const tp_function *f)
{
    if (!f)
        return NULL;
    tp_ctx *ctx = f->ctx;
    tpi_str s = TPI_STR(&ctx->mem);
    const tp_function_stats stats = tp_function_stats_of(f);
    tpi_str_printf(&s,
                   "function %s: %" PRId64 " calls, %" PRId64 " runs of the body, %" PRId64
                   " recordings, %" PRId64 " segments, %" PRId64 " compilations\n",
                   f->name, stats.calls, stats.user_calls, stats.recordings, stats.segments,
                   stats.compilations);
    if (f->lost)
        tpi_str_printf(&s, "  %" PRId64 " calls went on eagerly, the last from %s:%d: %s\n",
                       f->lost, f->lost_at.file ? f->lost_at.file : "?", f->lost_at.line,
                       tpi_why_text(f->why_lost));
    tpi_pace_text(f, &s);
    tpi_pure_text(f, &s);
    put_tree(&f->forward, "body", &s);
    put_tree(&f->backward, "gradient", &s);
    char *text = s.failed ? NULL : tp_alloc(ctx, s.len + 1);
    if (text)
        memcpy(text, s.text, s.len + 1);
    else
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "tp_function_text");
    tpi_str_free(&s);
    return text;
}
