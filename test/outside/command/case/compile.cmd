tapir compile linear.onnx; echo "exit $?"
tapir compile linear.onnx -o linear; echo "exit $?"
tapir compile linear.onnx -o nowhere/linear.c; echo "exit $?"
tapir compile garbage.onnx -o linear.c; echo "exit $?"
tapir compile linear.onnx -o linear.c --weights none; echo "exit $?"
ls linear*
tapir compile linear.onnx -o linear.c; echo "exit $?"
tapir compile linear.onnx --output other.c --weights beside --name both --state; echo "exit $?"
tapir compile fed_shape.onnx -o shape.c --input shape=shape.npy; echo "exit $?"
tapir compile names.onnx -o class.c; echo "exit $?"
ls *.c *.h *.weights
grep -c . linear.h > /dev/null && grep -o 'linear_[a-z]*(.*);' linear.h
grep -o 'both_[a-z]*(.*);' other.h
cc -std=c99 -Wall -Wextra -Wconversion -Werror -c linear.c other.c shape.c class.c && ls *.o
