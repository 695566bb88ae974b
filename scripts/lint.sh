#!/usr/bin/env bash
# Format, clippy with and without BPF, licences and sources of dependencies, the repository's own rules.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/phase.sh

# One version for everybody, so that a new release cannot turn a clean tree red.
deny_version=0.20.2

install_cargo_deny() {
    if [ "$(cargo deny --version 2>/dev/null)" = "cargo-deny $deny_version" ]; then
        return
    fi
    # Built without optimisation: a minute and a half on two CPUs instead of many, and the check itself takes a
    # second or two either way. No registry of binaries that we may use has a current one by its authors.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        cargo install --quiet --locked --debug --no-default-features --version "$deny_version" cargo-deny
}

phase "format" cargo fmt --all --check
phase "clippy" cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
phase "clippy without BPF" \
    cargo clippy --quiet --locked --workspace --all-targets --no-default-features -- -D warnings
phase "cargo-deny is there" install_cargo_deny
# Not "advisories": that database lives on a host that a build machine need not reach.
phase "dependencies" cargo deny --log-level error --locked check bans licenses sources
# They are built elsewhere, and cannot be where a dependency of ours is missing here.
phase "lock file of the fuzzers" cargo update --quiet --workspace --locked --manifest-path fuzz/Cargo.toml
phase "repository rules" cargo xtask tidy
phase_report
