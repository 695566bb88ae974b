"""A page of a bench run and the targets that it judges.

Every part of a page says beforehand what it judges (`expect`): a target of which nothing is known when the page ends is
*missing*, which is neither met nor missed, and a target that nobody announced is an error of the judge.
"""

import json

MET, MISSED, MISSING = "met", "**missed**", "**missing**"
NOT_MEASURED = "not measured"


class Page:
    """The text, and by what is judged: what was wanted, what was found, and the outcome."""

    def __init__(self):
        self.lines = []
        self.targets = {}

    def add(self, *lines):
        self.lines.extend(lines)

    def table(self, head, rows):
        assert all(len(row) == len(head) for row in rows), (head, rows)
        self.add("| " + " | ".join(head) + " |", "|" + " --- |" * len(head))
        self.add(*("| " + " | ".join(map(str, row)) + " |" for row in rows), "")

    def expect(self, targets):
        """`targets`: by what is judged, what is wanted. Missing until judged."""
        for what, wanted in targets.items():
            assert what not in self.targets, f"{what} is there twice"
            self.targets[what] = (wanted, None, MISSING)

    def judge(self, what, found, met):
        """Found is what the page shows. `met` is None where data are missing."""
        wanted, before, _ = self.targets[what]
        assert before is None, f"{what} is judged twice"
        outcome = MISSING if found is None or met is None else MET if met else MISSED
        self.targets[what] = (wanted, NOT_MEASURED if found is None else found, outcome)

    def judged(self):
        """Rows of the table of targets."""
        return [(what, wanted, found or NOT_MEASURED, outcome) for what, (wanted, found, outcome) in self.targets.items()]

    def having(self, outcome):
        return [f"{what}: {found}" for what, _, found, one in self.judged() if one == outcome]


def without(absent):
    """What a target shows when data of these are missing."""
    return "without " + ", ".join(map(str, absent))


def result(path):
    """What a program told as JSON; None where it told nothing, was cut short, or did not run."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def results(directory, pattern):
    """Those that are complete, in the order of their names."""
    found = (result(path) for path in sorted(directory.glob(pattern)))
    return [one for one in found if one is not None]


def text(path):
    """A file's words; none where it is not there."""
    return path.read_text() if path.exists() else ""
