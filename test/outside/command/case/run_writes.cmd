tapir run linear.onnx --input x=x.npy --output out --engine reference
tapir run linear.onnx --input x=x.npy --output out --format pb --engine reference
tapir run linear.onnx --input x=x.npy --output out --engine reference # again, over what is there
od -An -t f4 -j 128 out/y.npy | tr -s ' '
ls out
