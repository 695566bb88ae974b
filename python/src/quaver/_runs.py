"""Run directories."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import FormatError, NoSuchRun
from ._results import Summary, summary_of

if TYPE_CHECKING:
    import pyarrow

#: Latest version of the run directory and of its tables that this package reads.
FORMAT = 1
#: Runs lie at most so many directories below a root.
_DEEPEST = 3


@dataclass(frozen=True)
class Run:
    """A run directory."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.resolve().name

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`: what was asked, when, on which host, with which clock.

        Raises FormatError if it is damaged or of a later format.
        """
        manifest = _json(self.path / "manifest.json")
        version = manifest.get("format")
        if not isinstance(version, int):
            raise FormatError(f"{self.path}: the manifest does not state its format")
        if version > FORMAT:
            raise FormatError(f"{self.path}: format {version} is later than {FORMAT}, which this package reads")
        return manifest

    @property
    def verb(self) -> str:
        """The verb that made it, for example `chase`."""
        return str(self.manifest["verb"])

    @property
    def started(self) -> datetime:
        """Start by the wall clock of the measured host, in UTC, to the microsecond."""
        seconds, ns = divmod(int(self.manifest["started_realtime_ns"]), 1_000_000_000)
        return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=ns // 1000)

    @property
    def complete(self) -> bool:
        """Whether it ended normally and everything is stored."""
        return bool(self.manifest["complete"])

    @property
    def tags(self) -> tuple[str, ...]:
        """Names that people gave it by `quaver runs tag`."""
        try:
            return tuple(filter(None, (self.path / "tags.txt").read_text().splitlines()))
        except FileNotFoundError:
            return ()

    @property
    def summary(self) -> Summary:
        """The results: a PacketSummary of chase, sink and watch, else a Summary.

        Raises FileNotFoundError if there is none; `quaver analyze` makes it.
        """
        summary, details = _json(self.path / "summary.json"), self.path / "details.json"
        return summary_of(_json(details) if "left_out" in summary and details.is_file() else summary)

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of its tables: `packets`, `events`, `late`, `gaps`, `path`, ..."""
        from ._tables import files_of

        return tuple(files_of(self))

    def table(self, name: str, columns: list[str] | None = None) -> pyarrow.Table:
        """A table as Arrow, whole or in some columns. Text is dictionary-encoded.

        The file is mapped into memory and decoded once; `to_pandas()` and `polars.from_arrow` go on from there. Raises KeyError
        if the run has no such table, and FormatError if it is of a later format.
        """
        from ._tables import read

        return read(self, name, columns)

    def __fspath__(self) -> str:
        return str(self.path)


def open(run: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Run:
    """A run by its path or, below `root`, by `last`, `last~2` (the third newest), its name, or a tag.

    `root` is `QUAVER_RUNS` or `runs` unless given. A path that exists goes first. Raises NoSuchRun.
    """
    path = Path(run)
    word = os.fspath(run)
    if (path / "manifest.json").is_file():
        return Run(path)
    if path.exists() or path.name != word:
        raise NoSuchRun(f"{word}: not a run directory")
    all_runs = runs(root)
    place = "0" if word == "last" else word.removeprefix("last~") if word.startswith("last~") else ""
    if place.isdecimal():
        found = all_runs[int(place) : int(place) + 1]
    else:
        found = [one for one in all_runs if one.name == word or word in one.tags]
    if not found:
        raise NoSuchRun(f"{word}: no run below {_root(root)} has this name or tag")
    return found[0]


def runs(root: str | os.PathLike[str] | None = None) -> list[Run]:
    """The runs below `root` (`QUAVER_RUNS` or `runs` unless given), the newest first.

    What is no run or cannot be read is passed over. A run within a run is part of it.
    """
    found: list[Run] = []
    _collect(_root(root), _DEEPEST, found)
    return sorted(found, key=lambda one: (one.manifest["started_realtime_ns"], one.name), reverse=True)


def _root(root: str | os.PathLike[str] | None) -> Path:
    return Path(root if root is not None else os.environ.get("QUAVER_RUNS", "runs"))


def _collect(place: Path, depth: int, into: list[Run]) -> None:
    if (place / "manifest.json").is_file():
        run = Run(place)
        try:
            if isinstance(run.manifest.get("started_realtime_ns"), int):
                into.append(run)
        except (FormatError, OSError):
            pass
        return
    try:
        entries = [one for one in place.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError:
        return
    for entry in entries if depth > 0 else []:
        _collect(entry, depth - 1, into)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path}: not an object")
    return value
