#!/bin/sh
# check_names.sh: no name that files share means two things: a type of one header and a function or type of
# another file.
set -u
cd "$(dirname "$0")/.." || exit 1

# "NAME FILE" of each definition: of a struct, enum or union, of a type of functions, of a function.
find src -name '*.[ch]' -exec awk '
    match($0, /^} tpi_[a-z0-9_]+;/) { print substr($0, 3, RLENGTH - 3), FILENAME }
    match($0, /^struct tpi_[a-z0-9_]+ {/) { print $2, FILENAME }
    match($0, /^typedef .*\(\*tpi_[a-z0-9_]+\)/) {
        sub(/\).*/, "")
        sub(/.*\(\*/, "")
        print $0, FILENAME
    }
    (FILENAME ~ /\.c$/ || /^static inline /) && !/^(#|typedef|extern)/ && !/;$/ &&
        match($0, /^[a-z][a-z0-9_ ]* \**tpi_[a-z0-9_]+\(/) {
        name = substr($0, 1, RLENGTH - 1)
        sub(/.*[ *]/, "", name)
        print name, FILENAME
    }' {} + | sort -u | awk '
    $1 == name { print name ": in " file " and in " $2 ", with two meanings; rename one"; failed = 1 }
    { name = $1; file = $2 }
    END { exit failed }'
