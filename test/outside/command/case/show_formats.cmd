tapir show linear.onnx --format json
tapir show linear.onnx --format dot | head -n 4
tapir show linear.onnx --format html | grep -c '<g class="b">'
tapir show linear.onnx --format html | grep -E '^<dt>|<title>' | head -n 12
