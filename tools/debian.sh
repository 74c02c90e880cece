#!/bin/sh
# debian.sh COMMAND...: runs COMMAND in a copy of this tree inside Debian 13, whose compilers are newer.
#
# The system lies in build/debian13; debootstrap fetches it the first time. Needs root; exits with 77 and says
# why where that or the network is missing. What is mounted is gone when the command ends.
set -eu
cd "$(dirname "$0")/.."
root=$PWD/build/debian13

skip() {
    echo "skipped: $1"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "Debian 13 is tested by root alone"
for tool in debootstrap unshare chroot; do
    command -v $tool >/dev/null 2>&1 || skip "there is no $tool"
done
unshare --mount true 2>/dev/null || skip "this root may not mount"

if [ ! -e "$root/fetched" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=make,ca-certificates trixie "$root" >"$root.log" 2>&1 ||
        skip "debootstrap failed; build/debian13.log says why"
    touch "$root/fetched"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"

# What was built there stays.
mkdir -p "$root/tapir/build" "$root/shared"
find "$root/tapir" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$root/tapir"

export root
# shellcheck disable=SC2016
exec unshare --mount sh -c '
    set -eu
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys" # OpenCL for processors asks it how much memory there is
    [ ! -d ../shared ] || mount --bind ../shared "$root/shared"
    exec chroot "$root" sh -c "cd /tapir && exec \"\$@\"" sh "$@"' sh "$@"
