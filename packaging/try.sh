#!/usr/bin/env bash
# Installs each package of a folder, runs it, removes it, and shows that nothing is left. The system underneath does not change:
# every package meets a copy of it that ends with this script.
# usage: packaging/try.sh OUT     (as root)
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
    echo "try: packages are installed as root only; run it by sudo" >&2
    exit 3
fi
if [ "${1:-}" != --in-namespace ]; then
    exec unshare --mount --propagation private "$0" --in-namespace "$(realpath "$1")"
fi
out="$2"
place="$(mktemp -d)"
trap 'umount --lazy "$place" && rmdir "$place"' EXIT
mount -t tmpfs tmpfs "$place"

# Runs a command in a root without the host's environment.
within() {
    local root="$1"
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp QUAVER_RUNS=/tmp/runs chroot "$root" "$@"
}

# The parts find each other: the program its recorder, the simulator and the threaded programs.
run_it() {
    local root="$1"
    within "$root" quaver --version
    within "$root" quaver doctor --json >/dev/null
    within "$root" quaver sync --quiet --no-kernel --json -- /usr/lib/quaver/kernels/ocean -p2 -n64 >/dev/null 2>&1
    within "$root" quaver sync bench --quiet --only ocean --runs 1 --size 64 --no-kernel >/dev/null 2>&1
    within "$root" quaver sim --help >/dev/null
}

mount_system() {
    mkdir -p "$1/proc" "$1/sys" "$1/dev" "$1/run" "$1/tmp"
    mount --rbind /proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/run"
    mount -t tmpfs tmpfs "$1/tmp"
}

# What a package manager keeps for itself is no trace of the package.
traces() {
    (cd "$1" && find . -mindepth 1 ! -path './var/lib/dpkg*' ! -path './var/lib/rpm*' ! -path './var/log/dpkg.log' \
        ! -path './var/cache/*') | while read -r path; do
        [ -d "$1/$path" ] && [ -d "/$path" ] || echo "$path"
    done
}

# usage: in_copy NAME PACKAGE INSTALL REMOVE     where the commands are one word list each, and the package is at /run/package
in_copy() {
    local name="$1" package="$2" install="$3" remove="$4" copy="$place/$1" left
    mkdir -p "$copy/upper" "$copy/work" "$copy/merged"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$copy/upper,workdir=$copy/work" "$copy/merged"
    mount_system "$copy/merged"
    cp "$package" "$copy/merged/run/package"
    # shellcheck disable=SC2086 # words
    within "$copy/merged" $install /run/package >/dev/null
    run_it "$copy/merged"
    # shellcheck disable=SC2086 # words
    within "$copy/merged" $remove quaver >/dev/null
    left="$(traces "$copy/upper")"
    if [ -n "$left" ]; then
        printf 'try: %s was removed and left:\n%s\n' "$package" "$left" >&2
        exit 1
    fi
    echo "$name: installed, run, removed without a trace"
}

for package in "$out"/*.deb; do
    [ ! -e "$package" ] || in_copy deb "$package" "dpkg --no-triggers --install" "dpkg --no-triggers --purge"
done
for package in "$out"/*.rpm; do
    # A Debian system has what it needs under other names.
    [ ! -e "$package" ] || in_copy rpm "$package" "rpm --force-debian --nodeps --install" "rpm --force-debian --erase"
done
for image in "$out"/*.oci.tar; do
    [ -e "$image" ] || continue
    mkdir -p "$place/layout"
    tar -C "$place/layout" -xf "$image"
    tag="$(grep -o '"org.opencontainers.image.ref.name":"[^"]*' "$place/layout/index.json" | cut -d '"' -f 4)"
    umoci unpack --image "$place/layout:$tag" "$place/bundle" >/dev/null 2>&1
    mount_system "$place/bundle/rootfs"
    run_it "$place/bundle/rootfs"
    echo "oci: unpacked by umoci, run"
done
