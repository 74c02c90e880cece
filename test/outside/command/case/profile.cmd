numbers='s/[0-9][0-9.]*/N/g; s/  */ /g'
tapir profile linear.onnx --engine tiles --runs 3 --dim batch=4 | sed "$numbers"
tapir profile linear.onnx --runs 3 --input x=x.npy --trace trace.json | sed -n '$p'
grep -o '"bytes": [0-9]*, "flops": [0-9]*\|"gives": "[a-z]*"\|"runs": .*' trace.json
tapir profile linear.onnx --engine tiles --runs 3 --dim batch=4 --json --threads 2 2>/dev/null | grep -c '"ph": "X"'
tapir profile linear.onnx --engine tiles --runs 3 --dim batch=4 --sort | grep -c '^k[01] '
tapir profile linear.onnx; echo "exit $?"
tapir profile linear.onnx --dim batch=2 --engine reference; echo "exit $?"
tapir profile linear.onnx --dim batch=2 --engine tiles --runs 1 --trace nowhere/t.json >/dev/null; echo "exit $?"
tapir profile linear.onnx --dim batch=2 --runs 0; echo "exit $?"
tapir profile garbage.onnx; echo "exit $?"
TAPIR_CC=/nowhere/cc TAPIR_CACHE=none tapir profile linear.onnx --dim batch=2 --runs 1 | tail -1
TAPIR_TRAP=nan tapir profile linear.onnx --dim batch=2 --runs 1; echo "exit $?"
tapir profile blocks.tapir --dim steps=4 --limit 1 --runs 1; echo "exit $?"
ls -A | grep -c 'nowhere\|t.json\.'
