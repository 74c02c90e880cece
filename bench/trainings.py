#!/usr/bin/python3
"""Five trainings beside PyTorch's: an MLP, residual blocks with batch norm, a tagger by an LSTM in both directions, a
GPT, an autoencoder.

    trainings.py TRAININGS SHARED [NET...]

TRAININGS is the program of trainings.c, SHARED the folder of the data sets. Both train from the weights that the
program drew and wrote, over the same batches. Printed are the largest relative difference of the first 20 losses (goal
1e-4), the difference of the mean of losses 451 to 500 (goal 2 %), how far the loss falls in 20 steps (by a third at
least, else these say nothing), and whether two runs of the program write the same file. Exit code 77: PyTorch or the data
are missing."""

import gzip
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file
    from torch import nn
    from torch.nn import functional as F
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

STEPS = 500

# ---- batches --------------------------------------------------------------------------------------------


def images(shared, batch, small=False):
    """Small ones are means of four pixels, with noise. A residual network with batch norms is sensitive at first: an input of
    a relu that rounding puts on the other side of 0 shows in the fourth digit some steps later. All of a black background
    may be one such input."""
    def read(name, head):
        with gzip.open(os.path.join(shared, "data", "mnist", name)) as f:
            return np.frombuffer(f.read(), np.uint8, offset=head)
    x = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:STEPS * batch] / 255
    y = read("train-labels-idx1-ubyte.gz", 8)[:STEPS * batch]
    if small:
        x = x.reshape(-1, 1, 14, 2, 14, 2).mean((3, 5))
        x += 0.1 * np.random.default_rng(1).standard_normal(x.shape)
    return {"x": x.astype(np.float32).reshape(STEPS, batch, *x.shape[1:]),
            "y": y.astype(np.int64).reshape(STEPS, batch)}


def sentences(shared, batch, longest=30):
    """Words and tags by number; words seldom met are number 1, what is behind a sentence's end is word 0, tag -1."""
    words, tags, lines, line = {}, {}, [], []
    with open(os.path.join(shared, "data", "pos-ud-atis", "en_atis-ud-train.conllu"), encoding="utf-8") as f:
        for row in f:
            part = row.split("\t")
            if len(part) > 3:
                line.append((words.setdefault(part[1], len(words) + 2), tags.setdefault(part[3], len(tags))))
            elif line:
                lines.append(line[:longest])
                line = []
    x = np.zeros((STEPS, batch, longest), np.int64)
    y = np.full((STEPS, batch, longest), -1, np.int64)
    lengths = np.zeros((STEPS, batch), np.int64)
    for k in range(STEPS * batch):
        line = lines[k % len(lines)]
        i, j = divmod(k, batch)
        lengths[i, j] = len(line)
        x[i, j, :len(line)] = [w if w < 1000 else 1 for w, _ in line]
        y[i, j, :len(line)] = [t for _, t in line]
    return {"x": x, "y": y, "lengths": lengths}


def letters(shared, batch, length=64):
    with open(os.path.join(shared, "data", "shakespeare", "input.txt"), encoding="ascii") as f:
        text = f.read()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    text = np.array([number[c] for c in text], np.int64)
    at = np.random.default_rng(1).integers(0, len(text) - length - 1, (STEPS, batch, 1)) + np.arange(length)
    return {"x": text[at], "y": text[at + 1]}


# ---- networks -------------------------------------------------------------------------------------------
# w: the weights by name, as parameters; the layouts of dense layers are [inputs, outputs].


def dense(w, name, x):
    return F.linear(x, w[name + ".w"].T, w[name + ".b"])


def mlp(w, x, y):
    h = x.flatten(1)
    for i in range(2):
        h = F.relu(dense(w, f"dense.{i}", h))
    return F.cross_entropy(dense(w, "dense.2", h), y)


def normed(w, conv, norm, x, step):
    k = w[conv + ".w"]
    x = F.conv2d(x, k, stride=step, padding=k.shape[-1] // 2)
    return F.batch_norm(x, None, None, w[norm + ".scale"], w[norm + ".shift"], True)


def resnet(w, x, y):
    h = F.relu(normed(w, "first", "norm", x, 1))
    for i in range(2):
        b = f"block.{i}."
        z = F.relu(normed(w, b + "conv0", b + "norm0", h, 2))
        z = normed(w, b + "conv1", b + "norm1", z, 1)
        h = F.relu(z + normed(w, b + "around", b + "norm2", h, 2))
    return F.cross_entropy(dense(w, "dense.0", h.mean((2, 3))), y)


def lstm_of(w):
    """What PyTorch's layer calls our weights, whose gates are input, output, forget and cell, along the last axis."""
    def turned(t):
        i, o, f, c = t.transpose(0, -1).chunk(4)
        return torch.cat([i, f, c, o])
    names = {"weight_ih_l0": "w", "weight_hh_l0": "r", "bias_ih_l0": "wb", "bias_hh_l0": "rb"}
    return {name + end: turned(w[f"lstm.0{back}.{ours}"])
            for back, end in (("", ""), (".back", "_reverse")) for name, ours in names.items()}


def tagger(w, x, y, lengths):
    layer = tagger.layer
    packed = nn.utils.rnn.pack_padded_sequence(F.embedding(x, w["token.table"], padding_idx=0), lengths,
                                               batch_first=True, enforce_sorted=False)
    out, _ = torch.func.functional_call(layer, lstm_of(w), (packed,))
    out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
    return F.cross_entropy(dense(w, "dense.0", out).flatten(0, 1), y.flatten(), ignore_index=-1)


tagger.layer = nn.LSTM(64, 64, batch_first=True, bidirectional=True)


def gpt(w, x, y):
    def norm(name, t):
        return F.layer_norm(t, t.shape[-1:], w[name + ".scale"], w[name + ".shift"])

    def heads(name, t):
        return dense(w, name, t).unflatten(2, (4, -1)).transpose(1, 2)
    h = F.embedding(x, w["token.table"]) + w["place.table"]
    for i in range(2):
        b = f"block.{i}."
        t = norm(b + "norm0", h)
        a = F.scaled_dot_product_attention(*(heads(b + "attention." + c, t) for c in "qkv"), is_causal=True)
        h = h + dense(w, b + "attention.out", a.transpose(1, 2).flatten(2))
        h = h + dense(w, b + "down", F.gelu(dense(w, b + "up", norm(b + "norm1", h))))
    return F.cross_entropy(dense(w, "dense.0", norm("norm", h)).flatten(0, 1), y.flatten())


def autoencoder(w, x, _):
    h = x = x.flatten(1)
    for i in range(3):
        h = F.relu(dense(w, f"dense.{i}", h))
    return F.binary_cross_entropy_with_logits(dense(w, "dense.3", h), x)


def adam(rate):
    return lambda w: torch.optim.Adam(w, rate)


NETS = {
    "mlp": (mlp, lambda s: images(s, 64), adam(2e-3)),
    "resnet": (resnet, lambda s: images(s, 64, True), lambda w: torch.optim.SGD(w, 0.2)),
    "tagger": (tagger, lambda s: sentences(s, 16), adam(2e-3)),
    "gpt": (gpt, lambda s: letters(s, 16), lambda w: torch.optim.AdamW(w, 3e-3, weight_decay=0.01)),
    "autoencoder": (autoencoder, lambda s: images(s, 64), adam(2e-3)),
}

# ---- trainings ------------------------------------------------------------------------------------------


def run(program, name, folder, data):
    """The losses, and the file it leaves."""
    os.makedirs(folder)
    for key, v in data.items():
        np.save(os.path.join(folder, key + ".npy"), v)
    subprocess.run([program, name, folder], check=True)
    with open(os.path.join(folder, "last.safetensors"), "rb") as f:
        return np.load(os.path.join(folder, "losses.npy")), f.read()


def theirs(net, optimizer, folder, data):
    first = load_file(os.path.join(folder, "first.safetensors"))
    w = {k: v.clone().requires_grad_() for k, v in first.items() if not k.endswith((".mean", ".var"))}
    step = optimizer(w.values())
    batches = {k: torch.from_numpy(v) for k, v in data.items()}
    losses = []
    for i in range(STEPS):
        step.zero_grad()
        loss = net(w, *(v[i] for v in batches.values()))
        loss.backward()
        step.step()
        losses.append(loss.item())
    return np.array(losses)


def compare(name, program, shared):
    net, batches, optimizer = NETS[name]
    data = batches(shared)
    with tempfile.TemporaryDirectory() as work:
        a, file = run(program, name, os.path.join(work, "a"), data)
        same = run(program, name, os.path.join(work, "b"), data)[1] == file
        b = theirs(net, optimizer, os.path.join(work, "a"), data)
    first = np.abs(a[:20] - b[:20]) / b[:20]
    last = abs(a[450:].mean() / b[450:].mean() - 1)
    falls = 1 - b[19] / b[0]
    good = first.max() <= 1e-4 and last <= 0.02 and falls >= 1 / 3 and same
    print(f"{name:12} {first.max():9.1e} {b[450:].mean():9.4f} {a[450:].mean():9.4f} {100 * last:7.2f} % "
          f"{100 * falls:7.0f} %   {'the same' if same else 'differ':9} {'met' if good else 'missed'}", flush=True)
    return good


def main():
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(NETS):
        print("usage: trainings.py TRAININGS SHARED [" + "|".join(NETS) + "...]")
        return 2
    program, shared = sys.argv[1:3]
    if not os.path.isdir(os.path.join(shared, "data")):
        print(f"skipped: no data in {shared}")
        return 77
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {STEPS} steps\n"
          "net          first 20   PyTorch     tapir  differ by  falls by   two runs  ")
    print("goal            1e-4                            2 %       33 %   the same")
    return 0 if all([compare(name, program, shared) for name in sys.argv[3:] or NETS]) else 1


sys.exit(main())
