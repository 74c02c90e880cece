name=$(printf 'in "put"=1\n*/\033[31m')
tapir run names.onnx; echo "exit $?"
tapir run names.onnx --input "$name=pair.npy" --engine c; echo "exit $?"
tapir run names.onnx --input "$name=pair.npy" --output out --engine reference
ls out
