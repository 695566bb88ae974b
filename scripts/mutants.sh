#!/usr/bin/env bash
# Puts faults into the pure crates, one at a time, and counts how many of them the crate's own tests catch: a crate
# below the floor fails. A whole run takes days, so each run takes a part of the faults; once a week another part:
#
#   scripts/mutants.sh                      # this week's part of each crate
#   SHARD=17/100 scripts/mutants.sh         # that part
#   CRATES="quaver-abi" SHARD=0/1 scripts/mutants.sh
#
# What is left in $OUT (target/mutants): for each crate a folder of cargo-mutants with missed.txt, and shares.tsv.
# Faults that no test can catch, since they change nothing, are listed with their reason in scripts/mutants-equivalent.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

# One version for everybody: another one makes other faults.
version=27.1.0
floor=${FLOOR:-85}
crates=${CRATES:-quaver-abi quaver-analysis quaver-arrivals quaver-capture-analysis quaver-sync-analysis quaver-study-analysis quaver-store quaver-pcapng quaver-sync-store quaver-trace quaver-dvfs quaver-sim}
parts=100
# Tests run without optimisation and on a machine that may be busy; a fault that makes a loop endless ends here.
timeout_s=${TIMEOUT_S:-300}
shard=${SHARD:-$(($(date -u +%s) / 604800 % parts))/$parts}
out=$PWD/${OUT:-target/mutants}
equivalent=$PWD/scripts/mutants-equivalent.txt

if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
    env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug --version "$version" cargo-mutants
fi

# Faults go into a clone, never into this tree; it builds into a folder of its own, which the next run uses again.
tree=$out/tree
rm -rf "$tree"
mkdir -p "$out"
git clone --quiet --no-hardlinks . "$tree"
export CARGO_TARGET_DIR=$out/target
export CARGO_PROFILE_DEV_DEBUG=0
# The changed module's own tests come first, so that most faults are caught in a second.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$PWD/scripts/mutants-runner.sh"

lines() { # lines of a file, 0 where there is none
    if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi
}

failed=0
printf 'crate\tpart\tfaults\tcaught\tendless\tmissed\tequivalent\tnot_compiled\tcaught_share\n' >"$out/shares.tsv"
for crate in $crates; do
    rm -rf "${out:?}/$crate"
    # 2: some were missed, 3: some made a test endless. Anything else is a failure of the run itself.
    status=0
    (cd "$tree" && cargo mutants --in-place --package "$crate" --sharding round-robin --shard "$shard" \
        --timeout "$timeout_s" --output "$out/$crate" --colors never) || status=$?
    case $status in 0 | 2 | 3) ;; *) echo "mutants: $crate: cargo-mutants ended with $status" >&2; exit 1 ;; esac
    result=$out/$crate/mutants.out
    caught=$(lines "$result/caught.txt")
    endless=$(lines "$result/timeout.txt")
    broken=$(lines "$result/unviable.txt")
    # Known by file and fault: line numbers move.
    sed -E 's/:[0-9]+:[0-9]+:/:/' "$result/missed.txt" >"$result/missed-without-lines.txt"
    known=$(awk -F '\t' 'NR == FNR { if (!/^#/ && NF) left[$1]++; next } left[$0]-- > 0 { n++ } END { print n + 0 }' \
        "$equivalent" "$result/missed-without-lines.txt")
    missed=$(($(lines "$result/missed.txt") - known))
    judged=$((caught + endless + missed))
    if [ "$judged" -eq 0 ]; then
        echo "mutants: $crate: no fault of part $shard could be judged" >&2
        failed=1
        continue
    fi
    share=$(awk -v c=$((caught + endless)) -v j=$judged 'BEGIN { printf "%.1f", 100 * c / j }')
    printf '%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n' "$crate" "$shard" "$((judged + known + broken))" "$caught" "$endless" \
        "$missed" "$known" "$broken" "$share" >>"$out/shares.tsv"
    if awk -v s="$share" -v f="$floor" 'BEGIN { exit !(s < f) }'; then
        echo "mutants: $crate: $share % caught, below the floor of $floor %; see $result/missed.txt" >&2
        failed=1
    fi
done
column -t -s "$(printf '\t')" "$out/shares.tsv" 2>/dev/null || cat "$out/shares.tsv"
exit $failed
