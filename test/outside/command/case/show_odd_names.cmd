tapir show names.onnx
tapir show names.onnx --format json
tapir show names.onnx --format html | grep -c '<b>'
tapir show missing.onnx
