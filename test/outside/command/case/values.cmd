# Values of variables that mean nothing are told, one line each.
TAPIR_THREADS=many TAPIR_LOG=what,validate TAPIR_TRAP=zero tapir run linear.onnx --input x=x.npy 2>&1 >/dev/null
TAPIR_THREADS=0 tapir run linear.onnx --input x=x.npy 2>&1 >/dev/null
TAPIR_THREADS=1 TAPIR_LOG=threads TAPIR_TRAP=nan tapir run linear.onnx --input x=x.npy 2>&1 >/dev/null
