"use strict";
// The pane of a comparison's report: one plot at a time.
Quaver.pane = {
  ...Quaver.chooser,
  kind: "density", pattern: 0, place: "user",
  plots: {
    density: Quaver.compare.density, interarrival: Quaver.compare.interarrival, memory: Quaver.compare.memory,
    size: Quaver.compare.loss("size", "packet size, octets"), gap: Quaver.compare.loss("gap", "gap between packets, octets at 1 Gbit/s"),
  },

  colour: (at) => Quaver.colour("layer-" + (at % 9)),
  dash: (at) => [[], [7, 4], [2, 3], [10, 3, 2, 3]][Math.floor(at / 2) % 4],

  build() {
    const by = (id) => document.getElementById(id), holder = by("compare-pane"), inKernel = this.place === "kernel";
    const shown = (inKernel && Quaver.compare.kernel[this.kind]) || this.plots[this.kind];
    for (const label of ["compare-pattern-label", "compare-place-label"]) {
      if (by(label)) by(label).style.display = shown.ofLoss ? "none" : "";
    }
    if (this.plot) this.plot.destroy();
    this.plot = null;
    holder.textContent = "";
    const measured = Quaver.data.patterns[this.pattern];
    const pattern = inKernel ? { ...measured, arms: measured.kernel } : measured, made = shown.make(pattern);
    holder.classList.toggle("empty", !made);
    by("compare-key").textContent = "";
    by("compare-state").textContent = made ? shown.say(pattern) : "";
    if (!made) {
      holder.textContent = "Nothing was measured for this plot.";
      return;
    }
    this.made = made;
    this.measure = this.measureOf(shown.logX);
    const room = made.points ? (made.x.at(-1) - made.x[0]) * 0.03 || 1 : 0;
    this.whole = [made.x[0] - room, made.x.at(-1) + room];
    this.plot = new uPlot(this.options(holder, shown, made), [made.x, ...made.lines.map((line) => line.y)], holder);
    this.key(made);
    this.hover((x) => this.hint(x, shown, made));
  },

  hint(x, shown, made) {
    let at = 0;
    const apart = (value) => Math.abs(this.measure.to(value) - this.measure.to(x));
    made.x.forEach((value, index) => { if (apart(value) < apart(made.x[at])) at = index; });
    const rows = made.lines.filter((line) => line.y[at] !== null && (line.y[at] !== 0 || shown.ofLoss))
      .map((line) => `${line.name}: ${line.words?.[at] ?? (shown.shares ? Quaver.compare.share(line.y[at]) : line.y[at].toFixed(3))}`);
    return [shown.at(made.x[at]), ...rows].join("\n");
  },

  options(holder, shown, made) {
    const x = { label: shown.label, size: 34, labelSize: 20 };
    const ticks = (u, values) => values.map((value) => shown.tick(value));
    const xAxis = shown.logX ? Quaver.logAxis(shown.tick, x) : Quaver.axis({ ...x, values: ticks, space: 76 });
    const yAxis = Quaver.axis({ size: this.fit, values: (u, values) => values.map((value) => (shown.shares ? Quaver.compare.share(value) : String(parseFloat(value.toPrecision(3))))) });
    const series = made.lines.map((line, at) => ({
      stroke: this.colour(at), width: 1.8, dash: this.dash(at), points: { show: Boolean(made.points), size: 6, fill: this.colour(at) },
    }));
    const least = Math.min(0, ...made.lines.flatMap((line) => line.y.filter((value) => value !== null)));
    const most = Math.max(...made.lines.flatMap((line) => line.y.filter((value) => value !== null)), 0.01);
    return {
      ...this.frame(holder, 14),
      scales: {
        x: this.xScale(shown.logX),
        y: { range: [least < 0 ? least * 1.06 : 0, most * 1.06] },
      },
      axes: [xAxis, yAxis], series: [{}, ...series],
    };
  },

  key(made) {
    const holder = document.getElementById("compare-key");
    made.lines.forEach((line, at) => {
      const item = Quaver.element("span");
      const swatch = Quaver.element("svg", { width: 28, height: 10, "aria-hidden": "true" });
      swatch.append(Quaver.element("line", { x1: 0, x2: 28, y1: 5, y2: 5, "stroke-dasharray": this.dash(at).join(" "), style: `stroke:${this.colour(at)};stroke-width:2.5` }));
      item.append(swatch, line.name);
      holder.append(item);
    });
  },

  // Controls may come back from the browser's memory with other values than the page's.
  start() {
    const by = (id) => document.getElementById(id);
    [this.kind, this.pattern] = [by("compare-plot").value, Number(by("compare-pattern").value)];
    by("compare-plot").addEventListener("change", () => { this.kind = by("compare-plot").value; this.build(); });
    by("compare-pattern").addEventListener("change", () => { this.pattern = Number(by("compare-pattern").value); this.build(); });
    const place = by("compare-place");
    if (place) {
      this.place = place.value;
      place.addEventListener("change", () => { this.place = place.value; this.build(); });
    }
    this.controls("compare-pane");
    this.show();
  },
};

Quaver.data = JSON.parse(document.getElementById("data").textContent);
Quaver.pane.start();
document.documentElement.dataset.ready = "yes";
