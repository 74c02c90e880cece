cat linear.onnx | tapir run /dev/stdin --input x=x.npy; echo "exit $?"
tapir run /dev/stdin --input x=x.npy --engine reference <linear.onnx
