tapir run linear.onnx --input x=x.npy --engine reference &&
    tapir run linear.onnx --input=x=x.pb --engine c &&
    tapir run --input x=x.npy linear.onnx
