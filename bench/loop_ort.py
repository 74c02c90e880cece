"""The Loop of figures_models.c in ONNX Runtime, one thread: a row as peer_rows.h has them.

    loop_ort.py MODEL        by a Python that has the package onnxruntime"""
import json
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feeds = {"x": np.full(16, 0.25, np.float32), "turns": np.array(10000, np.int64)}
ms = []
for _ in range(30):
    start = time.perf_counter()
    session.run(None, feeds)
    ms.append(1e3 * (time.perf_counter() - start))
print(json.dumps({"workload": "infer/loop/b1", "system": "ort-" + ort.__version__,
                  "metric": "latency", "value": statistics.median(ms), "unit": "ms"}))
