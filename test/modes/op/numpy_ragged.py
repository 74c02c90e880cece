"""The functions of ragged.h in NumPy: a loop over rows."""

import numpy as np

from numpy_types import T
from numpy_nn import recurrent, tp_attention


class Ragged:
    """values: a T; offsets: an array."""

    def __init__(self, values, offsets):
        self.values, self.at = values, np.asarray(offsets, np.int64)
        self.offsets = T(self.at)
        self.lengths = np.diff(self.at)

    def rows(self):
        return [self.values.v[i:j] for i, j in zip(self.at, self.at[1:])]


def cuts(x, c):
    n = x.v.shape[0]
    return Ragged(x, np.concatenate([[0], np.sort(np.minimum(c.v.astype(np.int64), n)), [n]]))


def of_lengths(x, lengths):
    return Ragged(x, np.concatenate([[0], np.cumsum(lengths.v.astype(np.int64))]))


def pair(r):
    offsets = r.at.astype(r.values.v.dtype)
    return T(np.concatenate([r.values.v.reshape(-1), offsets]), r.values.dtype)


def of_padded(x, lengths):
    rows = [x.v[i, :n] for i, n in enumerate(lengths.v)]
    return of_lengths(T(np.concatenate(rows), x.dtype), lengths)


def joined(rows, like):
    """Rows one behind the other, of what there are none perhaps."""
    return np.concatenate(list(rows) + [np.zeros((0,) + like.shape[1:], like.dtype)])


def ids(r):
    return T(np.repeat(np.arange(len(r.lengths)), r.lengths))


def positions(r):
    return T(joined([np.arange(n) for n in r.lengths], np.zeros(0, np.int64)))


def pad(r, most, fill):
    most = most or max(r.lengths, default=0)
    out = np.full((len(r.lengths), most) + r.values.v.shape[1:], fill, r.values.v.dtype)
    for i, row in enumerate(r.rows()):
        out[i, :len(row)] = row
    return T(out, r.values.dtype)


def unpad(x, r):
    return T(joined([x.v[i, :n] for i, n in enumerate(r.lengths)], x.v[:0, 0]), x.dtype)


def take(r, index):
    rows = [r.rows()[i] for i in index.v]
    return Ragged(T(joined(rows, r.values.v), r.values.dtype), np.cumsum([0] + [len(row) for row in rows]))


def bucket(r, most):
    order = np.argsort(-r.lengths, kind="stable")
    begins = []
    for k, i in enumerate(order):
        if not begins or (k - begins[-1] + 1) * r.lengths[order[begins[-1]]] > most:
            begins.append(k)
    return Ragged(T(order), begins + [len(order)])


def spread(x, r):
    return T(np.repeat(x.v, r.lengths, 0), x.dtype)


def reduced(f):
    def run(r):
        with np.errstate(all="ignore"):
            return T(np.stack([f(row) for row in r.rows()]), r.values.dtype)
    return run


def extremum(f, least):
    def of(row):
        if row.dtype.kind == "f":
            return f(row, axis=0, initial=least * np.inf)
        info = np.iinfo(row.dtype) if row.dtype.kind != "b" else None
        ends = (info.min, info.max) if info else (False, True)
        return f(row, axis=0, initial=ends[least > 0])
    return reduced(of)


def each(f):
    def run(r):
        return T(joined([f(row) if len(row) else row for row in r.rows()], r.values.v), r.values.dtype)
    return run


def logsumexp(row):
    top = np.max(row, 0, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(row - top), 0)) + top


def softmax(row):
    e = np.exp(row - np.max(row, 0))
    return e / np.sum(e, 0)


def log_softmax(row):
    below = row - np.max(row, 0)
    return below - np.log(np.sum(np.exp(below), 0))


def attention(q, k, v, most, options):
    rows = []
    for a, b, c in zip(q.rows(), k.rows(), Ragged(v, k.at).rows()):
        if len(a) and len(b):
            one = [T(np.swapaxes(x, 0, 1)[None], q.values.dtype) for x in (a, b, c)]
            rows.append(np.swapaxes(tp_attention(*one, options, None).v[0], 0, 1))
        else:
            rows.append(np.zeros((len(a), a.shape[1], c.shape[2]), a.dtype))
    return T(np.concatenate(rows), q.values.dtype)


def lstm_of_rows(r, w):
    m = w["r"].v.shape[0]
    y = [recurrent(4)(T(row[:, None], r.values.dtype), w, None, None).v[:len(row) * m] for row in r.rows() if len(row)]
    return T(np.concatenate(y).reshape(-1, m), r.values.dtype)


NAMES = {
    "cuts": cuts, "pair": pair, "lstm_of_rows": lstm_of_rows,
    "tp_ragged_new": lambda x, offsets: Ragged(x, offsets.v), "tp_ragged_of_lengths": of_lengths,
    "tp_ragged_of_padded": of_padded, "tp_ragged_lengths": lambda r: T(r.lengths), "tp_ragged_ids": ids,
    "tp_ragged_positions": positions,
    "tp_ragged_by_time": lambda r: T(np.argsort(positions(r).v, kind="stable")),
    "tp_ragged_pad": pad, "tp_ragged_unpad": unpad, "tp_ragged_take": take,
    "tp_ragged_join": lambda r, outer: Ragged(r.values, r.at[outer.v]), "tp_ragged_bucket": bucket,
    "tp_ragged_spread": spread,
    "tp_ragged_sum": reduced(lambda row: np.sum(row, 0, dtype=row.dtype)),
    "tp_ragged_mean": reduced(lambda row: np.sum(row, 0) / np.longdouble(len(row))),
    "tp_ragged_max": extremum(np.max, -1), "tp_ragged_min": extremum(np.min, 1),
    "tp_ragged_logsumexp": reduced(logsumexp), "tp_ragged_softmax": each(softmax),
    "tp_ragged_log_softmax": each(log_softmax), "tp_ragged_attention": attention,
}
