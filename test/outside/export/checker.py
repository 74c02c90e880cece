#!/usr/bin/python3
"""Every DIR/*/model.onnx through the checker of ONNX, shapes inferred and compared.

    checker.py DIR [NAME]

Exit code 77: the module onnx is missing, or there are no models."""

import os
import sys
import tempfile

try:
    import onnx
except ImportError:
    print("skipped: python3-onnx is missing")
    sys.exit(77)


def check(folder, only, inferred):
    passed = failed = 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "model.onnx")
        if (only and name != only) or not os.path.exists(path):
            continue
        try:
            onnx.checker.check_model(path)
            # elsewhere: full_check would write the model anew while others read it
            onnx.shape_inference.infer_shapes_path(path, inferred, check_type=True, strict_mode=True)
            model = onnx.load(path)
            opsets = [(o.domain, o.version) for o in model.opset_import]
            if opsets != [("", 17)] or model.ir_version != 8:
                raise ValueError("opset %s, IR version %d" % (opsets, model.ir_version))
            passed += 1
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            print("FAILED %s: %s" % (name, str(e).strip().split("\n")[0]))
    if not passed + failed:
        print("skipped: no models in " + folder)
        return 77
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def main(folder, only=None):
    with tempfile.TemporaryDirectory() as scratch:
        return check(folder, only, os.path.join(scratch, "inferred.onnx"))


sys.exit(main(*sys.argv[1:]))
