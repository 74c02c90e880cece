tapir
echo "exit $?"
tapir help
echo "exit $?"
tapir help nothing
echo "exit $?"
tapir rn model.onnx
echo "exit $?"
tapir frobnicate
echo "exit $?"
tapir --verbose
