tapir show linear.onnx --loops --dim batch=4 | tail -24
tapir show linear.onnx --loops --format json; echo "exit $?"
