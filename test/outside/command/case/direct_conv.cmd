for option in '' --direct-conv; do
    tapir show conv.onnx $option --graph | grep -o 'winograd=[a-z]*'
    tapir compile conv.onnx -o conv.c $option >/dev/null && grep -c 'tpk_wg_conv_f32(&c' conv.c
    tapir bench conv.onnx $option --runs 3 --dim batch=1 --engine tiles --json | grep -o '"engine": "[a-z]*"'
    tapir profile conv.onnx $option --runs 3 --dim batch=1 --engine tiles | grep -c '^k0 '
done
