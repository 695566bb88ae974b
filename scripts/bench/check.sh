#!/usr/bin/env bash
# Checks the judges of bench runs by made-up results: each one, so that a new judge's check need not be listed.
set -euo pipefail
cd "$(dirname "$0")"

for check in *_check.py; do
    python3 -B "$check"
done
python3 -B sim_cachegrind.py check >/dev/null
