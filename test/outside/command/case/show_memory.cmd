tapir show linear.onnx --memory
tapir show linear.onnx --memory --dim batch=100 | tail -6
tapir show blocks.tapir --memory
tapir show linear.onnx --memory --kernels --dim batch=4 | tail -18
tapir show linear.onnx --memory --format json; echo "exit $?"
tapir show garbage.onnx --memory; echo "exit $?"
tapir show linear.onnx --source --format dot; echo "exit $?"
tapir show linear.onnx --source | grep -c '^int64_t tapir_run('
