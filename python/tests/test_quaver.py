"""The package beside runs that the program measures here, and beside tables that Arrow writes."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import pyarrow as pa
import pyarrow.parquet as parquet

import quaver

CHASE = "chase --for 300ms --period 1ms --pace sleep --receive block --lab loopback --tier user --quiet".split()
EARLIER = {"format": 1, "verb": "chase", "complete": True, "started_realtime_ns": 1_000_000_007, "host": {}}


def made_up(root: pathlib.Path, name: str, columns: dict, keys: dict | None = None, **manifest: object) -> quaver.Run:
    """A run with one table, as an earlier program may have left it."""
    path = root / name
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps({**EARLIER, **manifest}))
    table = pa.table(columns).replace_schema_metadata(keys or {"quaver.format": "1", "quaver.table": "packets"})
    parquet.write_table(table, path / "samples.parquet")
    return quaver.Run(path)


class Measured(unittest.TestCase):
    """Two runs of a stream over loopback, every packet of which is later than a nanosecond."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        # A quote in the path must not end a string of SQL.
        cls.root = pathlib.Path(cls.place.name) / "it's"
        cls.first, cls.second = (quaver.run(CHASE, root=cls.root) for _ in range(2))
        for run in (cls.first, cls.second):
            subprocess.run(
                [os.environ["QUAVER"], "analyze", run, "--late", "1ns"], check=True, stdout=subprocess.DEVNULL
            )

    def test_the_table_of_late_packets_adds_up_to_the_results(self) -> None:
        summary, late = self.first.summary, self.first.table("late")
        self.assertIsInstance(summary, quaver.PacketSummary)
        sums: dict = {}
        for row in late.to_pylist():
            key = (row["source"], row["name"])
            sums[key] = sums.get(key, 0) + row["end_ns"] - row["start_ns"]
        self.assertGreater(late.num_rows, 0)
        self.assertEqual(sum(sums.values()), summary.lateness.time_ns)
        self.assertEqual(sums.pop((None, None), 0), summary.unexplained.time_ns)
        self.assertEqual(sums, {(c.source, c.name): c.time_ns for c in summary.causes if c.time_ns})
        self.assertEqual(len(set(late["seq"].to_pylist())), summary.lateness.packets)
        self.assertEqual(summary["lateness.distribution.p99_ns"], summary.lateness.distribution.p99_ns)

    def test_tables_are_arrow_and_go_to_pandas(self) -> None:
        packets = self.first.table("packets")
        self.assertEqual(self.first.table_names, ("events", "late", "packets"))
        self.assertEqual(packets["app_ns"].to_pylist(), packets.to_pandas()["app_ns"].tolist())
        self.assertEqual(self.first.table("packets", ["seq"]).column_names, ["seq"])
        certainty = self.first.table("late").schema.field("certainty").type
        self.assertTrue(pa.types.is_dictionary(certainty), certainty)
        with self.assertRaisesRegex(KeyError, "no table 'gaps'; it has events, late, packets"):
            self.first.table("gaps")
        with self.assertRaisesRegex(KeyError, "no column nothing"):
            self.first.table("packets", ["seq", "nothing"])

    def test_runs_are_named_as_the_program_names_them(self) -> None:
        (self.first.path / "tags.txt").write_text("before\n")
        self.assertEqual(quaver.runs(self.root), [self.second, self.first])
        self.assertEqual([one.name for one in self.root.iterdir() if one.name.startswith(".")], [])
        names = {"last": self.second, "last~1": self.first, "before": self.first, self.first.name: self.first}
        for name, run in names.items():
            self.assertEqual(quaver.open(name, self.root), run)
        self.assertEqual(quaver.open(self.first.path), self.first)
        for name in ("last~2", "last~", "last~x", "after", self.place.name, "../last"):
            with self.assertRaises(quaver.NoSuchRun):
                quaver.open(name, self.root)
        self.assertEqual((self.first.verb, self.first.complete, self.first.tags), ("chase", True, ("before",)))
        seconds = self.first.manifest["started_realtime_ns"] // 1_000_000_000
        self.assertEqual(int(self.first.started.timestamp()), seconds)

    def test_a_comparison_is_that_of_the_program(self) -> None:
        found = quaver.compare(self.first, [self.second])
        printed = subprocess.run(
            [os.environ["QUAVER"], "compare", "--json", self.first, self.second], check=True, capture_output=True
        )
        self.assertEqual(found.raw, json.loads(printed.stdout))
        self.assertEqual((found.kind, found.p99.a), ("chase", found.raw["p99"]["a"]))
        with self.assertRaisesRegex(quaver.ProgramError, "no-such-run"):
            quaver.compare(self.first, "no-such-run")

    def test_what_the_program_refuses_is_an_error_that_keeps_the_run(self) -> None:
        with self.assertRaises(quaver.ProgramError) as refused:
            quaver.run(["chase", "--no-such-option"], root=self.place.name)
        self.assertEqual((refused.exception.status, refused.exception.run), (2, None))
        with tempfile.TemporaryDirectory() as root:
            with self.assertRaises(quaver.ProgramError) as held:
                quaver.run([*CHASE, "--fail-if", "losses.received > 0"], root=root)
            self.assertEqual((held.exception.status, held.exception.run), (1, quaver.open("last", root)))

    def test_a_query_sees_all_runs(self) -> None:
        both = quaver.runs(self.root)
        answer = quaver.query("SELECT run, sum(end_ns - start_ns)::BIGINT AS ns FROM late GROUP BY run", both)
        times = {row["run"]: row["ns"] for row in answer.to_pylist()}
        self.assertEqual(times, {run.name: run.summary.lateness.time_ns for run in both})
        packets = quaver.query("SELECT count(*) AS n FROM packets JOIN runs USING (run) WHERE verb = 'chase'", both)
        self.assertEqual(packets["n"].to_pylist(), [sum(run.table("packets").num_rows for run in both)])
        listed = quaver.query("SELECT run, kernel FROM runs WHERE complete ORDER BY started", both).to_pylist()
        kernel = os.uname().release
        self.assertEqual([tuple(row.values()) for row in listed], [(run.name, kernel) for run in reversed(both)])
        self.assertEqual(quaver.query("SELECT count(*) AS n FROM runs", [])["n"].to_pylist(), [0])


class MadeUp(unittest.TestCase):
    """Files of other versions."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)

    def test_a_column_that_a_run_lacks_is_null_there(self) -> None:
        runs = [
            made_up(self.root, "a", {"seq": [1, 2], "ready_ns": [5, None]}),
            made_up(self.root, "b", {"seq": [3]}),
            made_up(self.root, "c", {"x": [1]}, {"quaver.format": "1", "quaver.table": "other"}),
        ]
        joined = quaver.tables(runs, "packets").select(["run", "verb", "seq", "ready_ns"])
        rows = [tuple(row.values()) for row in joined.to_pylist()]
        self.assertEqual(rows, [("a", "chase", 1, 5), ("a", "chase", 2, None), ("b", "chase", 3, None)])
        some = quaver.tables([str(run.path) for run in runs], "packets", ["ready_ns"])
        self.assertEqual(some["ready_ns"].to_pylist(), [5, None, None])
        self.assertEqual(quaver.tables(runs, "late").num_rows, 0)
        queried = quaver.query("SELECT run, seq, ready_ns FROM packets ORDER BY seq", runs)
        self.assertEqual([tuple(row.values()) for row in queried.to_pylist()][2], ("b", 3, None))

    def test_what_is_later_or_damaged_is_refused(self) -> None:
        later = made_up(self.root, "a", {"seq": [1]}, {"quaver.format": "2", "quaver.table": "packets"})
        with self.assertRaisesRegex(quaver.FormatError, "format 2 is later than 1"):
            later.table("packets")
        (later.path / "samples.parquet").write_bytes(b"PAR1 damaged")
        with self.assertRaises(quaver.FormatError):
            later.table("packets")
        newer = made_up(self.root, "b", {"seq": [1]}, format=2)
        with self.assertRaisesRegex(quaver.FormatError, "format 2 is later than 1"):
            newer.verb
        (made_up(self.root, "c", {"seq": [1]}).path / "manifest.json").write_text("[]")
        self.assertEqual([run.name for run in quaver.runs(self.root)], ["a"], "what cannot be read is passed over")

    def test_fields_that_this_version_does_not_know_are_kept(self) -> None:
        run = made_up(self.root, "a", {"seq": [1]})
        (run.path / "summary.json").write_text('{"schema": "quaver.other/9", "new": {"deep": [1, 2]}}')
        self.assertEqual((type(run.summary), run.summary["new.deep.1"]), (quaver.Summary, 2))


if __name__ == "__main__":
    unittest.main()
