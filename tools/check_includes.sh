#!/bin/sh
# check_includes.sh: a folder of src/ includes only itself and those before it in the list
# below; examples use public headers only, and so does src/nn, the library's first user; the
# public headers know nothing of src/. Also: the name of a source file occurs once in the tree,
# so that an include line or a message says which file is meant. A .def is a list of bare names
# and may be used from anywhere.
set -u
cd "$(dirname "$0")/.."

order='base kernel core ir op control composite train grad transform pass check plan lower render cc run batch look capture onnx nn'

list() {
    find include src cli examples test bench tools \
        -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.sh' \) 2>/dev/null |
        sort
}

{
    list
    echo src/kernel/kernel_text.h # made by the build
} | sort -u | awk -v order="$order" '
    function fail(where, what) { print where ": " what; bad = 1 }
    function folder(path,  p) {
        split(path, p, "/")
        return p[1] == "src" ? p[2] : p[1]
    }
    BEGIN {
        n = split(order, names, " ")
        for (i = 1; i <= n; i++) place[names[i]] = i
        while ((getline text < "tools/upward.txt") > 0)
            if (text ~ /\.h$/) upward[text] = 1
    }
    {
        base = $0
        sub(/.*\//, "", base)
        if (base in seen)
            fail($0 ":1", "the name " base " is taken by " seen[base] "; rename one of them")
        seen[base] = $0
        files[NR] = $0
        known[$0]
    }
    END {
        for (k = 1; k <= NR; k++) {
            file = files[k]
            if (file !~ /^(src|include|cli|examples)\// || file ~ /\.sh$/) continue
            from = folder(file)
            if (file ~ /^src\// && !(from in place))
                fail(file ":1", "src/" from " has no place in the order of tools/check_includes.sh")
            line = 0
            while ((getline text < file) > 0) {
                line++
                if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
                name = text
                sub(/^[^"<]*["<]/, "", name)
                sub(/[">].*/, "", name)
                if (name ~ /^tapir\//) continue
                base = name
                sub(/.*\//, "", base)
                if (!(base in seen)) {
                    if (text ~ /"/)
                        fail(file ":" line, "no file of the tree is called " name)
                    continue
                }
                if (text ~ /</) continue
                target = file
                sub(/[^\/]*$/, name, target) # a neighbour first, as the compiler does
                if (!(target in known))
                    target = ("src/" name) in known ? "src/" name : seen[base]
                if (target ~ /\.def$/) continue # bare names: they lean on nothing
                to = folder(target)
                if (to == from || target ~ /^include\//) continue
                if (!(from in place) || from == "nn")
                    fail(file ":" line, from " uses public headers only, not " name)
                else if (!(to in place) || place[to] > place[from]) {
                    if ((file " " name) in upward) {
                        upward[file " " name] = 2
                        continue
                    }
                    fail(file ":" line, from " may not include " name ": " to \
                        " comes after it; move what is needed down, or go through a hook")
                }
            }
            close(file)
        }
        for (line in upward)
            if (upward[line] == 1) fail("tools/upward.txt", "nothing includes that any more: " line)
        exit bad
    }'
