numbers='s/[0-9][0-9.]*/N/g; s/ N /N /; s/  */ /g; s/p[N]0/p10/; s/pN_ms/pN_ms/'
tapir bench linear.onnx --engine reference --runs 5; echo "exit $?"
tapir bench linear.onnx --engine reference --runs 5 --dim batch=4 | sed "$numbers"
tapir bench linear.onnx --runs 5 --dim batch=4 --json | sed "$numbers"
tapir bench linear.onnx --runs 7 --input x=x.npy --engine c --json | grep -o '"runs": 7\|"engine": "c"\|"gflop": [0-9.]*'
tapir bench two.onnx --runs 3 --engine reference --json | grep -o '"engine": .*'
tapir bench two.onnx --runs 3 --engine tiles --json | grep -o '"engine": .*'
