#!/usr/bin/python3
"""If, Loop and Scan, nested at random, and Scan with a batch, against plain NumPy.

    forms_control.py ONNX_CASES [--engine reference|tiles|c] [--seed N] [--only NAME] [--keep FOLDER]

Graphs are drawn and written as conformance cases, each with sizes that are known and with free
ones, and the program ONNX_CASES runs them. What they have to give is found by going through the
same graphs here, node by node."""
import sys

sys.dont_write_bytecode = True  # of what is imported from here
import forms  # pylint: disable=wrong-import-position
from forms import helper, np, numpy_helper  # pylint: disable=wrong-import-position

N, STEPS = 3, 4
# kinds of values: f [N], m [STEPS, N], i and b scalars of int64 and bool
TYPES = {"f": forms.TensorProto.FLOAT, "m": forms.TensorProto.FLOAT,
         "i": forms.TensorProto.INT64, "b": forms.TensorProto.BOOL}


EMPTY = {TYPES["f"]: np.zeros((0, N), np.float32), TYPES["i"]: np.zeros(0, np.int64),
         TYPES["b"]: np.zeros(0, np.bool_)} # stacked in no turn


# ---- what graphs mean ----------------------------------------------------------------------------

def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def run_loop(node, attrs, env):
    get = [env[n] if n else None for n in node.input]
    body, most = attrs["body"], 10**9 if get[0] is None else int(get[0])
    go_on, state = get[1] is None or bool(get[1]), get[2:]
    stacks = [[] for _ in body.output[1 + len(state):]]
    turn = 0
    while go_on and turn < most:
        given = [np.int64(turn), np.bool_(True)] + state
        out = run(body, given, env)
        go_on, state = bool(out[0]), out[1:1 + len(state)]
        for s, v in zip(stacks, out[1 + len(state):]):
            s.append(v)
        turn += 1
    empty = [EMPTY[o.type.tensor_type.elem_type] for o in body.output[1 + len(state):]]
    return state + [np.stack(s) if s else e for s, e in zip(stacks, empty)]


def run_scan(node, attrs, env):
    body, n_xs = attrs["body"], attrs["num_scan_inputs"]
    get = [env[n] for n in node.input]
    state, xs = get[:-n_xs], get[-n_xs:]
    n_ys = len(body.output) - len(state)
    axes, ways = (attrs.get("scan_input_" + k, [0] * n_xs) for k in ("axes", "directions"))
    out_axes, out_ways = (attrs.get("scan_output_" + k, [0] * n_ys)
                          for k in ("axes", "directions"))
    xs = [np.moveaxis(x, a, 0)[::-1 if w else 1] for x, a, w in zip(xs, axes, ways)]
    stacks = [[] for _ in range(n_ys)]
    for t in range(len(xs[0])):
        out = run(body, state + [x[t] for x in xs], env)
        state = out[:len(state)]
        for s, v in zip(stacks, out[len(state):]):
            s.append(v)
    ys = [np.stack(s[::-1] if w else s) for s, w in zip(stacks, out_ways)]
    return state + [np.moveaxis(y, 0, a) for y, a in zip(ys, out_axes)]


PLAIN = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Tanh": np.tanh, "Neg": lambda a: -a, "Identity": lambda a: a,
    "Less": lambda a, b: np.less(a, b), "And": np.logical_and, "Not": np.logical_not,
    "Gather": lambda a, i: a[int(i)],
}


def run_node(node, env):
    attrs = attributes(node)
    if node.op_type == "Constant":
        return [numpy_helper.to_array(attrs["value"])[()]]
    if node.op_type == "If":
        side = "then_branch" if env[node.input[0]] else "else_branch"
        return run(attrs[side], [], env)
    if node.op_type == "Loop":
        return run_loop(node, attrs, env)
    if node.op_type == "Scan":
        return run_scan(node, attrs, env)
    get = [env[n] for n in node.input]
    if node.op_type == "ReduceSum":
        return [get[0].sum(axis=0, dtype=get[0].dtype)]
    return [PLAIN[node.op_type](*get)]


def run(graph, given, outer):
    env = dict(outer)
    env.update(zip((i.name for i in graph.input), given))
    for node in graph.node:
        env.update(zip(node.output, run_node(node, env)))
    return [env[o.name] for o in graph.output]


# ---- drawing them --------------------------------------------------------------------------------

class Graph:
    """Nodes that are being drawn, and the values they may read, by kind."""

    def __init__(self, rng, names, outer=None, depth=0):
        self.rng, self.names, self.depth = rng, names, depth
        self.nodes, self.stacks = [], []
        self.known = {k: list(v) for k, v in outer.known.items()} if outer else \
            {k: [] for k in TYPES}

    def name(self, stem="v"):
        self.names.append(stem)
        return "%s%d" % (stem, len(self.names))

    def put(self, op, inputs, kind, stem="v", **attrs):
        out = self.name(stem)
        self.nodes.append(helper.make_node(op, inputs, [out], **attrs))
        if kind:
            self.known[kind].append(out)
        return out

    def constant(self, v, kind):
        return self.put("Constant", [], kind, "c", value=numpy_helper.from_array(np.asarray(v)))

    def any(self, kind):
        if not self.known[kind]:
            if kind == "b":
                self.constant(bool(self.rng.integers(2)), "b")
            else:
                self.constant(np.int64(self.rng.integers(STEPS)), "i")
        known = self.known[kind]
        return known[-1 - min(int(self.rng.exponential(3)), len(known) - 1)]

    def simple(self):
        pick = int(self.rng.integers(8))
        if pick < 3:
            op = str(self.rng.choice(["Add", "Sub", "Mul"]))
            both = self.put(op, [self.any("f"), self.any("f")], None)
            self.put("Tanh", [both], "f")
        elif pick == 3:
            self.put("Gather", [self.any("m"), self.constant(np.int64(self.rng.integers(STEPS)),
                                                             "i")], "f")
        elif pick == 4:
            total = self.put("ReduceSum", [self.any("f")], None, keepdims=0)
            limit = self.constant(np.float32(self.rng.uniform(-1, 1)), None)
            self.put("Less", [total, limit], "b")
        elif pick == 5:
            op = str(self.rng.choice(["Add", "Sub"]))
            self.put(op, [self.any("i"), self.any("i")], "i")
        elif pick == 6:
            self.put("Less", [self.any("i"), self.any("i")], "b")
        else:
            self.put("Not", [self.any("b")], "b")

    def inner(self):
        return Graph(self.rng, self.names, self, self.depth + 1)

    def body(self, inputs, outputs):
        """A graph proto; outputs: names, some of which may be inputs or of outside."""
        ports = [helper.make_tensor_value_info(n, TYPES[k], None) for n, k in inputs]
        ends, seen = [], set(n for n, _ in inputs)
        made = set(o for n in self.nodes for o in n.output)
        for n, k in outputs:
            if n in seen or n not in made:
                n = self.put("Identity", [n], None)
            seen.add(n)
            ends.append(helper.make_tensor_value_info(n, TYPES[k], None))
        return helper.make_graph(self.nodes, "body", ports, ends)

    def fill(self, n):
        for _ in range(n):
            if self.depth < 3 and self.rng.integers(6) == 0:
                (self.branch, self.loop, self.scan)[int(self.rng.integers(3))]()
            else:
                self.simple()

    def kinds(self, n):
        return [str(self.rng.choice(["f", "f", "i", "b"])) for _ in range(n)]

    def results(self, op, inputs, kinds, **attrs):
        outs = [self.name() for _ in kinds]
        self.nodes.append(helper.make_node(op, inputs, outs, **attrs))
        for o, k in zip(outs, kinds):
            if k in TYPES:
                self.known[k].append(o)
            elif k == "sf":
                self.stacks.append(o)
                self.put("ReduceSum", [o, self.axis()], "f", keepdims=0)
            else:
                self.stacks.append(o)

    def axis(self):
        return self.constant(np.array([0], np.int64), None)

    def branch(self):
        kinds, sides = self.kinds(int(self.rng.integers(1, 4))), []
        condition = self.any("b")
        for _ in range(2):
            g = self.inner()
            g.fill(int(self.rng.integers(1, 5)))
            sides.append(g.body([], [(g.any(k), k) for k in kinds]))
        self.results("If", [condition], kinds, then_branch=sides[0], else_branch=sides[1])

    def going_on(self, g, turn, condition, counted):
        """The condition after a turn: one that ends."""
        pick = int(self.rng.integers(4 if counted else 2))
        if pick >= 2:
            return condition if pick == 2 else g.constant(True, None)
        end = g.put("Less", [turn, g.constant(np.int64(self.rng.integers(4)), None)], None)
        return end if pick == 0 else g.put("And", [end, g.any("b")], None)

    def loop(self):
        carried, stacked = self.kinds(int(self.rng.integers(0, 4))), ["f"]
        stacked += self.kinds(int(self.rng.integers(0, 2)))
        count = ("", self.any("i"), self.constant(np.int64(self.rng.integers(4)), None))[
            int(self.rng.integers(3))]
        first = ("", self.any("b"), self.constant(True, None))[int(self.rng.integers(3))]
        initial = [self.any(k) for k in carried]
        g = self.inner()
        inputs = [(g.name("turn"), "i"), (g.name("cond"), "b")] + [(g.name("s"), k)
                                                                  for k in carried]
        for n, k in inputs:
            g.known[k].append(n)
        g.fill(int(self.rng.integers(1, 6)))
        more = self.going_on(g, inputs[0][0], inputs[1][0], count != "")
        ends = [(n if self.rng.integers(5) == 0 else g.any(k), k) for n, k in inputs[2:]]
        outputs = [(more, "b")] + ends + [(g.any(k), k) for k in stacked]
        self.results("Loop", [count, first] + initial, carried + ["s" + k for k in stacked],
                     body=g.body(inputs, outputs))

    def scan(self):
        states, n_xs, n_ys = (int(self.rng.integers(*r)) for r in ((0, 3), (1, 3), (1, 3)))
        initial = [self.any("f") for _ in range(states)]
        axes = [0] * n_xs
        ways, out_ways = ([int(self.rng.integers(2)) for _ in range(n)] for n in (n_xs, n_ys))
        out_axes = [int(self.rng.integers(-2, 2)) for _ in range(n_ys)]
        g = self.inner()
        inputs = [(g.name("s"), "f") for _ in range(states + n_xs)]
        for n, k in inputs:
            g.known[k].append(n)
        g.fill(int(self.rng.integers(1, 6)))
        outputs = [(g.any("f"), "f") for _ in range(states + n_ys)]
        xs = [self.any("m") for _ in range(n_xs)]
        attrs = {} if self.rng.integers(2) else {"scan_input_axes": axes}
        kinds = ["f"] * states + ["m" if a in (0, -2) else "t" for a in out_axes]
        self.results("Scan", initial + xs, kinds, body=g.body(inputs, outputs),
                     num_scan_inputs=n_xs, scan_input_directions=ways,
                     scan_output_axes=out_axes, scan_output_directions=out_ways, **attrs)


def draw(writer, rng):
    writer.count += 1
    name = "control_%03d" % writer.count
    if writer.only and writer.only not in name:
        return
    g = Graph(rng, [])
    feeds = {"x": forms.f32(rng, N), "y": forms.f32(rng, N), "m": forms.f32(rng, STEPS, N),
             "k": np.int64(rng.integers(5)), "p": np.bool_(rng.integers(2))}
    for n, k in (("x", "f"), ("y", "f"), ("m", "m"), ("k", "i"), ("p", "b")):
        g.known[k].append(n)
    (g.branch, g.loop, g.scan)[writer.count % 3]()
    g.fill(8)
    made = set(o for node in g.nodes for o in node.output)
    outs = [g.known[k][-1] for k in "fib"] + [g.known["f"][-2]] + g.stacks
    outs = [o for o in dict.fromkeys(outs) if o in made]
    whole = helper.make_graph(g.nodes, "all", [],
                              [helper.make_tensor_value_info(o, 1, None) for o in outs])
    results = [(o, np.asarray(v)) for o, v in zip(outs, run(whole, [], feeds))]
    for free in ("", "_free"):
        sizes = {"x": ["n"], "y": ["n"], "m": ["steps", "n"]} if free else {}
        writer.model(name + free, 17, g.nodes,
                     [(n, sizes.get(n, v.shape), v) for n, v in feeds.items()], [], results)


# ---- Scan with a batch ---------------------------------------------------------------------------

def scan_8(writer, rng):
    """Up to operator set 8: sequences of their own lengths, each input either way."""
    writer.count += 1
    name = "batch_%03d" % writer.count
    if writer.only and writer.only not in name:
        return
    batch = int(rng.integers(1, 4))
    ways = [int(rng.integers(2)) for _ in range(2)]
    state, a, b = forms.f32(rng, batch, N), forms.f32(rng, batch, STEPS, N), \
        forms.f32(rng, batch, STEPS)
    lens = rng.integers(1, STEPS + 1, batch) if rng.integers(3) else None
    node = helper.make_node
    ports = [helper.make_tensor_value_info(n, TYPES["f"], s) for n, s in
             (("s", [N]), ("a", [N]), ("b", []), ("s1", [N]), ("y", [N]), ("z", []))]
    body = helper.make_graph(
        [node("Mul", ["a", "b"], ["p"]), node("Add", ["s", "p"], ["q"]),
         node("Tanh", ["q"], ["s1"]), node("Sub", ["s1", "a"], ["y"]),
         node("Neg", ["b"], ["z"])], "body", ports[:3], ports[3:])
    ends, ys, zs = [], np.zeros((batch, STEPS, N), np.float32), np.zeros((batch, STEPS), np.float32)
    for i in range(batch):
        s, n = state[i], STEPS if lens is None else int(lens[i])
        xs = [v[i, :n][::-1 if w else 1] for v, w in zip((a, b), ways)]
        for t in range(n):
            s, ys[i, t], zs[i, t] = run(body, [s, xs[0][t], xs[1][t]], {})
        ends.append(s)
    feeds = {"lens": lens, "state": state, "a": a, "b": b}
    scan = node("Scan", ["" if lens is None else "lens", "state", "a", "b"], ["end", "ys", "zs"],
                body=body, num_scan_inputs=2, directions=ways)
    for free in ("", "_free"):
        sizes = {"lens": ["n"], "state": ["n", N], "a": ["n", "t", N], "b": ["n", "t"]}
        writer.model(name + free, 8, [scan],
                     [(k, sizes[k] if free else v.shape, v) for k, v in feeds.items()
                      if v is not None], [],
                     [("end", np.stack(ends)), ("ys", ys), ("zs", zs)])


if __name__ == "__main__":
    forms.TYPES[np.dtype(np.bool_)] = forms.TensorProto.BOOL
    forms.FORMS = [(draw, 150), (scan_8, 20)]
    sys.exit(forms.main())
