"use strict";
// The paper's figures: delta T over time beside its histogram. Drag to see a part, double-click to see all.
Quaver.paper = {
  // A dashed line at the period, upright or lying.
  period(upright, figure) {
    return (u) => {
      const at = u.valToPos(figure.period_ns ?? Quaver.data.period_ns, upright ? "x" : "y", true), { left, top, width, height } = u.bbox;
      u.ctx.save();
      u.ctx.strokeStyle = Quaver.colour("alarm");
      u.ctx.setLineDash([4, 4]);
      u.ctx.beginPath();
      if (upright) { u.ctx.moveTo(at, top); u.ctx.lineTo(at, top + height); } else { u.ctx.moveTo(left, at); u.ctx.lineTo(left + width, at); }
      u.ctx.stroke();
      u.ctx.restore();
    };
  },

  frame: (holder) => ({ width: holder.clientWidth, height: 230, legend: { show: false }, padding: [8, 16, 0, 0] }),

  over(holder, figure) {
    const each = figure.count / figure.series.length;
    const x = figure.series.map((_, at) => Math.round(at * each));
    const [least, most] = [0, 1].map((end) => figure.series.map((slice) => slice[end]));
    const ticks = (u, values) => values.map(Quaver.tick);
    const line = { stroke: Quaver.colour("series"), width: 1, points: { show: false } };
    return new uPlot({
      ...this.frame(holder), scales: { x: { time: false } },
      axes: [Quaver.axis({ label: "packet", size: 34, labelSize: 20, values: (u, values) => values.map((value) => Quaver.count(value)), space: 80 }), Quaver.axis({ size: 64, values: ticks })],
      series: [{}, line, line], bands: [{ series: [2, 1], fill: Quaver.colour("series") }],
      hooks: { draw: [this.period(false, figure)] },
    }, [x, least, most], holder);
  },

  histogram(holder, figure) {
    const width = Quaver.data.bin_ns, { bins } = figure;
    const from = Math.max(0, bins.findIndex((count) => count > 0) - 10);
    const to = Math.min(bins.length, bins.findLastIndex((count, at) => count > 0 && at < bins.length - 1) + 11);
    const x = [], y = [];
    for (let at = from; at < to; at++) { x.push((at + 0.5) * width); y.push(bins[at] ? bins[at] / figure.count : null); }
    const ticks = (u, values) => values.map(Quaver.tick);
    const share = (value) => parseFloat((value * 100).toPrecision(2)) + " %";
    const floor = 0.5 / figure.count;
    return new uPlot({
      ...this.frame(holder), scales: { x: { time: false }, y: { distr: 3, range: [floor, 1] } },
      axes: [Quaver.axis({ label: "\u0394T", size: 34, labelSize: 20, values: ticks, space: 80 }), Quaver.logAxis(share, { size: 64 })],
      series: [{}, { stroke: Quaver.colour("layer-0"), fill: Quaver.colour("layer-0"), width: 1, points: { show: false }, paths: uPlot.paths.bars({ size: [1, 40], gap: 0 }), fillTo: floor }],
      hooks: { draw: [this.period(true, figure)] },
    }, [x, y], holder);
  },

  start() {
    for (const pane of document.querySelectorAll(".pane.paper")) {
      const figure = Quaver.data.figures[Number(pane.dataset.plot)];
      const build = () => {
        pane.textContent = "";
        const halves = [Quaver.element("div"), Quaver.element("div")];
        pane.append(...halves);
        this.over(halves[0], figure);
        this.histogram(halves[1], figure);
      };
      let wide = 0;
      new ResizeObserver(() => { if (pane.clientWidth !== wide) { wide = pane.clientWidth; build(); } }).observe(pane);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
    }
  },
};

Quaver.data = JSON.parse(document.getElementById("data").textContent);
Quaver.paper.start();
document.documentElement.dataset.ready = "yes";
