"use strict";
// ΔT over time, and its distribution. uPlot keeps axes, scales and selection; what is inside is drawn here,
// because each column is a least and a largest value and each late packet a mark.
Quaver.timePlot = {
  layer: 0, value: "delta", linear: false, hidden: new Set(), plot: null,

  range() {
    const x = this.plot.scales.x;
    return [x.min, x.max];
  },

  // Values that a view must show: extremes of the finest level and the late packets.
  extremes(from, to) {
    let least = Infinity, largest = -Infinity;
    if (this.value === "delta") {
      const seen = Quaver.extremes(this.layer, from, to);
      if (seen) [least, largest] = [seen.least, seen.largest];
    } else {
      const [first, last] = this.visible(from, to);
      for (let at = first; at < last; at++) {
        least = Math.min(least, Quaver.late.lateness[at]);
        largest = Math.max(largest, Quaver.late.lateness[at]);
      }
    }
    if (largest === -Infinity) return [Quaver.data.period_ns / 2, Quaver.data.period_ns * 2];
    return [least, largest];
  },

  yRange(u) {
    const [least, largest] = this.extremes(u.scales.x.min ?? 0, u.scales.x.max ?? Quaver.end_ns);
    if (this.linear) {
      const room = (largest - Math.min(0, least)) * 0.06 || 1;
      return [Math.min(0, least - room), largest + room];
    }
    const bottom = Math.max(10, Math.min(least, largest));
    return [bottom / 1.3, Math.max(largest, bottom * 4) * 1.5];
  },

  // First and one past the last late packet between two instants.
  visible(from, to) {
    const { time } = Quaver.late;
    const search = (wanted) => {
      let low = 0, high = time.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (time[middle] < wanted) low = middle + 1; else high = middle;
      }
      return low;
    };
    return [search(from), search(to)];
  },

  valueOf(at) {
    return this.value === "delta" ? Quaver.lateDelta(this.layer)[at] : Quaver.late.lateness[at];
  },

  zoom(from, to) {
    const least = Math.max(Quaver.data.slice_ns / 4, 1000);
    let span = Math.min(Math.max(to - from, least), Quaver.end_ns);
    const start = Math.min(Math.max(from, 0), Quaver.end_ns - span);
    this.plot.setScale("x", { min: start, max: start + span });
  },

  scale(factor) {
    const [from, to] = this.range();
    const middle = (from + to) / 2, half = ((to - from) / 2) * factor;
    this.zoom(middle - half, middle + half);
  },

  move(part) {
    const [from, to] = this.range();
    this.zoom(from + (to - from) * part, to + (to - from) * part);
  },

  draw(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    if (this.value === "delta") this.drawColumns(u); else this.drawThreshold(u);
    this.drawLate(u);
    ctx.restore();
    this.describe();
  },

  drawColumns(u) {
    const { ctx } = u;
    const [from, to] = this.range();
    const level = Quaver.levelFor(this.layer, from, to, u.over.clientWidth);
    this.level = level;
    const last = Math.min(level.least.length - 1, Math.ceil(to / level.slice));
    const floor = u.scales.y.min;
    const pixel = uPlot.pxRatio;
    ctx.fillStyle = Quaver.colour("series");
    for (let at = Math.max(0, Math.floor(from / level.slice)); at <= last; at++) {
      if (level.least[at] === Quaver.MISSING) continue;
      const left = u.valToPos(at * level.slice, "x", true);
      const right = u.valToPos((at + 1) * level.slice, "x", true);
      const top = u.valToPos(Math.max(level.largest[at], floor), "y", true);
      const bottom = u.valToPos(Math.max(level.least[at], floor), "y", true);
      const width = Math.max(pixel, right - left), height = Math.max(1.5 * pixel, bottom - top + pixel);
      if (width <= 3 * pixel || height <= 4 * pixel) {
        ctx.fillRect(left, top - pixel / 2, width, height);
        continue;
      }
      // A wide column is one slice: its ends are known, what lies between them is not.
      ctx.globalAlpha = 0.3;
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 1;
      ctx.fillRect(left, top - pixel, width, 2 * pixel);
      ctx.fillRect(left, bottom - pixel, width, 2 * pixel);
    }
    const y = u.valToPos(Quaver.data.period_ns, "y", true);
    this.drawLine(u, y, "the period");
  },

  drawThreshold(u) {
    this.drawLine(u, u.valToPos(Quaver.data.threshold_ns, "y", true), Quaver.words.from);
  },

  drawLine(u, y, label) {
    const { ctx, bbox } = u;
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    ctx.strokeStyle = Quaver.colour("soft");
    ctx.fillStyle = Quaver.colour("soft");
    ctx.lineWidth = uPlot.pxRatio;
    ctx.setLineDash([5 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `${11 * uPlot.pxRatio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    const { width } = ctx.measureText(label);
    const right = bbox.left + bbox.width - 4 * uPlot.pxRatio;
    ctx.save();
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = Quaver.colour("panel");
    ctx.fillRect(right - width - 4, y + 2 * uPlot.pxRatio, width + 8, 15 * uPlot.pxRatio);
    ctx.restore();
    ctx.fillText(label, right, y + 13 * uPlot.pxRatio);
  },

  // Marks of one cause that would cover each other are drawn once.
  drawLate(u) {
    const { ctx } = u;
    const [from, to] = this.range();
    const [first, last] = this.visible(from, to);
    const pixel = uPlot.pxRatio, floor = u.scales.y.min;
    // Many marks are drawn smaller and without a rim, which would hide the colours.
    const many = last - first > 600;
    const radius = (many ? 2.4 : 3.4) * pixel;
    const paths = new Map(), taken = new Set();
    for (let at = first; at < last; at++) {
      const cause = Quaver.late.cause[at], group = this.group(cause), value = this.valueOf(at);
      if (value === Quaver.MISSING || this.hidden.has(group)) continue;
      const x = u.valToPos(Quaver.late.time[at], "x", true);
      const y = u.valToPos(Math.max(value, floor), "y", true);
      const cell = (Math.round(x / pixel / 1.5) * 8192 + Math.round(y / pixel / 1.5)) * 16 + group + 1;
      if (taken.has(cell)) continue;
      taken.add(cell);
      if (!paths.has(group)) paths.set(group, new Path2D());
      Quaver.mark(paths.get(group), cause, x, y, radius);
    }
    // In rank order, so that the rare ones are on top.
    for (const group of [...paths.keys()].sort((a, b) => (a < 0 ? 99 : a) - (b < 0 ? 99 : b))) {
      ctx.fillStyle = ctx.strokeStyle = Quaver.causeColour(group);
      ctx.lineWidth = (group < 0 ? 1.6 : 0.8) * pixel;
      if (group >= 0) {
        ctx.fill(paths.get(group));
        if (many) continue;
        ctx.strokeStyle = Quaver.colour("panel");
      }
      ctx.stroke(paths.get(group));
    }
  },

  group: (cause) => Math.min(cause, 6),

  describe() {
    const [from, to] = this.range();
    const { data } = Quaver;
    const parts = [];
    if (this.value === "delta") {
      const each = Math.max(1, Math.round((data.packets * this.level.slice) / Quaver.end_ns));
      parts.push(`Decimated: each column is the least and the largest ΔT of ${Quaver.duration(this.level.slice)}` +
        (each > 1 ? ` (about ${Quaver.count(each)} packets)` : "") + "; no spike is dropped, and zooming in refines.");
    }
    if (data.late_drawn < data.late) {
      parts.push(`${Quaver.count(data.late_drawn)} of ${Quaver.count(data.late)} ${Quaver.words.many} are marked: ${Quaver.words.drawn} of each ${Quaver.duration(Quaver.end_ns / data.late_drawn)}.`);
    } else if (data.late) {
      parts.push(`All ${Quaver.count(data.late)} ${Quaver.words.many} are marked.`);
    }
    if (to - from < Quaver.end_ns * 0.999) parts.push(`Shown: ${Quaver.duration(to - from)} from ${(from / 1e9).toFixed(6)} s.`);
    document.getElementById("time-state").textContent = parts.join(" ");
  },

  // The nearest late packet within a few pixels of the pointer, else the column under it.
  hint(u, event) {
    const box = u.over.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const reach = 8;
    const [first, last] = this.visible(u.posToVal(x - reach, "x"), u.posToVal(x + reach, "x"));
    let best = null, distance = reach * reach;
    for (let at = first; at < last; at++) {
      const value = this.valueOf(at);
      if (value === Quaver.MISSING || this.hidden.has(this.group(Quaver.late.cause[at]))) continue;
      const dx = u.valToPos(Quaver.late.time[at], "x") - x;
      const dy = u.valToPos(Math.max(value, u.scales.y.min), "y") - y;
      if (dx * dx + dy * dy < distance) { best = at; distance = dx * dx + dy * dy; }
    }
    const { late, data } = Quaver;
    if (best !== null) {
      const delta = data.layered === false ? Quaver.MISSING : Quaver.lateDelta(this.layer)[best];
      return `${Quaver.words.one}: ${Quaver.causeName(late.cause[best])}\n${Quaver.duration(late.lateness[best])} ${Quaver.words.size}` +
        (delta === Quaver.MISSING ? "" : `, ΔT ${Quaver.duration(delta)}`) + `\nat ${(late.time[best] / 1e9).toFixed(6)} s`;
    }
    if (this.value !== "delta" || !this.level) return "";
    const at = Math.floor(u.posToVal(x, "x") / this.level.slice);
    if (!(this.level.least[at] > Quaver.MISSING)) return "";
    return `${((at * this.level.slice) / 1e9).toFixed(6)} s\nΔT ${Quaver.duration(this.level.least[at])} to ${Quaver.duration(this.level.largest[at])}`;
  },

  build() {
    const holder = document.getElementById("time-plot");
    const kept = this.plot ? this.range() : [0, Quaver.end_ns];
    this.plot?.destroy();
    this.plot = new uPlot({
      width: holder.clientWidth, height: Math.max(280, Math.min(420, innerHeight * 0.5)), legend: { show: false },
      padding: [12, 12, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      scales: {
        x: { time: false, range: (u, from, to) => [from ?? 0, to ?? Quaver.end_ns] },
        y: { distr: this.linear ? 1 : 3, range: (u) => this.yRange(u) },
      },
      axes: [
        Quaver.axis({ label: Quaver.words.start, size: 34, labelSize: 20, values: (u, ticks, axis, space, step) => {
          const places = Math.max(0, Math.ceil(-Math.log10(step / 1e9) - 1e-9));
          return ticks.map((ns) => (ns / 1e9).toFixed(places) + " s");
        } }),
        this.linear ? Quaver.axis({ size: 66, values: (u, ticks) => ticks.map(Quaver.tick) }) : Quaver.logAxis(Quaver.tick, { size: 62 }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [(u) => this.draw(u)] },
    }, [[0, Quaver.end_ns], [null, null]], holder);
    const { over } = this.plot;
    over.addEventListener("mousemove", (event) => Quaver.tip(this.hint(this.plot, event), event));
    over.addEventListener("mouseleave", () => Quaver.tip(""));
    this.plot.setScale("x", { min: kept[0], max: kept[1] });
  },
};

Quaver.distribution = {
  hidden: new Set(), kind: "tail", plots: [],

  // Counts of a layer in bins of `join` of the file's bins, over a range of bins.
  counts(layer, first, last, join) {
    const counts = new Array(Math.ceil((last - first + 1) / join)).fill(0);
    for (const [bin, count] of layer.bins) if (bin >= first && bin <= last) counts[Math.floor((bin - first) / join)] += count;
    return counts;
  },

  build() {
    this.plots.forEach((plot) => plot.destroy());
    const { layers, bins_per_octave } = Quaver.data;
    const shown = layers.filter((layer, at) => !this.hidden.has(at) && layer.bins.length);
    const bins = shown.flatMap((layer) => [layer.bins[0][0], layer.bins.at(-1)[0]]);
    if (!bins.length) { this.plots = []; return; }
    const join = 4;
    const first = Math.max(0, Math.floor(Math.min(...bins) / join) * join - join);
    const last = Math.max(...bins) + join;
    const value = (bin) => 2 ** (bin / bins_per_octave);
    const names = shown.map((layer) => Quaver.colour("layer-" + layers.indexOf(layer)));
    const edges = Array.from({ length: Math.ceil((last - first + 1) / join) }, (_, at) => value(first + at * join));
    const histogram = shown.map((layer) => this.counts(layer, first, last, join).map((n) => n || 0.6));
    const most = Math.max(...histogram.flat());
    const fine = Array.from({ length: last - first + 2 }, (_, at) => value(first + at));
    const tail = this.kind === "tail";
    let least = 1;
    const shares = shown.map((layer) => {
      const counts = this.counts(layer, first, last, 1);
      const total = counts.reduce((sum, n) => sum + n, 0) + layer.not_positive;
      least = Math.min(least, 1 / Math.max(1, total));
      let below = layer.not_positive;
      const out = [tail ? (total - below) / total : below / total];
      for (const n of counts) { below += n; out.push(tail ? (total - below) / total || null : below / total); }
      return out;
    });
    const x = { time: false, distr: 3, range: (u, low, high) => [low, high] };
    this.plots = [
      this.plot("histogram-plot", [edges, ...histogram], names, { x, y: { distr: 3, range: [0.6, most * 2] } }, uPlot.paths.stepped({ align: 1 }), this.packets),
      this.plot("cdf-plot", [fine, ...shares], names, { x, y: tail ? { distr: 3, range: [least / 1.5, 1.4] } : { range: [0, 1.02] } }, uPlot.paths.stepped({ align: 1 }),
        tail ? this.share : null),
    ];
    document.getElementById("cdf-caption").textContent =
      (tail ? `Tail: share of ${Quaver.words.unit} with a larger ${Quaver.words.quantity}; one in 10,000 is 0.01 %.` : `CDF: share of ${Quaver.words.unit} with at most this ${Quaver.words.quantity}.`) +
      shown.filter((layer) => layer.not_positive).map((layer) => ` ${Quaver.count(layer.not_positive)} at ${layer.name} share their stamp with the packet before or overtook it: ΔT is 0 or less.`).join("");
  },

  packets: (n) => (n >= 1e6 ? n / 1e6 + " M" : n >= 1e3 ? n / 1e3 + " k" : String(n)),

  share: (share) => parseFloat((share * 100).toPrecision(3)) + " %",

  plot(id, data, colours, scales, paths, labels) {
    const holder = document.getElementById(id);
    return new uPlot({
      width: holder.clientWidth, height: 290, legend: { show: false }, padding: [12, 14, 0, 0], scales,
      cursor: { drag: { x: true, y: false }, points: { show: false }, y: false },
      axes: [
        Quaver.logAxis(Quaver.tick, { label: Quaver.words.quantity, size: 34, labelSize: 18 }),
        labels ? Quaver.logAxis(labels, { size: 78 }) : Quaver.axis({ size: 62, values: (u, ticks) => ticks.map(this.share) }),
      ],
      series: [{}, ...colours.map((stroke) => ({ stroke, width: 1.6, paths, points: { show: false } }))],
    }, data, holder);
  },
};
