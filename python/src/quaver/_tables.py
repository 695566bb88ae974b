"""Parquet tables of runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import FormatError
from ._runs import FORMAT, Run, open

if TYPE_CHECKING:
    import pyarrow


def files_of(run: Run) -> dict[str, Path]:
    """The file of each table, by the name that it states in its metadata."""
    import pyarrow.parquet as parquet

    found = {}
    for path in sorted(run.path.glob("*.parquet")):
        try:
            metadata = parquet.read_metadata(path).metadata or {}
        except (ValueError, OSError) as error:
            raise FormatError(f"{path}: {error}") from None
        name = metadata.get(b"quaver.table")
        if name is None:
            continue
        version = metadata.get(b"quaver.format", b"")
        if not version.isdigit():
            raise FormatError(f"{path}: it does not state its format")
        if int(version) > FORMAT:
            raise FormatError(f"{path}: format {int(version)} is later than {FORMAT}, which this package reads")
        found[name.decode()] = path
    return found


def read(run: Run, name: str, columns: Sequence[str] | None) -> pyarrow.Table:
    """The table of that name."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    files = files_of(run)
    if name not in files:
        raise KeyError(f"{run.path} has no table {name!r}; it has {', '.join(files) or 'none'}")
    texts = [one.name for one in parquet.read_schema(files[name]) if pa.types.is_string(one.type)]
    file = parquet.ParquetFile(files[name], memory_map=True, read_dictionary=texts)
    known = set(file.schema_arrow.names)
    if unknown := [one for one in columns or [] if one not in known]:
        raise KeyError(f"table {name!r} of {run.path} has no column {', '.join(unknown)}")
    return file.read(columns=None if columns is None else list(columns))


def tables(
    runs: Iterable[Run | str | os.PathLike[str]], name: str, columns: Sequence[str] | None = None
) -> pyarrow.Table:
    """One table of many runs, one after the other, with the columns `run` and `verb` in front.

    Runs without that table are left out, and a column that a run lacks is null there. Without any such table there are no rows
    and no more columns than these two.
    """
    import pyarrow as pa

    label = pa.dictionary(pa.int32(), pa.string())
    heads = [pa.field("run", label), pa.field("verb", label)]
    parts = [pa.schema(heads).empty_table()]
    for one in runs:
        run = one if isinstance(one, Run) else open(one)
        files = files_of(run)
        if name not in files:
            continue
        wanted = None
        if columns is not None:
            import pyarrow.parquet as parquet

            known = set(parquet.read_schema(files[name]).names)
            wanted = [column for column in columns if column in known]
        part = read(run, name, wanted)
        for place, (head, value) in enumerate(zip(heads, (run.name, run.verb))):
            values = pa.DictionaryArray.from_arrays(pa.array([0] * part.num_rows, pa.int32()), [value])
            part = part.add_column(place, head, values)
        parts.append(part)
    return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()


# As `quaver query` has them.
_VIEWS = {"path": "paths", "sim-sweep": "sim_points"}


def query(sql: str, runs: Iterable[Run | str | os.PathLike[str]]) -> pyarrow.Table:
    """What DuckDB answers to `sql` over runs, as Arrow. It needs the package `duckdb`.

    The view `runs` has a row for each run (`run`, `path`, `verb`, `kernel`, `cpu`, `started`, `complete`). Each table
    (`packets`, `late`, `events`, `waits`, `paths`) is a view of the Parquet files of all runs, with the column `run` in front. A view
    exists if some run has that table.
    """
    import duckdb
    import pyarrow as pa

    every = [one if isinstance(one, Run) else open(one) for one in runs]
    fields = ["run", "path", "verb", "kernel", "cpu", "started", "complete"]
    types = [*[pa.string()] * 5, pa.timestamp("us", "UTC"), pa.bool_()]
    rows = [
        (one.name, str(one.path), one.verb, _fact(one, "kernel", "release"), _fact(one, "cpu", "model"))
        + (one.started, one.complete)
        for one in every
    ]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    connection = duckdb.connect()
    try:
        connection.register("runs", pa.table(columns, fields))
        files = [(one.name, files_of(one)) for one in every]
        for table in sorted({table for _, found in files for table in found}):
            paths = {str(found[table]): name for name, found in files if table in found}
            view = _VIEWS.get(table) or table.replace("-", "_")
            names = " ".join(f"WHEN {_quoted(path)} THEN {_quoted(name)}" for path, name in paths.items())
            listed = ", ".join(map(_quoted, paths))
            connection.execute(
                f"CREATE VIEW \"{view}\" AS SELECT CASE filename {names} END AS run, * EXCLUDE (filename) "
                f"FROM read_parquet([{listed}], union_by_name = true, filename = true)"
            )
        return connection.sql(sql).to_arrow_table()
    finally:
        connection.close()


def _fact(run: Run, group: str, name: str) -> str | None:
    """A fact of the measured host; None where it was not collected."""
    facts = (run.manifest.get("host") or {}).get(group) or {}
    return None if facts.get(name) is None else str(facts[name])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
