// Runs models in ONNX Runtime and compares: every folder DIR/*/model.onnx with the tensors in
// test_data_set_*/input_k.pb and output_k.pb.
//
//     node runtime.js RUNTIME LOOSE DIR [NAME]
//
// RUNTIME is the folder of the package onnxruntime-node. Numbers agree when they differ by at most
// atol + rtol |x|, 1e-6 and 1e-5 unless LOOSE gives this model others, with the reason; integers
// and bools are equal. Last line: passed, failed. A line of LOOSE that no model needs is a failure.
// Exit code 77: there are no models.
'use strict';
const fs = require('fs');
const path = require('path');
const [runtime, looseFile, dir, only] = process.argv.slice(2);
const ort = require(runtime);

// ---- tensors in files ----------------------------------------------------------------------

const types = {
  1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array],
  4: ['uint16', Uint16Array], 5: ['int16', Int16Array], 6: ['int32', Int32Array],
  7: ['int64', BigInt64Array], 9: ['bool', Uint8Array], 11: ['float64', Float64Array],
  12: ['uint32', Uint32Array], 13: ['uint64', BigUint64Array],
};

function readTensor(file) {
  const b = fs.readFileSync(file);
  let at = 0, type = 0, raw = Buffer.alloc(0);
  const dims = [];
  const varint = () => {
    let v = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = b[at++];
      v |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(v);
    }
  };
  while (at < b.length) {
    const key = varint();
    if ((key & 7) === 0) {
      const v = varint();
      if (key >> 3 === 1) dims.push(v);
      if (key >> 3 === 2) type = v;
    } else {
      const size = varint();
      if (key >> 3 === 9) raw = b.subarray(at, at + size);
      at += size;
    }
  }
  const [name, Elements] = types[type];
  const copy = new Uint8Array(raw); // aligned
  return new ort.Tensor(name, new Elements(copy.buffer), dims);
}

function readAll(folder, kind) {
  const list = [];
  for (let k = 0; fs.existsSync(path.join(folder, `${kind}_${k}.pb`)); k++)
    list.push(readTensor(path.join(folder, `${kind}_${k}.pb`)));
  return list;
}

// ---- comparing -----------------------------------------------------------------------------

function difference(got, want, rtol, atol) {
  if (got.type !== want.type) return `is ${got.type}, not ${want.type}`;
  if (got.dims.join() !== want.dims.join()) return `is [${got.dims}], not [${want.dims}]`;
  const exact = !want.type.startsWith('float');
  let bad = 0, first = -1, worst = 0;
  for (let i = 0; i < want.data.length; i++) {
    const a = got.data[i], b = want.data[i];
    if (a === b || (a !== a && b !== b)) continue;
    const off = exact ? Infinity : Math.abs(a - b) / (atol + rtol * Math.abs(b));
    if (off <= 1) continue;
    if (first < 0) first = i;
    bad++;
    worst = off !== off ? Infinity : Math.max(worst, off);
  }
  if (!bad) return null;
  return `${want.type}[${want.dims}]: ${bad} of ${want.data.length} differ, first at ${first}: ` +
    `${got.data[first]}, not ${want.data[first]} (${worst.toPrecision(3)} times too far)`;
}

async function check(folder, rtol, atol) {
  const session = await ort.InferenceSession.create(path.join(folder, 'model.onnx'),
    {logSeverityLevel: 3, intraOpNumThreads: 1, interOpNumThreads: 1});
  for (const set of fs.readdirSync(folder).filter((f) => f.startsWith('test_data_set_'))) {
    const inputs = readAll(path.join(folder, set), 'input');
    const outputs = readAll(path.join(folder, set), 'output');
    if (inputs.length !== session.inputNames.length)
      return `has ${session.inputNames.length} inputs, not ${inputs.length}`;
    if (outputs.length === 0 || outputs.length !== session.outputNames.length)
      return `has ${session.outputNames.length} outputs, not ${outputs.length}`;
    const feeds = {};
    session.inputNames.forEach((name, k) => { feeds[name] = inputs[k]; });
    const results = await session.run(feeds);
    for (let k = 0; k < outputs.length; k++) {
      const what = difference(results[session.outputNames[k]], outputs[k], rtol, atol);
      if (what) return `output ${session.outputNames[k]} ${what}`;
    }
  }
  await session.release();
  return null;
}

// ---- all -----------------------------------------------------------------------------------

// NAME RTOL ATOL REASON, or NAME any REASON of a model that is not held to anything, or NAME varies
// REASON of one that agrees in some runs
function readLoose() {
  const loose = new Map();
  for (const line of fs.readFileSync(looseFile, 'utf8').split('\n')) {
    const words = line.trim().split(/\s+/);
    if (line.startsWith('#') || words.length < 3) continue;
    const varies = words[1] === 'varies', any = varies || words[1] === 'any';
    loose.set(words[0], {any, varies, rtol: Number(words[1]), atol: Number(words[2]), seen: false});
  }
  return loose;
}

async function outcome(folder, rtol, atol) {
  try {
    return await check(folder, rtol, atol);
  } catch (e) {
    return String(e.message).split('\n')[0];
  }
}

async function main() {
  const loose = readLoose();
  let passed = 0, failed = 0, bounded = 0, free = 0;
  for (const name of fs.readdirSync(dir).sort()) {
    const folder = path.join(dir, name);
    if ((only && name !== only) || !fs.existsSync(path.join(folder, 'model.onnx'))) continue;
    let what = await outcome(folder, 1e-5, 1e-6);
    const more = loose.get(name);
    if (more) {
      more.seen = true;
      if (!what && more.varies) free++;
      else if (!what) what = `agrees: take it out of ${looseFile}`;
      else if (more.any) what = null, free++;
      else if (!(what = await outcome(folder, more.rtol, more.atol))) bounded++;
    }
    if (what) console.log(`FAILED ${name}: ${what}`);
    if (what) failed++;
    else passed++;
  }
  if (!passed && !failed) {
    console.log(`skipped: no models in ${dir}`);
    process.exitCode = 77;
    return;
  }
  for (const [name, more] of loose)
    if (!more.seen && !only) failed++, console.log(`FAILED ${name}: of ${looseFile}, has no model`);
  console.log(`${passed} passed, ${bounded} of them within a wider bound and ${free} with results ` +
    `that ONNX leaves open; ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}
main();
