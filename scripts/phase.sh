# Sourced: runs steps by name and tells how long each took.
phase_lines=()

phase() {
    local name="$1" began status=0
    shift
    echo "==> $name"
    began="$(date +%s)"
    # With "|| status" the step would run without "set -e"; a subshell of its own keeps it.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    phase_lines+=("$(printf '%5d s  %s' "$(($(date +%s) - began))" "$name")")
    if [ "$status" -ne 0 ]; then
        phase_report
        echo "FAILED: $name (status $status)" >&2
        exit "$status"
    fi
}

# Starts a step that runs beside at most one other. What it prints is shown as soon as it has ended; `together` waits for all.
declare -A beside_names=() beside_logs=() beside_began=()
beside_status=0

beside() {
    local name="$1" log
    shift
    [ "${#beside_names[@]}" -lt 2 ] || one_ends
    log="$(mktemp)"
    # A shell has what it starts in the background ignore Ctrl-C, which programs under test would inherit.
    env --default-signal=INT,QUIT "$@" >"$log" 2>&1 &
    beside_names[$!]="$name"
    beside_logs[$!]="$log"
    beside_began[$!]="$(date +%s)"
}

one_ends() {
    local ended status=0
    wait -n -p ended "${!beside_names[@]}" || status=$?
    echo "==> ${beside_names[$ended]}"
    cat "${beside_logs[$ended]}"
    rm "${beside_logs[$ended]}"
    phase_lines+=("$(printf '%5d s  %s' "$(($(date +%s) - beside_began[$ended]))" "${beside_names[$ended]}")")
    if [ "$status" -ne 0 ]; then
        beside_status="$status"
        echo "FAILED: ${beside_names[$ended]} (status $status)" >&2
    fi
    unset "beside_names[$ended]"
}

together() {
    while [ "${#beside_names[@]}" -gt 0 ]; do one_ends; done
    if [ "$beside_status" -ne 0 ]; then
        phase_report
        exit "$beside_status"
    fi
}

phase_report() {
    printf '%s\n' "${phase_lines[@]}"
}
