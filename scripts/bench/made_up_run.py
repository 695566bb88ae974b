"""Results of a bench run that were made up, so that a judge of real ones can be checked."""

import json
import tempfile
from pathlib import Path

from targets import MET, MISSING, Page


def judged(part, files):
    """What the part of the page about these files finds: by what is judged, what the page shows and the outcome.

    `files`: text or what becomes JSON, by name; a name may lead into a directory.
    """
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            path = Path(directory) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        page = Page()
        part(page, Path(directory))
        return {what: (found, outcome) for what, _, found, outcome in page.judged()}


def not_met(part, files):
    """What the page shows of the targets that were not met."""
    return {what: found for what, (found, outcome) in judged(part, files).items() if outcome != MET}


def having(part, files, outcome):
    return {what for what, (_, one) in judged(part, files).items() if one == outcome}


def check_data(part, files, targets, apart=()):
    """All targets are met with all data, and all are missing without. Each file counts but those whose name begins with
    one of `apart`: where it is not there, is empty, or is cut short (text: by its last line), a target is missing."""
    complete = judged(part, files)
    assert complete.keys() == targets.keys(), complete.keys() ^ targets.keys()
    assert all(outcome == MET for _, outcome in complete.values()), complete
    nothing = judged(part, {})
    assert nothing.keys() == targets.keys(), nothing.keys() ^ targets.keys()
    assert {outcome for _, outcome in nothing.values()} == {MISSING}, nothing
    for name, content in files.items():
        if name.startswith(tuple(apart)):
            continue
        short = "".join(content.splitlines(True)[:-1]) if isinstance(content, str) else json.dumps(content)[:-2]
        rest = {other: kept for other, kept in files.items() if other != name}
        for damaged in (rest, rest | {name: ""}, rest | {name: short}):
            assert having(part, damaged, MISSING), f"{name} is not missed"
