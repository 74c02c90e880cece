tapir show linear.onnx --fast --kernels | grep -c 'numerics: fast'
tapir show linear.onnx --kernels | grep -c 'numerics: fast'
tapir show linear.onnx --source --fast | grep -o 'fast numerics'
tapir compile linear.onnx -o quick.c --fast && grep -o 'fast numerics' quick.c
tapir run linear.onnx --input x=x.npy >strict; tapir run linear.onnx --input x=x.npy --fast | cmp - strict; echo "exit $?"
tapir bench linear.onnx --runs 3 --dim batch=4 --fast --engine tiles --json | grep -o '"engine": .*'
tapir profile linear.onnx --runs 3 --dim batch=4 --fast --engine tiles | grep -c '^k0 '
