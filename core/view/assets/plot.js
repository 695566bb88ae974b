"use strict";
// Series over two axes. uPlot keeps axes, scales, selection and linked cursors; what is inside is drawn here.
View.levels = (series) => {
  const levels = [{ low: series.low, high: series.high, step: series.step }];
  while (levels.at(-1).low.length > 1024) {
    const from = levels.at(-1), size = Math.ceil(from.low.length / 4), low = new Float64Array(size).fill(NaN), high = new Float64Array(size).fill(NaN);
    for (let at = 0; at < from.low.length; at++) {
      const to = at >> 2;
      if (!(from.low[at] >= low[to])) low[to] = Number.isNaN(from.low[at]) ? low[to] : from.low[at];
      if (!(from.high[at] <= high[to])) high[to] = Number.isNaN(from.high[at]) ? high[to] : from.high[at];
    }
    levels.push({ low, high, step: from.step * 4 });
  }
  return levels;
};

// Histogram, tail or cumulative distribution of the same bins, as series (distribution.rs).
View.distribution = (plot, view) => {
  const totals = plot.series.map((one) => one.below + one.above + one.counts.reduce((sum, count) => sum + count, 0));
  const most = Math.max(1, ...plot.series.map((one) => one.counts.reduce((most, count) => Math.max(most, count), 0)));
  const y = {
    histogram: { label: plot.of, quantity: "count", log: true, range: [0.6, most * 2] },
    tail: { label: plot.of + " above", quantity: "share", log: true, range: [Math.min(1, ...totals.map((total) => 0.7 / Math.max(1, total))), 1.4] },
    cdf: { label: plot.of + " up to", quantity: "share", log: false, range: [0, 1.02] },
  }[view];
  const series = plot.series.map((one, number) => {
    let upTo = one.below;
    const values = one.edges.map((_, at) => {
      const count = one.counts[at] || 0, total = totals[number], before = upTo;
      upTo += count;
      if (view === "histogram") return count;
      return view === "cdf" ? before / total : total > before ? (total - before) / total : NaN;
    });
    return { name: one.name, colour: one.colour, shape: "steps", x: one.edges, y: values };
  });
  return { x: plot.x, y, series, guides: plot.guides };
};

View.Plot = class extends View.Zoomed {
  constructor(figure, data) {
    super(figure, data);
    this.hidden = new Set();
    const { plot } = data;
    for (const series of plot.series) {
      for (const name of ["x", "y", "low", "high", "edges", "counts"]) if (series[name] !== undefined) series[name] = View.numbers(series[name]);
      if (series.shape === "slices") series.levels = View.levels(series);
      // MOST_SPREADS of xy.rs.
      if (series.shape === "spread") series.marks = series.x.length <= 32;
    }
    this.data = plot;
    this.view = plot.views?.[0];
    this.choices();
    this.legend();
    this.build();
  }

  choices() {
    const { views, y } = this.data, words = { histogram: "histogram", tail: "tail: share above", cdf: "CDF: share up to" };
    const add = (label, control, changed) => {
      const holder = View.element("label", {}, label);
      holder[control.type === "checkbox" ? "prepend" : "append"](control);
      control.addEventListener("change", () => { changed(); this.build(); });
      this.controls.append(holder);
    };
    if (views?.length > 1) {
      const choice = View.element("select", { autocomplete: "off" });
      for (const view of views) choice.append(View.element("option", { value: view }, words[view]));
      add("Shows ", choice, () => { this.view = choice.value; });
    }
    if (y?.log && !y.range) {
      const box = View.element("input", { type: "checkbox", autocomplete: "off" });
      add(" linear scale", box, () => { this.linear = box.checked; });
    }
    this.buttons();
  }

  // A button a series, that hides and shows it.
  legend() {
    this.figure.querySelectorAll(".legend > span").forEach((key, at) => {
      const button = View.element("button", { type: "button", "aria-pressed": "true" });
      button.append(...key.childNodes);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(at)) this.hidden.add(at);
        button.setAttribute("aria-pressed", String(!this.hidden.has(at)));
        this.plot.redraw(true, true);
        this.show(...this.range());
      });
      key.replaceWith(button);
    });
  }

  shown() { return this.xy.series.filter((_, at) => !this.hidden.has(at)); }

  range() {
    const { min, max } = this.plot.scales.x;
    return [min, max];
  }

  show(min, max) { this.plot.setScale("x", { min, max }); }

  // Both ends of x over all series.
  ends() {
    const { x, series } = this.xy;
    if (x.range) return x.range;
    let [low, high] = [Infinity, -Infinity];
    const take = (value) => {
      if (!(Math.abs(value) < View.LIMIT) || (x.log && !(value > 1 / View.LIMIT))) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const one of series) {
      if (one.shape === "slices") [one.start, one.start + one.step * one.low.length].forEach(take);
      else if (one.shape === "columns") one.x.forEach((value) => { take(value - one.width / 2); take(value + one.width / 2); });
      else one.x.forEach(take);
    }
    return low < high ? [low, high] : low === high ? [low - 1, high + 1] : [0, 1];
  }

  // First and one past the last of ascending values between two.
  visible(values, from, to) {
    const search = (wanted) => {
      let low = 0, high = values.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] < wanted) low = middle + 1; else high = middle;
      }
      return low;
    };
    return [search(from), search(to * (1 + 1e-15))];
  }

  yRange() {
    const { y, guides } = this.xy, [from, to] = this.plotted || this.whole, log = y.log && !this.linear;
    if (y.range) return y.range;
    let [low, high] = [Infinity, -Infinity], zero = false, rug = 0;
    const take = (value) => {
      if (!(Math.abs(value) < View.LIMIT) || (log && !(value > 1 / View.LIMIT))) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const one of this.shown()) {
      if (one.shape === "rug") { rug++; continue; }
      zero ||= one.shape === "columns";
      const columns = one.shape === "slices" || one.shape === "spread" ? [one.low, one.high] : [one.y];
      let first, last;
      if (one.shape === "slices") [first, last] = [Math.max(0, Math.floor((from - one.start) / one.step)), Math.min(one.low.length, Math.ceil((to - one.start) / one.step))];
      else {
        [first, last] = this.visible(one.x, from, to);
        if (one.shape !== "points") [first, last] = [Math.max(0, first - 1), Math.min(one.x.length, last + 1)];
      }
      for (const column of columns) for (let at = first; at < last; at++) take(column[at]);
    }
    if (to - from >= (this.whole[1] - this.whole[0]) * 0.999) guides.filter((guide) => !guide.upright).forEach((guide) => take(guide.at));
    if (low > high) return log ? [1, 10] : [0, 1];
    if (log) {
      const factor = Math.max(high / low, 2) ** 0.06;
      return [low / Math.min(factor, 1.5), high * factor];
    }
    if (zero || low === high || (low > 0 && low < high / 2)) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const room = (high - low) * 0.06 || 1;
    // Instants stand below all values.
    return [rug ? low - room * 0.7 * (rug + 0.5) : low < 0 ? low - room : low, high + room];
  }

  // Names have as much room as their place.
  marked(axis, splits) {
    if (!axis.names?.length) return splits.map((value) => View.tick(axis.quantity, value, splits[1] - splits[0] || value));
    const [from, to] = this.plotted || this.whole;
    return splits.map((value) => View.cut(axis.names[value], (this.width - 70) / (to - from) - 6));
  }

  axis(axis, extra) {
    const font = "12px system-ui, sans-serif";
    return {
      stroke: View.colour("--soft"), font, labelFont: font, grid: { stroke: View.colour("--line"), width: 0.7 }, ticks: { show: false },
      filter: (u, splits) => splits, values: (u, splits) => this.marked(axis, splits), ...extra,
    };
  }

  build() {
    const kept = this.plot ? this.range() : this.linkedRange();
    this.plot?.destroy();
    this.xy = this.view ? View.distribution(this.data, this.view) : this.data;
    const { x, y } = this.xy, yAxis = { ...y, log: y.log && !this.linear };
    [this.log, this.whole, this.plotted] = [x.log, this.ends(), null];
    this.label.textContent = y.label;
    this.pane.replaceChildren();
    const beside = this.figure.closest(".beside");
    const width = this.pane.clientWidth, height = beside ? 270 : Math.max(280, Math.min(400, innerHeight * 0.5));
    this.width = width;
    const fit = (u, values) => 14 + 6.8 * Math.max(3, ...(values || []).map((text) => text.length));
    const link = this.linked && { key: this.linked, scales: ["x", null] };
    this.plot = new uPlot({
      width, height, legend: { show: false }, padding: [10, 18, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false, ...(link && { sync: link }) },
      scales: {
        x: { time: false, distr: x.log ? 3 : 1, range: (u, low, high) => (this.plotted = [low ?? this.whole[0], high ?? this.whole[1]]) },
        y: { distr: yAxis.log ? 3 : 1, range: () => this.yRange() },
      },
      axes: [
        this.axis(x, { label: x.label, size: 28, labelSize: 18, border: { show: true, stroke: View.colour("--muted"), width: 1 }, splits: (u, at, low, high) => View.ticks(x, low, high, Math.floor(width / (x.quantity === "instant" ? 96 : 72))) }),
        this.axis(yAxis, { size: fit, splits: (u, at, low, high) => View.ticks(yAxis, low, high, 7) }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [(u) => this.draw(u)], setScale: [(u, key) => key === "x" && this.follow()] },
    }, [this.whole, [null, null]], this.pane);
    const { over } = this.plot;
    over.addEventListener("mousemove", (event) => View.tip(this.hint(event), event));
    over.addEventListener("mouseleave", () => View.tip(""));
    this.show(...(kept || this.whole));
  }

  // What charts of the same name show already.
  linkedRange() {
    const other = this.linked && View.charts.find((one) => one.linked === this.linked && one.plot?.setScale);
    return other?.range();
  }

  // Charts of the same name show the same part.
  follow() {
    if (!this.linked || View.following || !this.plot) return;
    View.following = true;
    const [from, to] = this.range();
    for (const other of View.charts) if (other !== this && other.linked === this.linked && other.plot?.setScale) other.show(from, to);
    View.following = false;
  }

  draw(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    // Marks at the edges are seen whole.
    ctx.rect(bbox.left - 5 * uPlot.pxRatio, bbox.top, bbox.width + 10 * uPlot.pxRatio, bbox.height);
    ctx.clip();
    for (const series of this.shown()) {
      ctx.strokeStyle = ctx.fillStyle = View.colour(series.colour);
      ctx.lineWidth = 1.7 * uPlot.pxRatio;
      View.shapes[series.shape](this, u, series);
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
    }
    for (const guide of this.xy.guides) this.guide(u, guide);
    ctx.restore();
    this.describe();
  }

  guide(u, { at, label, upright }) {
    const { ctx, bbox } = u, pixel = uPlot.pxRatio, place = u.valToPos(at, upright ? "x" : "y", true);
    const [low, span] = upright ? [bbox.left, bbox.width] : [bbox.top, bbox.height];
    if (!(place >= low && place <= low + span)) return;
    ctx.strokeStyle = ctx.fillStyle = View.colour("--soft");
    ctx.lineWidth = pixel;
    ctx.setLineDash([5 * pixel, 4 * pixel]);
    ctx.beginPath();
    if (upright) { ctx.moveTo(place, bbox.top); ctx.lineTo(place, bbox.top + bbox.height); } else { ctx.moveTo(bbox.left, place); ctx.lineTo(bbox.left + bbox.width, place); }
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `${11 * pixel}px system-ui, sans-serif`;
    const right = !upright || place + ctx.measureText(label).width + 8 * pixel > bbox.left + bbox.width;
    ctx.textAlign = right ? "right" : "left";
    const x = upright ? place + (right ? -4 : 4) * pixel : bbox.left + bbox.width - 4 * pixel, y = upright ? bbox.top + 12 * pixel : place - 5 * pixel;
    ctx.strokeStyle = View.colour("--panel");
    ctx.lineWidth = 4 * pixel;
    ctx.lineJoin = "round";
    ctx.strokeText(label, x, y);
    ctx.fillText(label, x, y);
  }

  // The level of slices that has about one for each column.
  level(u, series) {
    const [from, to] = this.range(), { levels } = series;
    for (let at = levels.length - 1; at > 0; at--) if ((to - from) / levels[at].step >= u.over.clientWidth) return levels[at];
    return levels[0];
  }

  describe() {
    const { x } = this.xy, [from, to] = this.range(), parts = [], sliced = this.shown().find((series) => series.shape === "slices");
    if (sliced) parts.push(`Each column is the least and the largest of ${View.cell("duration", this.level(this.plot, sliced).step)}; no spike is dropped, and zooming in refines.`);
    if (this.to(to) - this.to(from) < (this.to(this.whole[1]) - this.to(this.whole[0])) * 0.999) parts.push(`Shown: ${View.cell(x.quantity, from)} to ${View.cell(x.quantity, to)}.`);
    this.state.textContent = parts.join(" ");
  }

  // The nearest mark within a few pixels of the pointer, else every series at the pointer's place.
  hint(event) {
    const u = this.plot, box = u.over.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const { x: xAxis, y: yAxis } = this.xy, value = u.posToVal(px, "x"), lines = [];
    let best = null, distance = 81;
    for (const one of this.shown().filter((series) => series.shape === "points" || series.marks)) {
      const [first, last] = this.visible(one.x, u.posToVal(px - 9, "x"), u.posToVal(px + 9, "x"));
      for (let at = first; at < last; at++) {
        const apart = (u.valToPos(one.x[at], "x") - px) ** 2 + (u.valToPos(one.y[at], "y") - py) ** 2;
        if (apart < distance) [best, distance] = [[one, at], apart];
      }
    }
    if (best) {
      const [one, at] = best, words = one.shape === "spread" ? View.at.spread(this, u, one, one.x[at]) : View.cell(yAxis.quantity, one.y[at]);
      return `${one.name}\n${words}\nat ${View.words(xAxis, one.x[at])}`;
    }
    for (const one of this.shown()) {
      const words = View.at[one.shape]?.(this, u, one, value);
      if (words) lines.push(`${one.name}: ${words}`);
    }
    return lines.length ? [View.words(xAxis, value), ...lines.slice(0, 12)].join("\n") : "";
  }
};

// How each shape is drawn. Values without a place on a logarithmic axis lie at its foot.
View.place = (u, series, values, at) => u.valToPos(Math.max(values[at], u.scales.y.distr === 3 ? u.scales.y.min : -Infinity), "y", true);

View.path = (chart, u, series, values, stepped) => {
  const path = new Path2D(), [from, to] = chart.range(), [first, last] = chart.visible(series.x, from, to);
  let y = null;
  for (let at = Math.max(0, first - 1); at < Math.min(series.x.length, last + 1); at++) {
    if (Number.isNaN(values[at])) { y = null; continue; }
    const x = u.valToPos(series.x[at], "x", true), before = y;
    y = View.place(u, series, values, at);
    if (before === null) path.moveTo(x, y);
    else { if (stepped) path.lineTo(x, before); path.lineTo(x, y); }
  }
  return path;
};

View.marks = (chart, u, series, radius) => {
  const { ctx } = u, shape = new Path2D(View.markPaths[View.markOf(series.colour)]), all = new Path2D(), taken = new Set(), pixel = uPlot.pxRatio;
  const [from, to] = chart.range(), [first, last] = chart.visible(series.x, from, to), size = radius * pixel;
  // Of very many marks the shapes could not be told.
  const cloud = last - first > 5000;
  for (let at = first; at < last; at++) {
    if (Number.isNaN(series.y[at])) continue;
    const x = u.valToPos(series.x[at], "x", true), y = View.place(u, series, series.y, at);
    // Marks that would cover each other are drawn once.
    const cell = Math.round(x / pixel / 1.5) * 8192 + Math.round(y / pixel / 1.5);
    if (taken.has(cell)) continue;
    taken.add(cell);
    if (cloud) { ctx.fillRect(x - pixel, y - pixel, 2.2 * pixel, 2.2 * pixel); continue; }
    all.addPath(shape, { a: size, b: 0, c: 0, d: size, e: x, f: y });
  }
  if (series.colour === "--ink") { ctx.lineWidth = 1.6 * pixel; ctx.stroke(all); return; }
  ctx.fill(all);
  // A rim sets marks apart; of many it would hide the colours.
  if (taken.size < 600) { ctx.strokeStyle = View.colour("--panel"); ctx.lineWidth = 0.7 * pixel; ctx.stroke(all); }
};

View.shapes = {
  line(chart, u, series) {
    u.ctx.setLineDash(series.dashed ? [6 * uPlot.pxRatio, 4 * uPlot.pxRatio] : []);
    u.ctx.stroke(View.path(chart, u, series, series.y, false));
    u.ctx.setLineDash([]);
    if (series.marks) View.marks(chart, u, series, 3.4);
  },
  steps(chart, u, series) {
    u.ctx.setLineDash(series.dashed ? [6 * uPlot.pxRatio, 4 * uPlot.pxRatio] : []);
    u.ctx.stroke(View.path(chart, u, series, series.y, true));
  },
  points(chart, u, series) { View.marks(chart, u, series, 3.2); },
  spread(chart, u, series) {
    const { ctx } = u;
    ctx.beginPath();
    series.x.forEach((x, at) => ctx.lineTo(u.valToPos(x, "x", true), View.place(u, series, series.high, at)));
    for (let at = series.x.length - 1; at >= 0; at--) ctx.lineTo(u.valToPos(series.x[at], "x", true), View.place(u, series, series.low, at));
    ctx.globalAlpha = 0.16;
    ctx.fill();
    ctx.globalAlpha = 1;
    View.shapes.line(chart, u, series);
  },
  columns(chart, u, series) {
    const { ctx, bbox } = u;
    const zero = Math.min(bbox.top + bbox.height, u.scales.y.distr === 3 ? Infinity : u.valToPos(0, "y", true));
    series.x.forEach((x, at) => {
      if (Number.isNaN(series.y[at])) return;
      const left = u.valToPos(x - series.width / 2, "x", true), right = u.valToPos(x + series.width / 2, "x", true), top = View.place(u, series, series.y, at);
      ctx.fillRect(left, Math.min(top, zero), Math.max(uPlot.pxRatio, right - left - uPlot.pxRatio), Math.abs(zero - top));
    });
  },
  // Instants at the foot, each series a row.
  rug(chart, u, series) {
    const { ctx, bbox } = u, pixel = uPlot.pxRatio, rows = chart.shown().filter((one) => one.shape === "rug");
    const top = bbox.top + bbox.height - (rows.indexOf(series) + 1) * 10 * pixel;
    let drawn = -Infinity;
    series.x.forEach((value) => {
      const x = u.valToPos(value, "x", true);
      if (x < drawn + pixel || x < bbox.left || x > bbox.left + bbox.width) return;
      ctx.fillRect(x - pixel / 2, top, 1.5 * pixel, 8 * pixel);
      drawn = x;
    });
  },
  slices(chart, u, series) {
    const { ctx } = u, [from, to] = chart.range(), level = chart.level(u, series), pixel = uPlot.pxRatio;
    const last = Math.min(level.low.length - 1, Math.ceil((to - series.start) / level.step));
    for (let at = Math.max(0, Math.floor((from - series.start) / level.step)); at <= last; at++) {
      if (Number.isNaN(level.low[at])) continue;
      const left = u.valToPos(series.start + at * level.step, "x", true), right = u.valToPos(series.start + (at + 1) * level.step, "x", true);
      const top = View.place(u, series, level.high, at), foot = View.place(u, series, level.low, at);
      const width = Math.max(pixel, right - left), height = Math.max(1.5 * pixel, foot - top + pixel);
      if (width <= 3 * pixel || height <= 4 * pixel) { ctx.fillRect(left, top - pixel / 2, width, height); continue; }
      // A wide column is one slice: its ends are known, what lies between them is not.
      ctx.globalAlpha = 0.3;
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 1;
      ctx.fillRect(left, top - pixel, width, 2 * pixel);
      ctx.fillRect(left, foot - pixel, width, 2 * pixel);
    }
  },
};

// What each shape says at a place of x.
View.nearest = (chart, u, series, value) => {
  const [at] = chart.visible(series.x, value, value), apart = (one) => Math.abs(chart.to(series.x[one] ?? Infinity) - chart.to(value));
  return at > 0 && apart(at - 1) < apart(at) ? at - 1 : Math.min(at, series.x.length - 1);
};

View.at = {
  line(chart, u, series, value) {
    const at = View.nearest(chart, u, series, value);
    return at < 0 || Number.isNaN(series.y[at]) ? "" : View.cell(chart.xy.y.quantity, series.y[at]);
  },
  spread(chart, u, series, value) {
    const at = View.nearest(chart, u, series, value), cell = (of) => View.cell(chart.xy.y.quantity, of[at]);
    return at < 0 ? "" : `${cell(series.y)}, from ${cell(series.low)} to ${cell(series.high)}`;
  },
  steps(chart, u, series, value) {
    const at = chart.visible(series.x, value, value)[0] - 1;
    return at < 0 || !(series.y[at] > 0) ? "" : View.cell(chart.xy.y.quantity, series.y[at]);
  },
  columns(chart, u, series, value) {
    const at = View.nearest(chart, u, series, value);
    return at < 0 || Math.abs(series.x[at] - value) > series.width ? "" : View.cell(chart.xy.y.quantity, series.y[at]);
  },
  slices(chart, u, series, value) {
    const level = chart.level(u, series), at = Math.floor((value - series.start) / level.step), cell = (of) => View.cell(chart.xy.y.quantity, of[at]);
    return Number.isFinite(level.low[at]) ? `${cell(level.low)} to ${cell(level.high)}` : "";
  },
};
