"""`summary.json` as dataclasses. Names and units are those of the file; docs/formats.md defines them."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Distribution:
    """Moments and exact percentiles of samples, in nanoseconds. All are 0 for no samples."""

    count: int
    min_ns: int
    mean_ns: float
    sd_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p99_9_ns: int
    p99_99_ns: int
    p99_999_ns: int
    max_ns: int


@dataclass(frozen=True)
class Losses:
    """Packets by their fate. None is unknown, and not zero."""

    sent: int | None
    received: int
    duplicates: int
    reordered: int
    network: int | None
    nic_ring: int | None
    stack: dict[str, int]
    socket_buffer: int | None
    ours: int
    unaccounted: int


@dataclass(frozen=True)
class Lateness:
    """How late packets are told, and how many there were. `time_ns` is the union of the late windows."""

    threshold_ns: int
    typical_path_ns: int
    packets: int
    time_ns: int
    distribution: Distribution


@dataclass(frozen=True)
class Cause:
    """One cause of late time, of which `inferred_ns` lies in bodies that no record or sample shows."""

    source: str
    name: str
    time_ns: int
    entry_exit_ns: int
    catch_up_ns: int
    share: float
    packets: int
    worst_ns: int
    example_seq: int
    remedy: dict[str, Any]
    inferred_ns: int = 0


@dataclass(frozen=True)
class Unexplained:
    """The late time that nothing recorded explains."""

    time_ns: int
    share: float
    packets: int
    worst_ns: int
    note: str
    example_seq: int | None = None


@dataclass(frozen=True)
class Summary:
    """Results of a run of any verb: `raw` is all of `summary.json`."""

    raw: dict[str, Any] = field(repr=False)

    def __getitem__(self, path: str) -> Any:
        """The value at a path of keys, as `--fail-if` takes it: `summary["lateness.distribution.p99_ns"]`."""
        value: Any = self.raw
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value


@dataclass(frozen=True)
class PacketSummary(Summary):
    """Results of `chase`, `sink` and `watch`. `causes` are ranked by time, the largest first."""

    period_ns: float
    duration_ns: int
    tier: str
    complete: bool
    losses: Losses
    lateness: Lateness
    causes: tuple[Cause, ...]
    unexplained: Unexplained
    warnings: tuple[str, ...] = ()


def made_of(kind: type[_T], raw: dict[str, Any]) -> _T:
    """A dataclass of the fields that it knows of an object; a later program may have written more."""
    hints = typing.get_type_hints(kind)
    values = {}
    for known in dataclasses.fields(kind):  # type: ignore[arg-type]
        if known.name == "raw":
            values["raw"] = raw
        elif known.name in raw:
            values[known.name] = _value(hints[known.name], raw[known.name])
    return kind(**values)


def _value(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return made_of(typing.cast(type, hint), value)
    if typing.get_origin(hint) is tuple:
        return tuple(_value(typing.get_args(hint)[0], one) for one in value)
    return value


def summary_of(raw: dict[str, Any]) -> Summary:
    """The dataclass of a schema: that of packets where it is theirs, else the plain one."""
    kind = PacketSummary if str(raw.get("schema", "")).startswith("quaver.chase/") else Summary
    return made_of(kind, raw)
