#!/bin/sh
# check_symbols.sh BUILD: what the objects of the library need of each other, beside what check_includes.sh
# sees. A file leans on another when its object uses a name (but for tp_) that the other's object defines.
#
#   up       no file leans on one of a folder that comes later in the order of check_includes.sh, or of a room
#            (a folder in a folder) that comes later in the order of `rooms`
#   circles  files that lean on each other in a circle are of one folder, and at most three
#
# tools/upward.txt has what is excepted. It only gets shorter: what is no longer needed fails too.
set -u
cd "$(dirname "$0")/.."

order=$(sed -n "s/^order='\(.*\)'/\1/p" tools/check_includes.sh)
rooms='capture/record capture/run capture/replay capture/lift capture'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

find src -name '*.c' >"$work/files"
nm -A "$1/libtapir.a" 2>/dev/null >"$work/names"
awk -v order="$order" -v rooms="$rooms" '
    function fail(text) { print text; bad = 1 }
    function folder(file,  p) { split(file, p, "/"); return p[2] }
    BEGIN {
        most = 3
        n = split(order, names, " ")
        for (i = 1; i <= n; i++) place[names[i]] = i
        n_rooms = split(rooms, names_of_rooms, " ")
        for (i = 1; i <= n_rooms; i++) room_place[names_of_rooms[i]] = i
        while ((getline text < "tools/upward.txt") > 0)
            if (text ~ /^circle /) circle[text] = 1
            else if (text !~ /^#/ && text !~ /\.h$/) up[text] = 1
    }
    # The folders below src that a file is in.
    function room(file) { sub(/^src\//, "", file); sub(/\/[^\/]*$/, "", file); return file }
    FNR == NR { base = $0; sub(/.*\//, "", base); path[base] = $0; next }
    {
        # ARCHIVE:OBJECT.o: [ADDRESS] TYPE NAME
        split($1, part, ":")
        file = part[2]
        sub(/\.o$/, "", file)
        type = $(NF - 1)
        if (!(file in path) || $NF ~ /^tp_/) next
        if (type == "U") uses[path[file] " " $NF]
        else if (type ~ /[A-Z]/) owner[$NF] = path[file]
    }
    # All that is reached from `from`: reached[from, file].
    function reach(from,  n, at, list, k, i, to) {
        list[n = 1] = from
        for (at = 1; at <= n; at++)
            for (i = 1; i <= n_leans[list[at]]; i++) {
                to = leans[list[at], i]
                if ((from, to) in reached) continue
                reached[from, to]
                list[++n] = to
            }
    }
    END {
        if (!n_used(uses)) fail("no names were found in the library")
        for (use in uses) {
            split(use, part, " ")
            from = part[1]
            name = part[2]
            if (!(name in owner) || owner[name] == from) continue
            to = owner[name]
            if (!((from, to) in lean)) {
                lean[from, to]
                leans[from, ++n_leans[from]] = to
            }
            if (folder(to) == folder(from) && room_place[room(to)] > room_place[room(from)] && room(from) in room_place)
                fail(from ": uses " name " of " to ", a room that comes after its own")
            if (place[folder(to)] <= place[folder(from)]) continue
            if (use in up) up[use] = 2
            else fail(from ": uses " name " of " to ": " folder(to) " comes after " folder(from) \
                "; move what is needed down, or go through a hook")
        }
        for (from in n_leans) reach(from)
        for (from in n_leans) {
            if (from in done || !((from, from) in reached)) continue
            size = 0
            split("", mine)
            list = ""
            for (to in n_leans)
                if ((from, to) in reached && (to, from) in reached) {
                    done[to]
                    size++
                    mine[folder(to)]
                    list = list " " to
                }
            folders = ""
            n_folders = 0
            for (i = 1; i <= n; i++)
                if (names[i] in mine) {
                    folders = folders " " names[i]
                    n_folders++
                }
            if (n_folders == 1 && size <= most) continue
            line = "circle " size folders
            if (line in circle) circle[line] = 2
            else fail("a circle of " size " files, of" folders " (\"" line "\"):" list)
        }
        for (line in up)
            if (up[line] == 1) fail("tools/upward.txt: nothing needs that any more: " line)
        for (line in circle)
            if (circle[line] == 1) fail("tools/upward.txt: there is no such circle any more: " line)
        exit bad
    }
    function n_used(list,  k, n) { for (k in list) n++; return n }
    ' "$work/files" "$work/names" >"$work/found"
status=$?
sort "$work/found"
exit $status
