#!/usr/bin/env bash
# Gets the headers of the QEMU lab's stock kernel from the Debian archive and unpacks them aside, so that the module can be built
# for it; nothing is installed, no right is needed. What is there already stays as it is.
# usage: kmod/headers.sh [--there]   prints the directory to build against: make -C DIRECTORY M=kmod modules
# With --there nothing is fetched.
set -euo pipefail

cache="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
lab="${QUAVER_LABDIR:-${cache:-/var/cache}/quaver/lab}"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

refuse() {
    echo "kmod headers: $1" >&2
    exit 3
}

release="$(cat "$lab/kernel/release" 2>/dev/null)" || refuse "there is no kernel in $lab/kernel; get it by: quaver lab fetch"
headers="$lab/headers"
build="$headers/usr/src/linux-headers-$release"
if [ "$(cat "$headers/release" 2>/dev/null)" = "$release" ]; then
    echo "$build"
    exit 0
fi
[ "${1:-}" != --there ] || refuse "there are no headers of Linux $release; get them by: kmod/headers.sh"
for tool in apt-get apt-cache dpkg-deb flock; do
    command -v "$tool" >/dev/null || refuse "there is no $tool. As root: apt-get install apt dpkg util-linux"
done
mirror="${QUAVER_LAB_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
    sed -n 's#/debian/*$#/debian#p' | sort -u | head -n 1)}"
[ -n "$mirror" ] || refuse "the system names no mirror of Debian: give one in QUAVER_LAB_MIRROR"
[ -r "$keyring" ] || refuse "there is no $keyring. As root: apt-get install debian-archive-keyring"

exec 9>"$lab/.lock"
flock 9
work="$(mktemp -d "$lab/.headers-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work"/lists/partial "$work"/archives/partial "$work"/etc "$work"/tree
suite="$(. /etc/os-release && echo "$VERSION_CODENAME")"
for one in "$suite" "$suite-backports"; do
    echo "deb [signed-by=$keyring] $mirror $one main" >>"$work/etc/sources.list"
done
cp /var/lib/dpkg/status "$work/status"
own=(-q -o "Dir::Etc::sourcelist=$work/etc/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work"
    -o "Dir::Cache::archives=$work/archives" -o "Dir::Log=$work" -o APT::Sandbox::User=root
    -o Debug::NoLocking=1 -o Acquire::Languages=none -o Acquire::Retries=3)
echo "kmod headers: fetching those of Linux $release (about 16 MB)" >&2
# APT checks what it fetches against the checksums in lists that Debian signed.
apt-get "${own[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; refuse "the lists of $mirror could not be read"; }
(cd "$work/archives" && apt-get "${own[@]}" download "linux-headers-$release" "linux-headers-${release%-amd64}-common" \
    "linux-kbuild-${release%-amd64}" >"$work/log" 2>&1) ||
    { cat "$work/log" >&2; refuse "Debian has no headers of Linux $release any more; remove $lab/kernel and get a newer one by: quaver lab fetch"; }
for package in "$work"/archives/*.deb; do
    dpkg-deb -x "$package" "$work/tree"
done
# Types of the kernel for BPF, which a module needs pahole for and does without.
rm -f "$work/tree/usr/src/linux-headers-$release/vmlinux"
sed -i "s#^include /usr/src/#include $headers/usr/src/#" "$work/tree/usr/src/linux-headers-$release/Makefile"
echo "$release" >"$work/tree/release"
rm -rf "$headers"
mv "$work/tree" "$headers"
echo "$build"
