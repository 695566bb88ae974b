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
  ...Quaver.chooser,
  kind: "latency", way: -1, corrected: true, log: false, slice_ns: 0,

  flows() {
    const { flows } = Quaver.data;
    return (this.way < 0 ? flows : [flows[this.way]]).filter((flow) => this.shown().has(flow));
  },

  shown() { return this.plots[this.kind]; },

  // What takes the clocks' offset out of a delay, where that is asked for and known.
  shift(flow) { return this.corrected && flow.shift_ns !== null ? flow.shift_ns : 0; },

  colour: (flow) => Quaver.colour("layer-" + (flow.way === "up" ? 0 : 1)),

  least() { return this.shown().time ? 4 / Quaver.data.slices : 1e-3; },

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
    this.measure = this.measureOf(logX);
    this.whole = shown.xRange(flows, this);
    this.plot = new uPlot(this.options(holder, flows, shown, logX, logY), [this.whole, [null, null], [null, null]], holder);
    this.hover((x) => shown.hint(x, flows, this));
  },

  options(holder, flows, shown, logX, logY) {
    const nothing = { paths: () => null, points: { show: false } };
    const whole = Array.from({ length: 30 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
    const x = { label: shown.label, size: 34, labelSize: 20 };
    const xAxis = shown.whole ? Quaver.axis({ ...x, incrs: whole })
      : logX ? Quaver.logAxis(Quaver.tick, x) : Quaver.axis({ ...x, values: shown.time ? this.seconds : Quaver.path.timeTicks, space: 76 });
    const counts = shown.yTicks;
    const yAxis = shown.time ? Quaver.axis({ size: this.fit, values: Quaver.path.timeTicks })
      : logY ? Quaver.logAxis(counts, { size: this.fit }) : Quaver.axis({ size: this.fit, values: (u, ticks) => ticks.map((tick) => counts(tick)), ...(shown.shares ? {} : { incrs: whole }) });
    const axes = [xAxis, yAxis];
    if (shown.cdf) axes.push(Quaver.axis({ scale: "share", side: 1, size: 56, grid: { show: false }, values: (u, ticks) => ticks.map(Quaver.path.percent) }));
    return {
      ...this.frame(holder, shown.cdf ? 0 : 14),
      scales: {
        x: this.xScale(logX),
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
    this.controls("path-pane");
  },

  // Controls may come back from the browser's memory with other values than the page's.
  start() {
    const by = (id) => document.getElementById(id);
    this.plots = Quaver.path.plots();
    [this.kind, this.way] = [by("path-plot").value, Number(by("path-way").value)];
    [this.corrected, this.log] = [by("path-delay").value === "corrected", by("path-log").checked];
    this.listen();
    this.show();
  },
};

Quaver.data = JSON.parse(document.getElementById("data").textContent);
Quaver.end_ns = Quaver.data.slices * Quaver.data.slice_ns;
Quaver.pane.start();
document.documentElement.dataset.ready = "yes";
