tapir run fed_shape.onnx --input x=x.npy; echo "exit $?"
tapir run fed_shape.onnx --input x=x.npy --input shape=shape.npy --engine reference
