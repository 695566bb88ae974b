"""The program `quaver`, started."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._errors import ProgramError
from ._results import made_of
from ._runs import Run, _root, runs

#: What names a run: itself, its path, its name or a tag.
Named = Run | str | os.PathLike[str]


@dataclass(frozen=True)
class Change:
    """A figure of both sides. `change` is B/A - 1; intervals cover 95 % and are None where none is known."""

    a: float | None = None
    b: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    found: bool | None = None


@dataclass(frozen=True)
class Comparison:
    """What `quaver compare` says. `raw` is all of `quaver.compare/1`."""

    kind: str
    verdict: str | None
    warnings: tuple[str, ...]
    mean: Change | None = None
    p50: Change | None = None
    p90: Change | None = None
    p99: Change | None = None
    p99_9: Change | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


def compare(a: Named | Sequence[Named], b: Named | Sequence[Named]) -> Comparison:
    """What differs between two runs, or two groups of runs, of one kind: `quaver compare A... --json -- B...`.

    Raises ProgramError if the program refuses.
    """
    ended = _quaver(["compare", "--json", *_paths(a), "--", *_paths(b)])
    if ended.returncode != 0:
        raise ProgramError(ended.returncode, _last_line(ended.stderr))
    raw = json.loads(ended.stdout)
    changes = {key: made_of(Change, raw[key]) for key in ("mean", "p50", "p90", "p99", "p99_9") if key in raw}
    return Comparison(
        kind=raw["kind"], verdict=raw["verdict"], warnings=tuple(raw["warnings"]), raw=raw, **changes
    )


@dataclass(frozen=True)
class Remedy:
    """Something to do against a cause, of which `share` is the part of the whole."""

    against: str
    what: str
    share: float | None = None
    when: str | None = None


@dataclass(frozen=True)
class Result:
    """What came of a run: the first sentence of its page, and what removes what was found."""

    verdict: str | None
    remedies: tuple[Remedy, ...]
    warnings: tuple[str, ...]
    incomplete: bool
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


def result(run: Named) -> Result:
    """What came of a run, by `quaver analyze --json`, which analyses it again by the rules of the installed program.

    Raises ProgramError if the program refuses.
    """
    ended = _quaver(["analyze", "--json", os.fspath(run)])
    if ended.returncode != 0:
        raise ProgramError(ended.returncode, _last_line(ended.stderr))
    raw = json.loads(ended.stdout)["result"]
    return Result(
        verdict=raw["verdict"],
        remedies=tuple(made_of(Remedy, one) for one in raw["remedies"]),
        warnings=tuple(raw["warnings"]),
        incomplete=raw["incomplete"],
        raw=raw,
    )


def run(arguments: Sequence[str | os.PathLike[str]], root: str | os.PathLike[str] | None = None) -> Run:
    """Runs a verb that measures, for example `run(["chase", "--for", "10s"])`, and returns the run that it stored.

    The run lies in `root` (`QUAVER_RUNS` or `runs` unless given); `-o` is not among the arguments. Raises ProgramError if the
    program ends with another status than 0; its `run` is what it stored until then.
    """
    place = _root(root)
    place.mkdir(parents=True, exist_ok=True)
    # A directory of its own tells this run from those that others begin meanwhile.
    with tempfile.TemporaryDirectory(prefix=".quaver-", dir=place) as own:
        # By the environment, for the last words may be those of a program.
        ended = _quaver([os.fspath(one) for one in arguments], {"QUAVER_RUNS": own})
        stored = runs(own)
        made = None
        if stored:
            target = place / stored[0].path.relative_to(own).parts[0]
            os.rename(Path(own) / target.name, target)
            made = Run(target)
    if ended.returncode != 0 or made is None:
        raise ProgramError(ended.returncode, _last_line(ended.stderr) or "it stored no run", made)
    return made


def _quaver(arguments: list[str], more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("QUAVER", "quaver")
    return subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, **(more or {})},
    )


def _paths(side: Named | Sequence[Named]) -> list[str]:
    several: Sequence[Named] = [side] if isinstance(side, (Run, str, os.PathLike)) else side
    return [os.fspath(one) for one in several]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
