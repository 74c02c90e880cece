# A link to a folder is not followed below the folder that was asked for, which may be one itself.
mkdir -p links/a
cp -r cases/good links/a/good
ln -s .. links/a/up
ln -s a links/b
tapir test links --list --engine reference; echo "exit $?"
tapir test links/b --list --engine reference; echo "exit $?"
