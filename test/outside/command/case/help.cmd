for command in run test show bench profile compile; do
    tapir help $command
    echo "---- $?"
done
tapir run --help | head -n 1
tapir --version | sed 's/[0-9][0-9.]*/N/'
