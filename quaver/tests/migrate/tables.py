"""Tables of runs, by a library that is not ours.

usage: tables.py age RUN       leaves the run's tables as earlier programs wrote them
       tables.py tell RUN      prints columns, rows and metadata of each table as JSON
"""

import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as parquet

# The largest distance from the application's stamp that earlier programs stored.
CLAMPED_NS = 2_147_483_647


def age(path):
    table = parquet.read_table(path)
    keys = {key: value for key, value in (table.schema.metadata or {}).items() if key in (b"quaver.format", b"quaver.table")}
    # The CPU of the stack was always there.
    empty = [name for name in table.column_names if name != "stack_cpu" and table.num_rows and table[name].null_count == table.num_rows]
    table = table.drop_columns([*empty, *(name for name in table.column_names if name == "kind_name")])
    if keys[b"quaver.table"] == b"packets":
        app = table["app_ns"].to_pylist()
        stamps = table["schedule_ns"].to_pylist()
        stamps[:2] = [app[0] - CLAMPED_NS, app[1] + CLAMPED_NS]
        place = table.column_names.index("schedule_ns")
        table = table.set_column(place, table.schema.field("schedule_ns"), pa.chunked_array([pa.array(stamps, pa.int64())]))
    parquet.write_table(table.replace_schema_metadata(keys), path, compression="zstd")


def tell(path):
    file = parquet.ParquetFile(path)
    keys = {key.decode(): value.decode() for key, value in file.metadata.metadata.items() if key.startswith(b"quaver.")}
    return {"columns": [str(field) for field in file.schema_arrow], "rows": file.metadata.num_rows, "keys": keys}


def main():
    run = pathlib.Path(sys.argv[2])
    tables = sorted(run.glob("*.parquet"))
    if sys.argv[1] == "age":
        for path in tables:
            age(path)
    else:
        print(json.dumps({path.name: tell(path) for path in tables}))


main()
