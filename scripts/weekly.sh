#!/usr/bin/env bash
# What takes too long for each change. Every step runs, whatever became of the others; one that failed is named at the end.
# usage: scripts/weekly.sh [STEP]...      fuzz recorder arm64 mutants
# Needs nightly Rust, and `make build`. FUZZ_S: another time than 60 s for each fuzzer. Miri is no step: what is unsafe here calls
# the kernel or C, which it cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/phase.sh

out="$PWD/target/weekly"
host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
# Rust has no UndefinedBehaviorSanitizer. Its own checks find what that would: overflows, and what unsafe calls of the library demand.
checked="-Zsanitizer=address -Cdebug-assertions=yes -Coverflow-checks=yes"
# The names of crates with neither I/O nor C.
pure="quaver-abi quaver-analysis quaver-arrivals quaver-capture-analysis quaver-study-analysis quaver-cure-analysis quaver-dvfs"

packages() {
    printf -- '--package %s ' "$@"
}

fuzz() {
    local path target seeds found=()
    for path in fuzz/fuzz_targets/*.rs; do
        target="$(basename "$path" .rs)"
        seeds=()
        [ ! -d "fuzz/seeds/$target" ] || seeds=("seeds/$target")
        fuzz/run.sh "$target" "${FUZZ_S:-60}" "${seeds[@]}" || found+=("$target")
    done
    [ ${#found[@]} -eq 0 ] || { echo "fuzz/artifacts has what these found: ${found[*]}" >&2; return 1; }
}

# The recorder with AddressSanitizer in the threaded programs, which bring its runtime: their results are the same as without.
recorder() {
    local runtime program plain recorded
    RUSTFLAGS="$checked" cargo +nightly build --release --locked --package quaver-preload --target "$host" --target-dir "$out"
    runtime="$(rustc +nightly --print sysroot)/lib/rustlib/$host/lib/librustc-nightly_rt.asan.a"
    make --no-print-directory -C kernels OUT="$out/kernels" \
        LDFLAGS="-Wl,--whole-archive $runtime -Wl,--no-whole-archive -Wl,--export-dynamic -ldl -lrt"
    # The runtime calls setrlimit, which is the recorder's, before there is memory to note accesses in.
    export ASAN_OPTIONS=disable_coredump=0
    for program in "$out"/kernels/*; do
        plain="$("$program" -p4)"
        recorded="$(QUAVER_LIBDIR="$out/$host/release" target/release/quaver sync --quiet --tier user -o "$out/runs" \
            -- "$program" -p4 2>"$out/recorder.log")" || { cat "$out/recorder.log" >&2; return 1; }
        [ "$plain" = "$recorded" ] || { echo "$program: $recorded, and $plain without the recorder" >&2; return 1; }
        # Without the recorder the program runs unrecorded, and well.
        ! grep "left no recording" "$out/recorder.log" >&2 || return 1
        rm -r "$out/runs"
    done
}

# Compiled for another architecture; the tests of the pure crates run, by an emulator.
arm64() {
    local musl=aarch64-unknown-linux-musl
    rustup target add aarch64-unknown-linux-gnu "$musl"
    # shellcheck disable=SC2046
    cargo check --locked --target aarch64-unknown-linux-gnu --target-dir "$out" \
        $(packages $pure quaver-clock quaver-probe quaver-preload quaver-view)
    # shellcheck disable=SC2046
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64 \
        cargo test --locked --target "$musl" --target-dir "$out" --lib $(packages $pure)
}

mutants() {
    scripts/mutants.sh
}

if [ $# -eq 1 ]; then
    phase "$1" "$1"
    phase_report
    exit
fi
failed=()
for step in ${@:-fuzz recorder arm64 mutants}; do
    scripts/weekly.sh "$step" || failed+=("$step")
done
[ ${#failed[@]} -eq 0 ] || { echo "weekly: failed: ${failed[*]}" >&2; exit 1; }
