m=checks/half; tapir run $m/model.onnx --input x=$m/test_data_set_0/input_0.pb --output out --engine reference
grep -ao "descr': '[^']*'" out/y.npy; wc -c < out/y.npy; tail -c 4 out/y.npy | od -An -tx1
tapir run $m/model.onnx --input x=out/y.npy --output out --format pb --engine reference # read, as f32
od -An -tx1 out/y.pb
tapir run $m/model.onnx --input x=out/y.pb --engine reference
