tapir test cases --engine reference; echo "exit $?"
tapir test cases/good cases/lacks --list; echo "exit $?"
tapir test cases/wrong/ --engine c; echo "exit $?"
tapir test cases/wrong --atol 0.5 --engine reference; echo "exit $?"
tapir test cases --engine reference --jobs 1 --json; echo "exit $?"
tapir test nothing; echo "exit $?"
tapir test x.npy; echo "exit $?"
tapir test cases/good/test_data_set_0
