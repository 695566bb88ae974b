#!/usr/bin/env bash
# Installs what `make build` has built: the program, the simulator, the recorder and the threaded programs of `quaver sync`, units
# of systemd, manual pages and completions. Says what it writes; needs no more rights than writing there does.
# usage: [PREFIX=/usr/local] [DESTDIR=] packaging/install.sh [BUILD]
#   BUILD    where cargo put the program (default: target/release)
#   PREFIX   where it will run from
#   DESTDIR  put before PREFIX, for makers of packages
set -euo pipefail

source="$(cd "$(dirname "$0")/.." && pwd)"
build="${1:-${CARGO_TARGET_DIR:-$source/target}/release}"
prefix="${PREFIX:-/usr/local}"
root="${DESTDIR:-}$prefix"
quaver="$build/quaver"
simulator="$build/quaver-sim"
recorder="$build/libquaver_preload.so"

kernels=""
for directory in "$build/../kernels" "$source/target/kernels"; do
    if [ -z "$kernels" ] && [ -d "$directory" ]; then
        kernels="$directory"
    fi
done
for file in "$quaver" "$simulator" "$recorder"; do
    if [ ! -f "$file" ]; then
        echo "install: $file is missing: run \`make build\` first" >&2
        exit 1
    fi
done
if [ -z "$kernels" ]; then
    echo "install: the threaded programs of \`quaver sync bench\` are missing: run \`make -C kernels\` first" >&2
    exit 1
fi
case "$prefix" in
/*) ;;
*)
    echo "install: PREFIX is $prefix; it must begin with a slash" >&2
    exit 2
    ;;
esac
# The dynamic loader would cut the recorder's path there.
case "$prefix" in
*[[:space:]:]*)
    echo "install: PREFIX is $prefix; with a blank or a colon in it the recorder could not be loaded" >&2
    exit 2
    ;;
esac

put() {
    local mode="$1" from="$2" to="$root/$3"
    install -D -m "$mode" "$from" "$to"
    echo "$to"
}

made="$(mktemp -d)"
trap 'rm -r "$made"' EXIT
put 755 "$quaver" bin/quaver
put 755 "$simulator" bin/quaver-sim
put 644 "$recorder" lib/quaver/libquaver_preload.so
# Where Wireshark finds them differs; `tshark -G folders` prints the folders to link them into.
put 755 "$source/packaging/wireshark/quaver-extcap" lib/quaver/extcap/quaver-extcap
put 644 "$source/packaging/wireshark/quaver.lua" lib/quaver/wireshark/quaver.lua
# For Prometheus and Grafana.
put 644 "$source/packaging/watch/alerts.yaml" share/quaver/alerts.yaml
put 644 "$source/packaging/watch/dashboard.json" share/quaver/dashboard.json
# `quaver sim trace` needs it, and nothing else does.
if [ -f "$build/libquaver_qemu_plugin.so" ]; then
    put 644 "$build/libquaver_qemu_plugin.so" lib/quaver/libquaver_qemu_plugin.so
else
    echo "install: without libquaver_qemu_plugin.so, which \`quaver sim trace\` needs: it was not built" >&2
fi
# systemd reads them below /usr and /usr/local. None is enabled here.
for unit in "$source"/packaging/*.service; do
    sed "s#/usr/local/bin/#$prefix/bin/#; s#cp [^ ]* /etc/systemd/system/ && ##" "$unit" >"$made/unit"
    put 644 "$made/unit" "lib/systemd/system/$(basename "$unit")"
done
for program in "$source"/kernels/*.c; do
    name="$(basename "$program" .c)"
    put 755 "$kernels/$name" "lib/quaver/kernels/$name"
done

"$quaver" man --output "$made/man"
"$simulator" man --output "$made/man"
for page in "$made"/man/*.1; do
    put 644 "$page" "share/man/man1/$(basename "$page")"
done
for program in quaver quaver-sim; do
    "$build/$program" completions bash >"$made/bash"
    "$build/$program" completions zsh >"$made/zsh"
    "$build/$program" completions fish >"$made/fish"
    put 644 "$made/bash" "share/bash-completion/completions/$program"
    put 644 "$made/zsh" "share/zsh/site-functions/_$program"
    put 644 "$made/fish" "share/fish/vendor_completions.d/$program.fish"
done
