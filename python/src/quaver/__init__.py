"""Runs of Quaver: results as dataclasses, tables as Arrow, and the program's verbs."""

from ._charts import Chart, charts, plot
from ._errors import FormatError, NoSuchRun, ProgramError
from ._program import Change, Comparison, Remedy, Result, compare, result, run
from ._results import Cause, Distribution, Lateness, Losses, PacketSummary, Summary, Unexplained
from ._runs import Run, open, runs
from ._tables import query, tables

__all__ = [
    "Cause",
    "Change",
    "Chart",
    "Comparison",
    "Distribution",
    "FormatError",
    "Lateness",
    "Losses",
    "NoSuchRun",
    "PacketSummary",
    "ProgramError",
    "Remedy",
    "Result",
    "Run",
    "Summary",
    "Unexplained",
    "charts",
    "compare",
    "open",
    "plot",
    "query",
    "result",
    "run",
    "runs",
    "tables",
]
