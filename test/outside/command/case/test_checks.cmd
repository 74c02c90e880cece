# Types, counts, and what is drawn at random.
tapir test checks --list --engine reference; echo "exit $?"
