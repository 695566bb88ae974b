"use strict";
// The pane of a path's report: one plot at a time, for one way or both.
Quaver.path.plots = () => {
  const { histogram, bars, plural } = Quaver.path;
  const above = (bins) => `${plural(bins.above, "packet lies", "packets lie")} above the 99th percentile and ${bins.above === 1 ? "is" : "are"} not drawn`;
  const noDelay = (flow) => (flow.lost ? `; ${plural(flow.lost, "lost packet has", "lost packets have")} no delay` : "");
  return {
    latency: histogram("one-way delay", (flow) => flow.latency, (flow, pane) => pane.shift(flow), "Nothing arrived.",
      (flow, bins, pane) => above(bins) + noDelay(flow) +
        (pane.corrected && flow.bound_ns !== null ? `; corrected values can be wrong by ${Quaver.duration(flow.bound_ns)} either way.` : ".")),
    pdv: histogram("PDV: delay above the least", (flow) => flow.pdv, () => 0, "Nothing arrived.",
      (flow, bins) => above(bins) + noDelay(flow) + "."),
    ipdv: histogram("IPDV: delay less that of the packet sent before", (flow) => flow.ipdv, () => 0, "No two packets sent one after the other arrived.",
      (flow, bins) => `the middle 99 %; ${Quaver.count(bins.below)} lie below and ${Quaver.count(bins.above)} above.`),
    tail: Quaver.path.tail,
    burstiness: Quaver.path.burstiness,
    losses: bars("packets lost in a row", "losses", (flow) => flow.loss_lengths, null, "Nothing was lost.",
      (flow) => `${plural(flow.lost, "packet", "packets")} lost in ${plural(flow.loss_lengths.reduce((sum, [, n]) => sum + n, 0), "run", "runs")} (loss periods, RFC 3357, section 6.3).`),
    copies: bars("copies beyond the first", "packets", (flow) => flow.copies, null, "No packet came twice.",
      (flow) => `${plural(flow.duplicate, "copy", "copies")} beyond the first, of ${plural(flow.copies.reduce((sum, [, n]) => sum + n, 0), "packet", "packets")} (RFC 5560).`),
    order: bars("displacement, packets: below 0 early, above 0 late", "packets", (flow) => flow.displacements,
      (flow) => flow.displacements.reduce((sum, [, n]) => sum + n, 0), "All packets came in order.",
      (flow) => `reorder density (RFC 5236); ${plural(flow.displaced_too_far, "copy or packet", "copies and packets")} displaced by more than ${flow.displacement_threshold} left out.`),
  };
};

Quaver.pane = {
  kind: "latency", way: -1, corrected: true, log: false, plot: null, slice_ns: 0,

  flows() {
    const { flows } = Quaver.data;
    return (this.way < 0 ? flows : [flows[this.way]]).filter((flow) => this.shown().has(flow));
  },

  shown() { return this.plots[this.kind]; },

  // What takes the clocks' offset out of a delay, where that is asked for and known.
  shift(flow) { return this.corrected && flow.shift_ns !== null ? flow.shift_ns : 0; },

  colour: (flow) => Quaver.colour("layer-" + (flow.way === "up" ? 0 : 1)),

  range() {
    const { x } = this.plot.scales;
    return [x.min, x.max];
  },

  // Zooming works in the scale's own measure: logarithmic where the scale is.
  zoom(from, to) {
    const [low, high] = this.whole.map(this.measure.to);
    const span = Math.min(Math.max(to - from, (high - low) * this.least()), high - low);
    const start = Math.min(Math.max(from, low), high - span);
    this.plot.setScale("x", { min: this.measure.from(start), max: this.measure.from(start + span) });
  },

  least() { return this.shown().time ? 4 / Quaver.data.slices : 1e-3; },

  scale(factor) {
    const [from, to] = this.range().map(this.measure.to);
    const middle = (from + to) / 2, half = ((to - from) / 2) * factor;
    this.zoom(middle - half, middle + half);
  },

  move(part) {
    const [from, to] = this.range().map(this.measure.to);
    this.zoom(from + (to - from) * part, to + (to - from) * part);
  },

  all() {
    const [from, to] = this.whole.map(this.measure.to);
    this.zoom(from, to);
  },

  build() {
    this.plot?.destroy();
    this.plot = null;
    Quaver.tip("");
    const flows = this.flows(), shown = this.shown(), holder = document.getElementById("path-pane");
    const by = (id) => document.getElementById(id);
    by("path-log").disabled = !shown.logCounts;
    by("path-delay").disabled = !["latency", "burstiness"].includes(this.kind);
    for (const id of ["zoom-in", "zoom-out", "zoom-all"]) by(id).disabled = !flows.length;
    this.key(flows);
    holder.classList.toggle("empty", !flows.length);
    holder.textContent = "";
    by("path-state").textContent = "";
    if (!flows.length) {
      holder.textContent = shown.none;
      return;
    }
    const logX = Boolean(shown.logX), logY = Boolean(shown.logY) || (shown.logCounts && this.log);
    this.measure = logX ? { to: Math.log10, from: (value) => 10 ** value } : { to: (value) => value, from: (value) => value };
    this.whole = shown.xRange(flows, this);
    this.plot = new uPlot(this.options(holder, flows, shown, logX, logY), [this.whole, [null, null], [null, null]], holder);
    const { over } = this.plot;
    over.addEventListener("mousemove", (event) => {
      const x = this.plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
      Quaver.tip(shown.hint(x, flows, this), event);
    });
    over.addEventListener("mouseleave", () => Quaver.tip(""));
  },

  options(holder, flows, shown, logX, logY) {
    // An axis is as wide as its longest number.
    const fit = (u, values) => 20 + 6.6 * Math.max(4, ...(values || []).map((text) => String(text || "").length));
    const nothing = { paths: () => null, points: { show: false } };
    const whole = Array.from({ length: 30 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
    const x = { label: shown.label, size: 34, labelSize: 20 };
    const xAxis = shown.whole ? Quaver.axis({ ...x, incrs: whole })
      : logX ? Quaver.logAxis(Quaver.tick, x) : Quaver.axis({ ...x, values: shown.time ? this.seconds : Quaver.path.timeTicks, space: 76 });
    const counts = shown.yTicks;
    const yAxis = shown.time ? Quaver.axis({ size: fit, values: Quaver.path.timeTicks })
      : logY ? Quaver.logAxis(counts, { size: fit }) : Quaver.axis({ size: fit, values: (u, ticks) => ticks.map((tick) => counts(tick)), ...(shown.shares ? {} : { incrs: whole }) });
    const axes = [xAxis, yAxis];
    if (shown.cdf) axes.push(Quaver.axis({ scale: "share", side: 1, size: 56, grid: { show: false }, values: (u, ticks) => ticks.map(Quaver.path.percent) }));
    return {
      width: holder.clientWidth, height: Math.max(300, Math.min(460, innerHeight * 0.55)), legend: { show: false }, padding: [12, shown.cdf ? 0 : 14, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      scales: {
        x: { time: false, distr: logX ? 3 : 1, range: (u, from, to) => [from ?? this.whole[0], to ?? this.whole[1]] },
        y: { distr: logY ? 3 : 1, range: (u) => shown.yRange(flows, this, u) },
        share: { range: [0, 1.03] },
      },
      axes, series: [{}, { ...nothing, scale: "y" }, { ...nothing, scale: "share" }],
      hooks: { draw: [(u) => this.draw(u, flows, shown)] },
    };
  },

  seconds: (u, ticks, axis, space, step) => ticks.map((ns) => (ns / 1e9).toFixed(Quaver.path.places(step / 1e9)) + " s"),

  draw(u, flows, shown) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    shown.draw(u, flows, this);
    ctx.restore();
    const words = shown.say(flows, this), state = document.getElementById("path-state");
    if (state.textContent !== words) state.textContent = words;
  },

  key(flows) {
    const holder = document.getElementById("path-key");
    holder.textContent = "";
    for (const flow of flows) {
      const item = Quaver.element("span");
      const swatch = Quaver.element("svg", { width: 16, height: 10, "aria-hidden": "true" });
      swatch.append(Quaver.element("rect", { width: 16, height: 10, rx: 2, style: `fill:${this.colour(flow)}` }));
      item.append(swatch, `${flow.way}: ${flow.way === "up" ? "client to server" : "server to client"}`);
      holder.append(item);
    }
  },

  listen() {
    const by = (id) => document.getElementById(id);
    const choose = (id, event, take) => by(id).addEventListener(event, () => { take(by(id)); this.build(); });
    choose("path-plot", "change", (control) => { this.kind = control.value; });
    choose("path-way", "change", (control) => { this.way = Number(control.value); });
    choose("path-delay", "change", (control) => { this.corrected = control.value === "corrected"; });
    choose("path-log", "change", (control) => { this.log = control.checked; });
    by("zoom-in").addEventListener("click", () => this.scale(1 / 4));
    by("zoom-out").addEventListener("click", () => this.scale(4));
    by("zoom-all").addEventListener("click", () => this.all());
    by("path-pane").addEventListener("keydown", (event) => {
      const action = { "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), 0: () => this.all() }[event.key];
      if (!action || !this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  },

  // Controls may come back from the browser's memory with other values than the page's.
  start() {
    const by = (id) => document.getElementById(id);
    this.plots = Quaver.path.plots();
    [this.kind, this.way] = [by("path-plot").value, Number(by("path-way").value)];
    [this.corrected, this.log] = [by("path-delay").value === "corrected", by("path-log").checked];
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
Quaver.end_ns = Quaver.data.slices * Quaver.data.slice_ns;
Quaver.pane.start();
document.documentElement.dataset.ready = "yes";
