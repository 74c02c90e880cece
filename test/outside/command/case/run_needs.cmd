tapir run linear.onnx; echo "exit $?"
tapir run two.onnx --input i=x.npy
