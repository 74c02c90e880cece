// The headers as C++17: sizes by TP_DIMS, lambdas, ranges of owners, names and feeds as arrays.
#include <tapir/tapir.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

struct closer {
    void operator()(tp_ctx *tp) const { tp_close(tp); }
};
using context = std::unique_ptr<tp_ctx, closer>;

struct scope {
    explicit scope(tp_ctx *c) : tp(c) { tp_scope_begin(tp); }
    ~scope() { tp_scope_end(tp); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    tp_ctx *tp;
};

int n_failed;

void check(bool good, const char *what, int line)
{
    if (good)
        return;
    std::fprintf(stderr, "cxx.cpp:%d: %s\n", line, what);
    n_failed++;
}
#define CHECK(x) check((x), #x, __LINE__)

// Numbers as operands.
void numbers(tp_ctx *tp)
{
    scope inner(tp);
    const float v[] = {1, 2, 3};
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(3), v);
    tp_tensor *y = tp_add(tp_mul(x, 2), tp_sub(1.5f, tp_where(tp_gt(x, 1u), x, 0)));
    const float want[] = {2 + 1.5f, 4 - 0.5f, 6 - 1.5f};
    float got[3];
    CHECK(tp_read(y, got, sizeof got) == TP_OK && std::memcmp(got, want, sizeof got) == 0);
    CHECK(tp_status_of(tp_add(x, nullptr)) == TP_E_NULL);
    tp_clear_error(tp);
    CHECK(tp_status_of(tp_add(tp_cast(x, TP_I32), 0.5)) == TP_E_DTYPE);
    tp_clear_error(tp);
}

// Trains y = 2x - 1 with a step that is any function of x and y.
template <class Step> double train(tp_ctx *tp, Step step)
{
    const std::vector<float> xs = {-2, -1, 0, 1, 2}, ys = {-5, -3, -1, 1, 3};
    double last = NAN;
    for (int i = 0; i < 200; i++) {
        scope inner(tp);
        tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS((int64_t)xs.size(), 1), xs.data());
        tp_tensor *y = tp_tensor_new(tp, TP_F32, TP_DIMS(5, 1), ys.data());
        last = step(x, y);
    }
    return last;
}

void learns(tp_ctx *tp)
{
    const tp_dense layer = tp_dense_new(tp_params_new(tp), "line", 1, 1, nullptr);
    tp_tensor *params[] = {layer.w, layer.b};
    tp_optimizer *o = tp_sgd_new(tp, 0.1, nullptr, 2, params);
    const auto loss_of = [&](tp_tensor *x, tp_tensor *y) {
        return tp_mse(tp_dense_apply(&layer, x), y);
    };
    const double eager = train(tp, [&](tp_tensor *x, tp_tensor *y) {
        tp_tensor *loss = loss_of(x, y);
        CHECK(tp_truth(tp_optimizer_step(o, loss)));
        return tp_item(loss);
    });
    CHECK(eager < 1e-9);
    CHECK(std::fabs(tp_item(layer.w) - 2) < 1e-3 && std::fabs(tp_item(layer.b) + 1) < 1e-3);

    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 1));
    tp_tensor *y = tp_placeholder(g, "y", TP_F32, TP_DIMS(n, 1));
    tp_name(loss_of(x, y), "loss");
    const double in_graph = train(tp, [&](tp_tensor *a, tp_tensor *b) {
        const tp_feed feeds[] = {{"x", a}, {"y", b}};
        const char *const names[] = {"loss"};
        tp_tensor *out[1];
        CHECK(tp_graph_run(g, 2, feeds, 1, names, out) == TP_OK);
        return tp_item(out[0]);
    });
    CHECK(in_graph < 1e-9);
}

void says_where(tp_ctx *tp)
{
    scope inner(tp);
    tp_tensor *a = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1);
    const int line = __LINE__ + 1;
    CHECK(tp_failed(tp_matmul(a, a)));
    const std::string place = "cxx.cpp:" + std::to_string(line) + ": matmul: ";
    CHECK(std::string(tp_error_message(tp)).find(place) != std::string::npos);
    tp_clear_error(tp);
    CHECK(tp_failed((tp_matmul)(a, a))); // as a binding calls it
    tp_clear_error(tp);
}

void sizes(tp_ctx *tp)
{
    scope inner(tp);
    const int rows = 2;
    int calls = 0;
    const auto columns = [&] {
        calls++;
        return std::int64_t{3};
    };
    tp_tensor *a = tp_arange(tp, TP_F64, 6, 0, 1);
    tp_tensor *b = tp_reshape(a, TP_DIMS(rows, columns()));
    CHECK(tp_rank(b) == 2 && tp_size(b, 0) == 2 && tp_size(b, 1) == 3);
    CHECK(calls == 1);
    tp_tensor *sum = tp_sum(tp_transpose(b, TP_DIMS(1, 0)), TP_DIMS(0), false);
    double got[2];
    CHECK(tp_read(sum, got, sizeof got) == TP_OK && got[0] == 3 && got[1] == 12);
    CHECK(tp_item(tp_sum(b, TP_ALL, false)) == 15);
    CHECK(tp_rank(tp_full(tp, TP_F32, TP_SCALAR, 1)) == 0);
}

void function_of(tp_ctx *tp)
{
    scope inner(tp);
    tp_tensor *x = tp_full(tp, TP_F64, TP_DIMS(2, 2), 0.3);
    double power = 3, worst = 1;
    const tp_checked_function f = [](void *user, int, tp_tensor *const *xs) {
        tp_tensor *p = tp_scalar_like(xs[0], *static_cast<double *>(user));
        return tp_pow(xs[0], p);
    };
    CHECK(tp_grad_check(f, &power, 1, &x, &worst) == TP_OK && worst < 1e-6);
}

// A function of one sample, on many; its derivatives.
void samples(tp_ctx *tp)
{
    scope inner(tp);
    const double v[] = {1, 2, 3, 4}, along[] = {1, 0};
    tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(2, 2), v), *y = nullptr, *dy = nullptr;
    double power = 3;
    const tp_body f = [](void *user, int, tp_tensor *const *in, int, tp_tensor **out) {
        tp_tensor *p = tp_scalar_like(in[0], *static_cast<double *>(user));
        out[0] = tp_sum(tp_pow(in[0], p), TP_ALL, false);
    };
    double got[4];
    const int last = -1;
    tp_vmap_options opt = {};
    opt.in_axes = &last;
    y = tp_vmap_apply(f, &power, 1, &x, &opt);
    CHECK(tp_read(y, got, 2 * sizeof *got) == TP_OK && got[0] == 28 && got[1] == 72);
    CHECK(tp_vmap(f, &power, 1, &x, 1, &y, nullptr) == TP_OK && tp_rank(y) == 1);
    x = tp_select(x, 0, 0);
    tp_tensor *d = tp_tensor_new(tp, TP_F64, TP_DIMS(2), along);
    CHECK(tp_jvp(f, &power, 1, &x, &d, 1, &y, &dy) == TP_OK && tp_item(dy) == 3);
    y = tp_jacobian(f, &power, 1, &x, 0);
    CHECK(tp_read(y, got, 2 * sizeof *got) == TP_OK && got[1] == 12);
    y = tp_hessian(f, &power, 1, &x, 0);
    CHECK(tp_read(y, got, sizeof got) == TP_OK && got[0] == 6 && got[3] == 12);
    y = tp_hvp(f, &power, 1, &x, 0, d);
    CHECK(tp_read(y, got, 2 * sizeof *got) == TP_OK && got[0] == 6);
}

// Rows of different lengths.
void rows(tp_ctx *tp)
{
    scope inner(tp);
    const int64_t lengths[] = {2, 0, 1};
    const double v[] = {1, 2, 5};
    tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(3), v);
    tp_ragged r = tp_ragged_of_lengths(x, tp_tensor_new(tp, TP_I64, TP_DIMS(3), lengths));
    double got[6];
    CHECK(tp_read(tp_ragged_sum(r), got, 3 * sizeof *got) == TP_OK && got[0] == 3 &&
          got[1] == 0);
    CHECK(tp_read(tp_ragged_pad(r, 0, -1), got, sizeof got) == TP_OK && got[2] == -1 &&
          got[4] == 5);
    x = tp_ragged_sum(tp_ragged{tp_neg(r.values), r.offsets});
    CHECK(tp_read(x, got, 3 * sizeof *got) == TP_OK && got[2] == -5);
}

// Blocks, and an exception that leaves one.
void blocks(tp_ctx *tp)
{
    scope inner(tp);
    tp_tensor *x = tp_full(tp, TP_F64, TP_DIMS(3), 0.5), *ys = nullptr;
    tp_tensor *sum = tp_scalar(tp, TP_F64, 0);
    tp_for (tp_dim(x, 0), &sum) {
        sum = tp_add(sum, tp_each(x));
        tp_emit(&ys, sum);
    }
    CHECK(tp_item(sum) == 1.5 && tp_size(ys, 0) == 3);
    tp_if (tp_gt(sum, tp_scalar_like(sum, 1)), &sum) {
        sum = tp_neg(sum);
    }
    tp_else {
        sum = nullptr;
    }
    CHECK(tp_item(sum) == -1.5);
    try {
        tp_for (2, &sum) {
            sum = tp_neg(sum);
            throw 1;
        }
    } catch (int) {
    }
    CHECK(tp_error(tp) == TP_E_STATE);
    tp_clear_error(tp);
}

void walks(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_sum(tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"))), TP_ALL, false);
    CHECK(tp_graph_n_nodes(g) == 2);
    const tp_node sum = tp_graph_node(g, 1);
    const tp_node x = tp_graph_node(g, tp_node_operand(g, 1, 0));
    CHECK(std::string(sum.op) == "sum" && sum.n_operands == 1 && x.rank == 1);
    char *size = tp_dim_text(g, x.shape[0]);
    CHECK(size && std::string(size) == "n");
    tp_free(tp, size);
    CHECK(tp_node_body_of(g, 1, 0).graph == nullptr);
    tp_graph_free(g);
}

} // namespace

int main()
{
    const context tp(tp_open(nullptr));
    CHECK(tp != nullptr);
    tp_ctx *c = tp.get();
    numbers(c);
    learns(c);
    says_where(c);
    sizes(c);
    function_of(c);
    samples(c);
    rows(c);
    blocks(c);
    walks(c);
    CHECK(tp_error(c) == TP_OK);
    if (tp_error(c) != TP_OK)
        std::fprintf(stderr, "%s\n", tp_error_message(c));
    return n_failed ? 1 : 0;
}
