# sizes that only the inputs settle: the model is read again with theirs
tapir run stretch.onnx --input x=x.npy --input z=x.npy --engine reference
tapir run stretch.onnx --input x=x.npy --input z=z.npy --engine reference
tapir run stretch.onnx --input x=x.npy --input z=x_wide.npy --engine reference; echo "exit $?"
tapir bench stretch.onnx --input x=x.npy --input z=z.npy --engine reference --runs 1 | grep engine
tapir profile stretch.onnx --input x=x.npy --input z=z.npy --engine tiles --runs 1 | tail -n 1
