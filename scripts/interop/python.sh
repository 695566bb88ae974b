#!/usr/bin/env bash
# Builds a wheel of the Python package, installs it into a scratch directory, without a registry, checks its types, and tests it
# beside the program.
# Its dependencies are those that scripts/setup.sh put aside.
set -euo pipefail
cd "$(dirname "$0")/../.."

python="$(scripts/interop/python-venv.sh --where)/bin/python"
if [ ! -x "$python" ]; then
    echo "python: pyarrow is not there. Run: scripts/setup.sh test" >&2
    exit 3
fi
cargo build --quiet --locked --workspace --all-targets
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A copy, for building leaves files beside the sources.
cp -R python "$work/source"
"$python" -m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir "$work" "$work/source"
"$python" -m pip install --quiet --no-index --no-deps --target "$work/installed" "$work"/quaver-*-py3-none-any.whl
"$python" -m mypy --strict --config-file python/pyproject.toml --cache-dir "$work/mypy" "$work/installed/quaver"
QUAVER_NOTEBOOKS="$PWD/python/notebooks" QUAVER="$(realpath "${CARGO_TARGET_DIR:-target}/debug/quaver")" PYTHONPATH="$work/installed" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m unittest discover --quiet --start-directory python/tests
