"""Summaries of runs, for scripts that read them."""


def whole_summary(run):
    """The file that has all of it: `summary.json` is shortened where it is long."""
    details = run / "details.json"
    return details if details.is_file() else run / "summary.json"
