"use strict";
// The pane of a comparison's report: one plot at a time.
Quaver.pane = {
  kind: "density", pattern: 0, plot: null,
  plots: {
    density: Quaver.compare.density, interarrival: Quaver.compare.interarrival, memory: Quaver.compare.memory,
    size: Quaver.compare.loss("size", "packet size, octets"), gap: Quaver.compare.loss("gap", "gap between packets, octets at 1 Gbit/s"),
  },

  colour: (at) => Quaver.colour("layer-" + (at % 9)),
  dash: (at) => [[], [7, 4], [2, 3], [10, 3, 2, 3]][Math.floor(at / 2) % 4],

  build() {
    const by = (id) => document.getElementById(id), holder = by("compare-pane"), shown = this.plots[this.kind];
    by("compare-pattern-label").style.display = shown.ofLoss ? "none" : "";
    if (this.plot) this.plot.destroy();
    this.plot = null;
    holder.textContent = "";
    const pattern = Quaver.data.patterns[this.pattern], made = shown.make(pattern);
    holder.classList.toggle("empty", !made);
    by("compare-key").textContent = "";
    by("compare-state").textContent = made ? shown.say(pattern) : "";
    if (!made) {
      holder.textContent = "Nothing was measured for this plot.";
      return;
    }
    this.made = made;
    this.measure = shown.logX ? { to: Math.log10, from: (value) => 10 ** value } : { to: (value) => value, from: (value) => value };
    const room = made.points ? (made.x.at(-1) - made.x[0]) * 0.03 || 1 : 0;
    this.whole = [made.x[0] - room, made.x.at(-1) + room];
    this.plot = new uPlot(this.options(holder, shown, made), [made.x, ...made.lines.map((line) => line.y)], holder);
    this.key(made);
    const { over } = this.plot;
    over.addEventListener("mousemove", (event) => Quaver.tip(this.hint(event, shown, made), event));
    over.addEventListener("mouseleave", () => Quaver.tip(""));
  },

  hint(event, shown, made) {
    const x = this.plot.posToVal(event.clientX - this.plot.over.getBoundingClientRect().left, "x");
    let at = 0;
    const apart = (value) => Math.abs(this.measure.to(value) - this.measure.to(x));
    made.x.forEach((value, index) => { if (apart(value) < apart(made.x[at])) at = index; });
    const rows = made.lines.filter((line) => line.y[at] !== null && (line.y[at] !== 0 || shown.ofLoss))
      .map((line) => `${line.name}: ${line.words?.[at] ?? (shown.shares ? Quaver.compare.share(line.y[at]) : line.y[at].toFixed(3))}`);
    return [shown.at(made.x[at]), ...rows].join("\n");
  },

  options(holder, shown, made) {
    const fit = (u, values) => 20 + 6.6 * Math.max(4, ...(values || []).map((text) => String(text || "").length));
    const x = { label: shown.label, size: 34, labelSize: 20 };
    const ticks = (u, values) => values.map((value) => shown.tick(value));
    const xAxis = shown.logX ? Quaver.logAxis(shown.tick, x) : Quaver.axis({ ...x, values: ticks, space: 76 });
    const yAxis = Quaver.axis({ size: fit, values: (u, values) => values.map((value) => (shown.shares ? Quaver.compare.share(value) : String(parseFloat(value.toPrecision(3))))) });
    const series = made.lines.map((line, at) => ({
      stroke: this.colour(at), width: 1.8, dash: this.dash(at), points: { show: Boolean(made.points), size: 6, fill: this.colour(at) },
    }));
    const least = Math.min(0, ...made.lines.flatMap((line) => line.y.filter((value) => value !== null)));
    const most = Math.max(...made.lines.flatMap((line) => line.y.filter((value) => value !== null)), 0.01);
    return {
      width: holder.clientWidth, height: Math.max(300, Math.min(460, innerHeight * 0.55)), legend: { show: false }, padding: [12, 14, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      scales: {
        x: { time: false, distr: shown.logX ? 3 : 1, range: (u, from, to) => [from ?? this.whole[0], to ?? this.whole[1]] },
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

  range() {
    const { x } = this.plot.scales;
    return [x.min, x.max].map(this.measure.to);
  },

  zoom(from, to) {
    const [low, high] = this.whole.map(this.measure.to);
    const span = Math.min(Math.max(to - from, (high - low) * 1e-3), high - low);
    const start = Math.min(Math.max(from, low), high - span);
    this.plot.setScale("x", { min: this.measure.from(start), max: this.measure.from(start + span) });
  },

  scale(factor) {
    const [from, to] = this.range(), middle = (from + to) / 2, half = ((to - from) / 2) * factor;
    this.zoom(middle - half, middle + half);
  },

  move(part) {
    const [from, to] = this.range();
    this.zoom(from + (to - from) * part, to + (to - from) * part);
  },

  all() { this.zoom(...this.whole.map(this.measure.to)); },

  listen() {
    const by = (id) => document.getElementById(id);
    by("compare-plot").addEventListener("change", () => { this.kind = by("compare-plot").value; this.build(); });
    by("compare-pattern").addEventListener("change", () => { this.pattern = Number(by("compare-pattern").value); this.build(); });
    const when = (action) => () => { if (this.plot) action(); };
    by("zoom-in").addEventListener("click", when(() => this.scale(1 / 4)));
    by("zoom-out").addEventListener("click", when(() => this.scale(4)));
    by("zoom-all").addEventListener("click", when(() => this.all()));
    by("compare-pane").addEventListener("keydown", (event) => {
      const action = { "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), 0: () => this.all() }[event.key];
      if (!action || !this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  },

  // Controls may come back from the browser's memory with other values than the page's.
  start() {
    const by = (id) => document.getElementById(id);
    [this.kind, this.pattern] = [by("compare-plot").value, Number(by("compare-pattern").value)];
    this.listen();
    this.build();
    let width = innerWidth, waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => this.build(), 120);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
  },
};

Quaver.data = JSON.parse(document.getElementById("data").textContent);
Quaver.pane.start();
document.documentElement.dataset.ready = "yes";
