"""The notebooks, cell by cell as a kernel runs them, and the drawings of a run."""

import ast
import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as xml

import quaver

NOTEBOOKS = pathlib.Path(os.environ["QUAVER_NOTEBOOKS"])


def execute(path: pathlib.Path) -> list:
    """What each cell of code shows: the value of its last expression, and None where it is none."""
    names: dict = {"__name__": "__main__"}
    shown = []
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), str(path))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(tree, path, "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), path, "eval"), names)
        shown.append(said.getvalue() if value is None else value)
    return shown


class Notebooks(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        before = os.environ.get("QUAVER_RUNS")
        os.environ["QUAVER_RUNS"] = place.name
        self.addCleanup(lambda: os.environ.pop("QUAVER_RUNS") if before is None else os.environ.update(QUAVER_RUNS=before))

    def test_packets(self) -> None:
        (received, late), chart, delay_us, causes = execute(NOTEBOOKS / "packets.ipynb")
        self.assertGreater(received, 0)
        self.assertEqual(causes["packets"].sum() > 0, late > 0)
        self.assertLess(0, delay_us[0.5])
        self.assertIn("data:image/svg+xml;base64,", chart._repr_html_())

    def test_wakeups(self) -> None:
        noise_ns, verdict, gaps, said, chart = execute(NOTEBOOKS / "wakeups.ipynb")
        self.assertEqual(len(noise_ns), 4)
        self.assertTrue(verdict)
        self.assertLessEqual(len(gaps), 5)
        self.assertIn(".", said)
        self.assertIsInstance(chart, quaver.Chart)

    def test_programs(self) -> None:
        _, locks, said = execute(NOTEBOOKS / "programs.ipynb")
        self.assertGreater(locks[0][0], 0, "three threads share a lock")
        self.assertIn("wait", said)

    def test_drawings_are_those_of_the_report(self) -> None:
        run = quaver.run(["noise", "--for", "200ms", "--tier", "user", "--quiet"])
        found = quaver.charts(run)
        page = (run.path / "report.html").read_text()
        self.assertGreater(len(found), 0)
        for name, chart in found.items():
            self.assertIn(f'<figure id="{name}"', page)
            self.assertEqual(xml.fromstring(chart.svg).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(quaver.plot(run), next(iter(found.values())))
        with self.assertRaisesRegex(KeyError, "no chart 'nothing'; there are "):
            quaver.plot(run, "nothing")
        target = run.path / "drawn.svg"
        quaver.plot(run).save(target)
        self.assertEqual(target.read_text(), next(iter(found.values())).svg)
        answer = quaver.result(run)
        self.assertIn(answer.verdict, " ".join(page.split()))


if __name__ == "__main__":
    unittest.main()
