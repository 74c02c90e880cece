tapir run optional.onnx; echo "exit $?"
tapir run optional.onnx --input o=x.npy --engine reference
tapir run optional.onnx --input o= --engine reference
tapir run optional.onnx --input o=x.npy --output out --format pb --engine reference
tapir run optional.onnx --input o=out/same.pb --output out --engine reference
tapir run optional.onnx --input o= --output out --format pb --engine reference
tapir run optional.onnx --input o=out/same.pb --output out --engine reference
ls out
