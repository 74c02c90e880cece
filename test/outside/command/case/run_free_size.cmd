tapir run pool.onnx; echo "exit $?"
tapir show pool.onnx; echo "exit $?"
tapir run pool.onnx --dim length=5 2>&1 | head -n 1
tapir run pool.onnx --input x=row.npy --engine reference
