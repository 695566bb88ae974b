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

phase_report() {
    printf '%s\n' "${phase_lines[@]}"
}
