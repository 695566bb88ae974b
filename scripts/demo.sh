#!/usr/bin/env bash
# Builds quaver with all its parts and lets it chase a stream made on this machine for ten seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
quaver="${CARGO_TARGET_DIR:-target}/release/quaver"

if [ "$(id -u)" -eq 0 ]; then
    exec "$quaver" chase --for 10s "$@"
fi
if ! command -v sudo >/dev/null; then
    echo "demo: not root and no sudo, so causes of lateness stay unnamed; run as root to see them" >&2
    exec "$quaver" chase --for 10s "$@"
fi
echo "demo: running quaver by sudo, for kernel tracing and network namespaces need root"
status=0
sudo "$quaver" chase --for 10s "$@" || status=$?
sudo chown -R "$(id -u):$(id -g)" runs
exit "$status"
