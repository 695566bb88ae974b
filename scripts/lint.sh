#!/usr/bin/env bash
# Format, clippy with and without BPF, licences and sources of dependencies, the repository's own rules.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/phase.sh

# One version for everybody, so that a new release cannot turn a clean tree red. No registry of binaries that we may use has a
# current one by its authors.
dependencies() {
    local deny
    deny="$(scripts/tool.sh cargo-deny 0.20.2 --no-default-features)"
    # Not "advisories": that database lives on a host that a build machine need not reach.
    "$deny" --log-level error --locked check bans licenses sources
}

phase "format" cargo fmt --all --check
# With BPF no source differs that does not name the feature: of tests in files of their own those alone are read again. That all
# of them compile is for the build to show.
clippy_with_bpf() {
    local named=()
    mapfile -t named < <(git grep --files-with-matches 'feature = "bpf"' -- '*.rs' ':!*/src/*' |
        sed -n 's#.*/tests/\([^/.]*\).*#--test=\1#p; s#.*/examples/\([^/.]*\).*#--example=\1#p' | sort -u)
    cargo clippy --quiet --locked --workspace --lib --bins "${named[@]}" -- -D warnings
    cargo clippy --quiet --locked --workspace --lib --bins --profile test -- -D warnings
}

phase "clippy without BPF" \
    cargo clippy --quiet --locked --workspace --all-targets --no-default-features -- -D warnings
phase "clippy with BPF" clippy_with_bpf
phase "dependencies" dependencies
# They are built elsewhere, and cannot be where a dependency of ours is missing here.
phase "lock file of the fuzzers" cargo update --quiet --workspace --locked --manifest-path fuzz/Cargo.toml
phase "repository rules" cargo xtask tidy
phase_report
