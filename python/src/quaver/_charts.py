"""Drawings of a run, as its report has them."""

from __future__ import annotations

import base64
import html
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from ._runs import Run, open

_FIGURE = re.compile(r'<figure id="([a-z0-9-]+)"[^>]*>(.*?)</figure>', re.DOTALL)
_TITLE = re.compile(r"<h3>(.*?)</h3>", re.DOTALL)
# Marks of a legend have no size.
_SVG = re.compile(r'<svg (viewBox="0 0 ([0-9.]+) ([0-9.]+)")[^>]*>(.*?)</svg>', re.DOTALL)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True)
class Chart:
    """A drawing. Notebooks show it; `save` writes it as SVG."""

    name: str
    title: str
    svg: str = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as a file of its own."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        # As an image, for the report's styles would reach the whole notebook.
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="{html.escape(self.title)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


def charts(run: Run | str | os.PathLike[str]) -> dict[str, Chart]:
    """The drawings of a run's report by their names, in its order; those that are drawn when a reader chooses them are left out.

    Raises FileNotFoundError if the run has no report; `quaver report` makes it.
    """
    run = run if isinstance(run, Run) else open(run)
    page = (run.path / "report.html").read_text(encoding="utf-8")
    # Not those of what scripts draw.
    styles = "\n".join(style for style in _STYLE.findall(page) if "--ink" in style)
    found = {}
    for name, figure in _FIGURE.findall(page):
        drawing, title = _SVG.search(figure), _TITLE.search(figure)
        if drawing is None:
            continue
        words = html.unescape(re.sub(r"<[^>]*>", "", title[1])) if title else name
        box, width, height, shapes = drawing.groups()
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} width="{width}" height="{height}" class="drawing">'
            f"<style><![CDATA[{styles}\nsvg {{ font: 12px system-ui, sans-serif; background: var(--panel); }}]]></style><g class=\"drawing\">{shapes}</g></svg>\n"
        )
        found[name] = Chart(name, words, svg)
    return found


def plot(run: Run | str | os.PathLike[str], chart: str | None = None) -> Chart:
    """A drawing of a run by its name, or the first one of its report.

    Raises KeyError if the report has none of that name.
    """
    found = charts(run)
    name = next(iter(found), "") if chart is None else chart
    if name not in found:
        raise KeyError(f"no chart {name!r}; there are {', '.join(found) or 'none'}")
    return found[name]
