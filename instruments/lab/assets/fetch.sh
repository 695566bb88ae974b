#!/usr/bin/env bash
# Gets the parts of the QEMU lab from the Debian archive and unpacks them aside; nothing is installed, no right is needed.
# What is there already stays as it is. `quaver lab fetch` runs this, and scripts/setup.sh.
# usage: fetch.sh [DIRECTORY]
set -euo pipefail
declare -A packages

cache="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
directory="${1:-${QUAVER_LABDIR:-${cache:-/var/cache}/quaver/lab}}"
# The stock kernel, and the one with real-time preemption, which alone has the osnoise tracer.
packages=([kernel]=linux-image-amd64 [kernel-rt]=linux-image-rt-amd64)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# Modules that a guest may load; what they need comes along. Another list fetches the kernels anew.
modules="e1000e igb veth 8021q sch_etf sch_fq sch_netem sch_prio"

refuse() {
    echo "lab fetch: $1" >&2
    exit 3
}

[ "$(uname -m)" = x86_64 ] || refuse "the guest is an x86-64 machine and runs this program; that works on x86-64 hosts only"

new_enough() {
    local major
    major="$("$1" --version 2>/dev/null | sed -n 's/.* version \([0-9]*\)\..*/\1/p' | head -n 1)"
    [ "${major:-0}" -ge 8 ]
}

# What is missing.
wanted=""
if [ -x "$directory/qemu/usr/bin/qemu-system-x86_64" ]; then
    echo "lab fetch: there already: QEMU, in $directory/qemu"
elif command -v qemu-system-x86_64 >/dev/null && new_enough qemu-system-x86_64; then
    echo "lab fetch: there already: QEMU, $(command -v qemu-system-x86_64)"
else
    wanted="qemu"
fi
for kernel in kernel kernel-rt; do
    if [ -s "$directory/$kernel/release" ] && [ "$(cat "$directory/$kernel/asked" 2>/dev/null)" = "$modules" ]; then
        echo "lab fetch: there already: Linux $(cat "$directory/$kernel/release")"
    else
        wanted="$wanted $kernel"
    fi
done
[ -n "$wanted" ] || exit 0

# Debian 12 has them in its backports, Debian 13 in itself.
codename="$(. /etc/os-release 2>/dev/null && echo "${ID:-}-${VERSION_CODENAME:-}")"
case "$codename" in
debian-bookworm) suites="bookworm bookworm-backports" from="bookworm-backports" ;;
debian-trixie) suites="trixie" from="trixie" ;;
*) refuse "this takes packages of Debian 12 or 13, and here is ${codename:-another system}. By hand: QEMU 8 or newer in PATH, and in $directory/kernel a vmlinuz, its version in release, and modules/ with $modules and a modules.dep" ;;
esac
for tool in apt-get apt-cache dpkg-deb tar xz flock; do
    command -v "$tool" >/dev/null || refuse "there is no $tool. As root: apt-get install apt dpkg tar xz-utils util-linux"
done
# The mirror that this system uses itself, unless another is named.
mirror="${QUAVER_LAB_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
    sed -n 's#/debian/*$#/debian#p' | sort -u | head -n 1)}"
[ -n "$mirror" ] || refuse "the system names no mirror of Debian: give one in QUAVER_LAB_MIRROR"
[ -r "$keyring" ] || refuse "there is no $keyring. As root: apt-get install debian-archive-keyring"

mkdir -p "$directory"
exec 9>"$directory/.lock"
flock 9
work="$(mktemp -d "$directory/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work"/lists/partial "$work"/archives/partial "$work"/etc
for suite in $suites; do
    echo "deb [signed-by=$keyring] $mirror $suite main" >>"$work/etc/sources.list"
done
# Lists, archives and the state of packages are this directory's own, so that the system's are neither read nor written; a
# library that the system has is not fetched again.
cp /var/lib/dpkg/status "$work/status"
own=(-q -o "Dir::Etc::sourcelist=$work/etc/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work"
    -o "Dir::Cache::archives=$work/archives" -o APT::Sandbox::User=root -o Debug::NoLocking=1
    -o Acquire::Languages=none -o Acquire::Retries=3)
if [ "$(id -u)" -ne 0 ]; then
    own+=(-o "Dir::Log=$work")
fi
echo "lab fetch: reading the lists of $from"
apt-get "${own[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; refuse "the lists of $mirror could not be read"; }

fetch_qemu() {
    echo "lab fetch: fetching QEMU of $from and the libraries that this system lacks (about 20 MB)"
    apt-get "${own[@]}" -y -t "$from" --download-only --no-install-recommends install qemu-system-x86 >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; refuse "QEMU could not be fetched"; }
    mkdir "$work/qemu"
    for package in "$work"/archives/*.deb; do
        dpkg-deb -x "$package" "$work/qemu"
    done
    rm -f "$work"/archives/*.deb
    rm -rf "$directory/qemu"
    mv "$work/qemu" "$directory/qemu"
}

# Copies a module and what it needs, and writes lines as depmod does: "file: file ...", what is needed first standing last.
add_module() {
    local file name needs need one new line=""
    file="$(find "$work/tree" -name "$1.ko*" | head -n 1)"
    # One that is built in has no file.
    [ -n "$file" ] || return 0
    name="$(basename "$file")"
    [ ! -e "$work/kernel/modules/$name" ] || return 0
    cp "$file" "$work/kernel/modules/$name"
    case "$name" in
    *.xz) needs="$(xz -dc "$file" | tr '\0' '\n' | sed -n 's/^depends=//p')" ;;
    *) needs="$(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p')" ;;
    esac
    for need in ${needs//,/ }; do
        add_module "$need"
        need="$(find "$work/kernel/modules" -name "${need//[-_]/[-_]}.ko*" -printf '%f\n' | head -n 1)"
        new=""
        for one in $need $(sed -n "s/^$need: //p" "$work/kernel/modules/modules.dep"); do
            [[ " $line " == *" $one "* ]] || new="$new$one "
        done
        line="$new$line"
    done
    echo "$name: $line" >>"$work/kernel/modules/modules.dep"
}

fetch_kernel() { # NAME: of its directory
    local package release module meta="${packages[$1]}"
    package="$(apt-cache "${own[@]}" show "$meta/$from" | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1)"
    [ -n "$package" ] || refuse "$from has no $meta"
    echo "lab fetch: fetching $package (about 100 MB, of which 12 MB are kept)"
    (cd "$work/archives" && apt-get "${own[@]}" download "$package/$from" >"$work/log" 2>&1) ||
        { cat "$work/log" >&2; refuse "$package could not be fetched"; }
    rm -rf "$work/tree" "$work/kernel"
    mkdir -p "$work/tree" "$work/kernel/modules"
    dpkg-deb --fsys-tarfile "$work"/archives/linux-image-*.deb |
        tar -x -C "$work/tree" --wildcards '*/vmlinuz-*' '*/kernel/drivers/net/*' '*/kernel/drivers/ptp/*' \
            '*/kernel/drivers/pps/*' '*/kernel/drivers/i2c/algos/*' '*/kernel/drivers/dca/*' \
            '*/kernel/net/sched/*' '*/kernel/net/8021q/*' '*/kernel/net/802/*' '*/kernel/net/llc/*' 2>"$work/log" || true
    # A pattern that matches nothing is an error to tar and none to us.
    [ -n "$(find "$work/tree" -name 'vmlinuz-*')" ] ||
        { cat "$work/log" >&2; refuse "$package could not be unpacked"; }
    rm -f "$work"/archives/linux-image-*.deb
    release="$(basename "$(find "$work/tree" -name 'vmlinuz-*')")"
    release="${release#vmlinuz-}"
    mv "$work"/tree/boot/vmlinuz-* "$work/kernel/vmlinuz"
    : >"$work/kernel/modules/modules.dep"
    for module in $modules; do
        add_module "$module"
    done
    echo "$modules" >"$work/kernel/asked"
    # Last of all: its presence says that all else is there.
    echo "$release" >"$work/kernel/release"
    rm -rf "${directory:?}/$1"
    mv "$work/kernel" "$directory/$1"
}

for one in $wanted; do
    case "$one" in
    qemu) fetch_qemu ;;
    *) fetch_kernel "$one" ;;
    esac
done
echo "lab fetch: all is in $directory ($(du -sh "$directory" | cut -f 1)); remove that directory to be rid of it"
