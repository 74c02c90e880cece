# Without libpthreadpool there is one thread, and a line on stderr.
exec 2>/dev/null
tapir bench linear.onnx --runs 3 --dim batch=4 --engine tiles --threads 2 --json | grep -c '"threads": [12],'
TAPIR_THREADS=2 tapir bench linear.onnx --runs 3 --dim batch=4 --engine tiles --json | grep -c '"threads": [12],'
tapir bench linear.onnx --runs 3 --dim batch=4 --engine tiles --json | grep -c '"threads": 1,'
tapir run linear.onnx --input x=x.npy --threads 2
tapir test cases --threads 2 --engine tiles; echo "exit $?"
tapir run linear.onnx --threads 257; echo "exit $?"
