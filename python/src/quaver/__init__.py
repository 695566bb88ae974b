"""Runs of Quaver: results as dataclasses, tables as Arrow, and the program's verbs."""

from ._errors import FormatError, NoSuchRun, ProgramError
from ._program import Change, Comparison, compare, run
from ._results import Cause, Distribution, Lateness, Losses, PacketSummary, Summary, Unexplained
from ._runs import Run, open, runs
from ._tables import query, tables

__all__ = [
    "Cause",
    "Change",
    "Comparison",
    "Distribution",
    "FormatError",
    "Lateness",
    "Losses",
    "NoSuchRun",
    "PacketSummary",
    "ProgramError",
    "Run",
    "Summary",
    "Unexplained",
    "compare",
    "open",
    "query",
    "run",
    "runs",
    "tables",
]
