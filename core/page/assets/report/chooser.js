"use strict";
// What panes that show one plot of several have in common: zooming, keys, the frame of a plot, and when to draw it anew.
// A pane has `plot` (uPlot), `whole` (the whole range of x) and `build()`.
Quaver.chooser = {
  plot: null, whole: [0, 1], measure: null,

  // Zooming works in the scale's own measure: logarithmic where the scale is.
  measureOf: (logX) => (logX ? { to: Math.log10, from: (value) => 10 ** value } : { to: (value) => value, from: (value) => value }),

  range() {
    const { x } = this.plot.scales;
    return [x.min, x.max].map(this.measure.to);
  },

  // The smallest part of the whole that is shown.
  least() { return 1e-3; },

  zoom(from, to) {
    const [low, high] = this.whole.map(this.measure.to);
    const span = Math.min(Math.max(to - from, (high - low) * this.least()), high - low);
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

  // An axis is as wide as its longest number.
  fit: (u, values) => 20 + 6.6 * Math.max(4, ...(values || []).map((text) => String(text || "").length)),

  // Options that do not depend on what is drawn.
  frame: (holder, right) => ({
    width: holder.clientWidth, height: Math.max(300, Math.min(460, innerHeight * 0.55)), legend: { show: false }, padding: [12, right, 0, 0],
    cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
  }),

  xScale(logX) {
    return { time: false, distr: logX ? 3 : 1, range: (u, from, to) => [from ?? this.whole[0], to ?? this.whole[1]] };
  },

  // Words beside the pointer, for the x below it.
  hover(words) {
    const { plot } = this, { over } = plot;
    over.addEventListener("mousemove", (event) => Quaver.tip(words(plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x")), event));
    over.addEventListener("mouseleave", () => Quaver.tip(""));
  },

  // Buttons, and keys on the focused pane.
  controls(pane) {
    const by = (id) => document.getElementById(id);
    const when = (action) => () => { if (this.plot) action(); };
    by("zoom-in").addEventListener("click", when(() => this.scale(1 / 4)));
    by("zoom-out").addEventListener("click", when(() => this.scale(4)));
    by("zoom-all").addEventListener("click", when(() => this.all()));
    by(pane).addEventListener("keydown", (event) => {
      const action = { "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), 0: () => this.all() }[event.key];
      if (!action || !this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  },

  // Draws, and draws anew where the page's width or its colours change.
  show() {
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
