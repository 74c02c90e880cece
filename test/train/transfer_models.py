"""transfer_models.py numpy|torch PROGRAM FOLDER: models with the names and layouts of PyTorch, small and random, are run by
PyTorch, or by NumPy alone, and by us from the same file of weights. Prints the seed; the greatest difference may be 1e-5
of the greatest value."""
import json
import subprocess
import sys

import numpy as np

oracle, program, folder = sys.argv[1:]
SEED = 11
rng = np.random.default_rng(SEED)


def normal(*shape, scale=0.4):
    return (rng.standard_normal(shape) * scale).astype("f4")


def save_safetensors(path, tensors):
    names = {"float32": "F32", "int64": "I64", "bool": "BOOL", "uint8": "U8"}
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, a in tensors.items():
        bytes_of = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": names[a.dtype.name], "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(bytes_of)]}
        data += bytes_of
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


# ---- the weights, by name ----------------------------------------------------------------------------

def norm_names(w, name, c):
    w[name + ".weight"], w[name + ".bias"] = 1 + normal(c), normal(c)
    w[name + ".running_mean"], w[name + ".running_var"] = normal(c), np.exp(normal(c))
    w[name + ".num_batches_tracked"] = np.array(7, "i8")


def resnet18_weights(c=4, classes=5):
    w = {"conv1.weight": normal(c, 3, 7, 7, scale=0.1)}
    norm_names(w, "bn1", c)
    n = c
    for i in range(4):
        for k in range(2):
            at, out = f"layer{i + 1}.{k}", c << i
            w[at + ".conv1.weight"] = normal(out, n, 3, 3, scale=0.2)
            norm_names(w, at + ".bn1", out)
            w[at + ".conv2.weight"] = normal(out, out, 3, 3, scale=0.2)
            norm_names(w, at + ".bn2", out)
            if n != out:
                w[at + ".downsample.0.weight"] = normal(out, n, 1, 1)
                norm_names(w, at + ".downsample.1", out)
            n = out
    w["fc.weight"], w["fc.bias"] = normal(classes, n), normal(classes)
    return w


def gpt2_weights(n=8, words=13, places=10):
    w = {"wte.weight": normal(words, n), "wpe.weight": normal(places, n)}
    for i in range(2):
        at = f"h.{i}."
        w[at + "attn.bias"] = np.tril(np.ones((1, 1, places, places), "?"))
        for name, k, m in [("attn.c_attn", n, 3 * n), ("attn.c_proj", n, n), ("mlp.c_fc", n, 4 * n), ("mlp.c_proj", 4 * n, n)]:
            w[at + name + ".weight"], w[at + name + ".bias"] = normal(k, m), normal(m)
        for name in ["ln_1", "ln_2"]:
            w[at + name + ".weight"], w[at + name + ".bias"] = 1 + normal(n), normal(n)
    w["ln_f.weight"], w["ln_f.bias"] = 1 + normal(n), normal(n)
    return w


def recurrent_weights(gates, k=3, m=4):
    w = {}
    for layer in range(2):
        for end in ["", "_reverse"]:
            n = 2 * m if layer else k
            for name, shape in [("weight_ih", (gates * m, n)), ("weight_hh", (gates * m, m)), ("bias_ih", (gates * m,)), ("bias_hh", (gates * m,))]:
                w[f"rnn.{name}_l{layer}{end}"] = normal(*shape)
    return w


def mixed_weights(c=3, n=6):
    return {"conv.weight": normal(n, c, 3, 3), "conv.bias": normal(n),
            "attn.in_proj_weight": normal(3 * n, n), "attn.in_proj_bias": normal(3 * n),
            "attn.out_proj.weight": normal(n, n), "attn.out_proj.bias": normal(n)}


# ---- the models in NumPy, in f64 ---------------------------------------------------------------------

def windows(x, k, stride, pad, value=0.0):
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::stride, ::stride]


def conv(x, w, stride, pad):
    return np.einsum("ncijkl,ockl->noij", windows(x, w.shape[2], stride, pad), w)


def batch_norm(w, name, x):
    def of(part):
        return w[name + "." + part][:, None, None]
    return (x - of("running_mean")) / np.sqrt(of("running_var") + 1e-5) * of("weight") + of("bias")


def resnet18_numpy(w, x):
    relu = lambda v: np.maximum(v, 0)
    y = relu(batch_norm(w, "bn1", conv(x, w["conv1.weight"], 2, 3)))
    y = windows(y, 3, 2, 1, -np.inf).max((-1, -2))
    for i in range(4):
        for k in range(2):
            at = f"layer{i + 1}.{k}."
            stride = 2 if i and not k else 1
            z = relu(batch_norm(w, at + "bn1", conv(y, w[at + "conv1.weight"], stride, 1)))
            z = batch_norm(w, at + "bn2", conv(z, w[at + "conv2.weight"], 1, 1))
            if at + "downsample.0.weight" in w:
                y = batch_norm(w, at + "downsample.1", conv(y, w[at + "downsample.0.weight"], stride, 0))
            y = relu(y + z)
    return y.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    return x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2)


def attend(q, k, v, mask):
    q, k, v = heads(q, 2), heads(k, 2), heads(v, 2)
    y = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + mask) @ v
    return y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)


def gpt2_numpy(w, x):
    def linear(name, v):
        return v @ w[name + ".weight"] + w[name + ".bias"]

    def norm(name, v):
        v = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
        return v * w[name + ".weight"] + w[name + ".bias"]

    def gelu(v):
        return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)))

    t = x.shape[1]
    mask = np.triu(np.full((t, t), -np.inf), 1)
    y = w["wte.weight"][x] + w["wpe.weight"][:t]
    for i in range(2):
        at = f"h.{i}."
        q, k, v = np.split(linear(at + "attn.c_attn", norm(at + "ln_1", y)), 3, -1)
        y = y + linear(at + "attn.c_proj", attend(q, k, v, mask))
        y = y + linear(at + "mlp.c_proj", gelu(linear(at + "mlp.c_fc", norm(at + "ln_2", y))))
    return norm("ln_f", y) @ w["wte.weight"].T


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(a, b, h, c):
    i, f, g, o = np.split(a + b, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(a, b, h, c):
    (ar, az, an), (br, bz, bn) = np.split(a, 3, -1), np.split(b, 3, -1)
    z, n = sigmoid(az + bz), np.tanh(an + sigmoid(ar + br) * bn)
    return (1 - z) * n + z * h, c


def recurrent_numpy(step):
    def run(w, x):
        for layer in range(2):
            out = []
            for end in ["", "_reverse"]:
                of = lambda name: w[f"rnn.{name}_l{layer}{end}"]
                h = c = np.zeros((x.shape[1], of("weight_hh").shape[1]))
                ys = []
                for v in x[::-1] if end else x:
                    h, c = step(v @ of("weight_ih").T + of("bias_ih"), h @ of("weight_hh").T + of("bias_hh"), h, c)
                    ys.append(h)
                out.append(np.stack(ys[::-1] if end else ys))
            x = np.concatenate(out, -1)
        return x
    return run


def mixed_numpy(w, x):
    y = np.maximum(conv(x, w["conv.weight"], 2, 1) + w["conv.bias"][:, None, None], 0)
    y = y.reshape(*y.shape[:2], -1).swapaxes(1, 2)
    q, k, v = np.split(y @ w["attn.in_proj_weight"].T + w["attn.in_proj_bias"], 3, -1)
    return attend(q, k, v, 0) @ w["attn.out_proj.weight"].T + w["attn.out_proj.bias"]


MODELS = {
    "resnet18": (resnet18_weights, resnet18_numpy, lambda: normal(2, 3, 32, 32)),
    "gpt2": (gpt2_weights, gpt2_numpy, lambda: rng.integers(0, 13, (2, 7))),
    "lstm": (lambda: recurrent_weights(4), recurrent_numpy(lstm_step), lambda: normal(5, 2, 3)),
    "gru": (lambda: recurrent_weights(3), recurrent_numpy(gru_step), lambda: normal(5, 2, 3)),
    "mixed": (mixed_weights, mixed_numpy, lambda: normal(2, 3, 8, 8)),
}


def by_numpy():
    for kind, (weights, run, data) in MODELS.items():
        w, x = weights(), data()
        wide = {k: v.astype("f8") if v.dtype == "f4" else v for k, v in w.items()}
        save_safetensors(f"{folder}/{kind}.safetensors", w)
        yield kind, x, run(wide, x.astype("f8") if x.dtype == "f4" else x)


# ---- the models in PyTorch ---------------------------------------------------------------------------

def by_torch():
    import torch
    from safetensors.torch import save_file
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(SEED)
    torch.set_num_threads(1)

    class Block(nn.Module):
        def __init__(self, c, out, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(c, out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.downsample = None if c == out else nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + (self.downsample(x) if self.downsample else x))

    class ResNet18(nn.Module):
        def __init__(self, c=4):
            super().__init__()
            self.conv1 = nn.Conv2d(3, c, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(c)
            for i in range(4):
                n = c << max(i - 1, 0)
                setattr(self, f"layer{i + 1}", nn.Sequential(Block(n, c << i, 2 if i else 1), Block(c << i, c << i, 1)))
            self.fc = nn.Linear(c << 3, 5)

        def forward(self, x):
            y = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            for i in range(4):
                y = getattr(self, f"layer{i + 1}")(y)
            return self.fc(y.mean((2, 3)))

    class Conv1D(nn.Module):
        def __init__(self, k, n):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(k, n) * 0.4), nn.Parameter(torch.randn(n))

        def forward(self, x):
            return x @ self.weight + self.bias

    class Attention(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(n, 3 * n), Conv1D(n, n)
            self.register_buffer("bias", torch.tril(torch.ones(1, 1, 10, 10, dtype=torch.bool)))

        def forward(self, x):
            q, k, v = (a.view(*x.shape[:2], 2, -1).transpose(1, 2) for a in self.c_attn(x).split(x.shape[-1], -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(x.shape))

    class Layer(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(n), Attention(n), nn.LayerNorm(n)
            self.mlp = nn.ModuleDict({"c_fc": Conv1D(n, 4 * n), "c_proj": Conv1D(4 * n, n)})

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self, n=8):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(13, n), nn.Embedding(10, n)
            self.h, self.ln_f = nn.ModuleList([Layer(n), Layer(n)]), nn.LayerNorm(n)

        def forward(self, x):
            y = self.wte(x) + self.wpe.weight[: x.shape[1]]
            for layer in self.h:
                y = layer(y)
            return self.ln_f(y) @ self.wte.weight.T

    class Recurrent(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.rnn = kind(3, 4, num_layers=2, bidirectional=True)

        def forward(self, x):
            return self.rnn(x)[0]

    class Mixed(nn.Module):
        def __init__(self, n=6):
            super().__init__()
            self.conv = nn.Conv2d(3, n, 3, 2, 1)
            self.attn = nn.MultiheadAttention(n, 2, batch_first=True)

        def forward(self, x):
            y = F.relu(self.conv(x)).flatten(2).transpose(1, 2)
            return self.attn(y, y, y, need_weights=False)[0]

    makers = {"resnet18": ResNet18, "gpt2": GPT2, "lstm": lambda: Recurrent(nn.LSTM), "gru": lambda: Recurrent(nn.GRU), "mixed": Mixed}
    for kind, make in makers.items():
        model, x = make(), MODELS[kind][2]()
        with torch.no_grad():
            for name, t in model.state_dict().items(): # no zeros and ones
                if t.dtype == torch.float32:
                    t.add_((torch.rand(t.shape) - 0.5) * 0.2)
            save_file(model.state_dict(), f"{folder}/{kind}.safetensors")
            yield kind, x, model.eval()(torch.from_numpy(x)).numpy()


for kind, x, want in {"numpy": by_numpy, "torch": by_torch}[oracle]():
    np.savez(f"{folder}/{kind}.in.npz", x=x)
    run = subprocess.run([program, kind, f"{folder}/{kind}.safetensors", f"{folder}/{kind}.in.npz", f"{folder}/{kind}.out.npz"])
    if run.returncode:
        sys.exit(f"{kind}: exit status {run.returncode}")
    got = np.load(f"{folder}/{kind}.out.npz")["y"]
    if got.shape != want.shape:
        sys.exit(f"{kind}: shape {got.shape}, not {want.shape}")
    off, most = np.abs(got - want), np.abs(want).max()
    if not off.max() <= 1e-5 * most:
        at = np.unravel_index(off.argmax(), off.shape)
        sys.exit(f"{kind}, seed {SEED}: element {at} is {got[at]}, {want[at]} by {oracle}")
    print(f"{kind}: {got.size} numbers up to {most:.3g}, off by {off.max():.2g}")
