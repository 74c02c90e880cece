#!/bin/sh
# The names of the functions that include/tapir declares, a line each, sorted; in the root of the tree.
# TP_FN(type, name, ...) and TP_API ... name(...)
cat include/tapir/*.h | sed -n \
    -e 's/^TP_FN([^,]*, *\(tp_[a-z0-9_]*\),.*/\1/p' \
    -e 's/^TP_API [^(]*[ *]\(tp_[a-z0-9_]*\)(.*/\1/p' | sort -u
