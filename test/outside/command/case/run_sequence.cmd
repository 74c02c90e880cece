tapir run sequence.onnx; echo "exit $?"
tapir run sequence.onnx --input xs=xs --engine reference
tapir run sequence.onnx --input xs=xs --output out --engine reference
tapir run sequence.onnx --input xs=out/ys --engine reference
tapir run sequence.onnx --input xs=xs --output out --format pb --engine reference
tapir run sequence.onnx --input xs=out/ys.pb --output out --engine reference
tapir run sequence.onnx --input xs=xs --output out --engine reference # one less, over what is there
ls out out/ys
tapir run sequence.onnx --input xs=x.npy; echo "exit $?"
tapir run sequence.onnx --input xs=gap; echo "exit $?"
tapir run sequence.onnx --input xs=nothing; echo "exit $?"
tapir run sequence.onnx --input xs=garbage.pb; echo "exit $?"
tapir run sequence.onnx --input xs=cases; echo "exit $?"
tapir bench sequence.onnx; echo "exit $?"
tapir show sequence.onnx; echo "exit $?"
tapir show sequence.onnx --input xs=xs | head -n 4
