"use strict";
// Puts the parts of the page together.
Quaver.legendButton = (holder, picture, words, hidden, key, changed) => {
  const button = Quaver.element("button", { type: "button", "aria-pressed": "true" });
  button.append(picture, words);
  button.addEventListener("click", () => {
    const now = hidden.has(key);
    if (now) hidden.delete(key); else hidden.add(key);
    button.setAttribute("aria-pressed", String(now));
    changed();
  });
  holder.append(button);
};

Quaver.causeLegend = () => {
  const plot = Quaver.timePlot;
  const holder = document.getElementById("time-legend");
  const counts = new Map();
  for (const cause of Quaver.late.cause) counts.set(plot.group(cause), (counts.get(plot.group(cause)) || 0) + 1);
  const groups = [...counts.keys()].sort((a, b) => (a < 0 ? 99 : a) - (b < 0 ? 99 : b));
  for (const group of groups) {
    const others = Quaver.data.causes.length - 6;
    const name = group === 6 && others > 1 ? `${others} further sources` : Quaver.causeName(group);
    Quaver.legendButton(holder, Quaver.markPicture(group), name, plot.hidden, group, () => plot.plot.redraw());
  }
};

Quaver.layerLegend = () => {
  const holder = document.getElementById("layer-legend");
  Quaver.data.layers.forEach((layer, at) => {
    const line = Quaver.element("svg", { width: 18, height: 10, "aria-hidden": "true" });
    line.append(Quaver.element("line", { x1: 0, x2: 18, y1: 5, y2: 5, style: `stroke:var(--layer-${at});stroke-width:3` }));
    Quaver.legendButton(holder, line, layer.name, Quaver.distribution.hidden, at, () => Quaver.distribution.build());
  });
};

Quaver.timeControls = () => {
  const plot = Quaver.timePlot, by = (id) => document.getElementById(id);
  const layer = by("time-layer"), value = by("time-value"), linear = by("time-linear");
  if (Quaver.data.layered === false) {
    plot.value = "lateness";
  } else {
    plot.layer = Number(layer.value);
    layer.addEventListener("change", () => { plot.layer = Number(layer.value); plot.build(); });
    value.addEventListener("change", () => { plot.value = value.value; plot.build(); });
    value.disabled = !Quaver.late.time.length;
  }
  linear.addEventListener("change", () => { plot.linear = linear.checked; plot.build(); });
  by("zoom-in").addEventListener("click", () => plot.scale(1 / 4));
  by("zoom-out").addEventListener("click", () => plot.scale(4));
  by("zoom-all").addEventListener("click", () => plot.zoom(0, Quaver.end_ns));
  by("time-plot").addEventListener("keydown", (event) => {
    const action = { "+": () => plot.scale(0.5), "=": () => plot.scale(0.5), "-": () => plot.scale(2), ArrowLeft: () => plot.move(-0.25), ArrowRight: () => plot.move(0.25), 0: () => plot.zoom(0, Quaver.end_ns) }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
};

Quaver.build = () => {
  if (document.getElementById("time-plot")) {
    Quaver.timePlot.build();
    Quaver.distribution.build();
  }
  if (Quaver.data.timelines.length) Quaver.timeline.draw();
};

Quaver.start = () => {
  Quaver.load();
  for (const cell of document.querySelectorAll("[data-mark]")) cell.append(Quaver.markPicture(Number(cell.dataset.mark)));
  for (const bar of document.querySelectorAll("[data-fill]")) bar.style.background = `var(${Quaver.causeVariable(Number(bar.dataset.fill))})`;
  if (document.getElementById("time-plot")) {
    Quaver.causeLegend();
    Quaver.layerLegend();
    Quaver.timeControls();
    const kind = document.getElementById("cdf-kind");
    kind.addEventListener("change", () => { Quaver.distribution.kind = kind.value; Quaver.distribution.build(); });
  }
  Quaver.timeline.start();
  Quaver.build();
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(Quaver.build, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", Quaver.build);
  document.documentElement.dataset.ready = "yes";
};

Quaver.start();
