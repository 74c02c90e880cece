tapir show linear.onnx
tapir show linear.onnx --after all --dim batch=4 --kernels
