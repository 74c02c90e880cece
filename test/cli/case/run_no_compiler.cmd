# An empty cache, or the program would be there.
export TAPIR_CACHE=$PWD/empty TAPIR_CC=$PWD/no-compiler
tapir run linear.onnx --input x=x.npy 2>&1 | sed "s|$PWD|.|"
tapir run linear.onnx --input x=x.npy --engine c 2>/dev/null
