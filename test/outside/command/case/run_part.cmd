# part.tapir, saved by tp_graph_save: x, label; y = relu(x) is the output, loss = y - label is not
tapir run part.tapir; echo "exit $?"
tapir run part.tapir --input x=pair.npy --engine reference; echo "exit $?"
tapir run part.tapir --input x=pair.npy --input label=pair.npy --engine reference
