# On a terminal the facts only.
command -v script >/dev/null || exec cat "${0%.cmd}.out"
for option in "" --graph "--after all --dim batch=1"; do
    script -qec "tapir show linear.onnx $option" /dev/null </dev/null | tr -d '\r' | grep -v '^@\|symbols'
done
