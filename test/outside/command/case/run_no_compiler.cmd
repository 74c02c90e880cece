# An empty cache, or the program would be there. A run does without, what measures says so.
export TAPIR_CACHE=$PWD/empty TAPIR_CC=$PWD/no-compiler
tapir run linear.onnx --input x=x.npy
tapir bench linear.onnx --dim batch=2 --runs 1 2>&1 >/dev/null | sed "s|$PWD|.|"
tapir run linear.onnx --input x=x.npy --engine c 2>/dev/null
