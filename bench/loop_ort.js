// The Loop of figures_models.c in ONNX Runtime, one thread: a row as peer_rows.h has them.
//
//     node loop_ort.js RUNTIME MODEL     RUNTIME: folder of the package onnxruntime-node
'use strict';
const [runtime, model] = process.argv.slice(2);
const ort = require(runtime);

async function main() {
  const options = {intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential'};
  const session = await ort.InferenceSession.create(model, options);
  const feeds = {
    x: new ort.Tensor('float32', new Float32Array(16).fill(0.25), [16]),
    turns: new ort.Tensor('int64', BigInt64Array.of(10000n), []),
  };
  const ms = [];
  for (let i = 0; i < 30; i++) {
    const start = process.hrtime.bigint();
    await session.run(feeds);
    ms.push(Number(process.hrtime.bigint() - start) / 1e6);
  }
  ms.sort((a, b) => a - b);
  const version = require(runtime + '/package.json').version;
  console.log(JSON.stringify({
    workload: 'infer/loop/b1', system: 'ort-' + version, metric: 'latency',
    value: ms[ms.length / 2], unit: 'ms',
  }));
}

main();
