# One data set beside the model, in .npy.
mkdir mine
cp linear.onnx mine/model.onnx
cp x.npy mine/input_0.npy
tapir run linear.onnx --input x=x.npy --output . --engine reference >/dev/null
mv y.npy mine/output_0.npy
tapir test mine --list
