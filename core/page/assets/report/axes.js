"use strict";
// Axes that all plots share, and the words beside the pointer.
Quaver.axis = (extra) => ({
  stroke: Quaver.colour("soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
  grid: { stroke: Quaver.colour("faint"), width: 1 }, ticks: { stroke: Quaver.colour("line"), width: 1 }, ...extra,
});

// Where a logarithmic scale has its lines: at powers of ten, and at 2 and 5 where there are few of those.
Quaver.logSplits = (u, axis, least, largest) => {
  const low = Math.floor(Math.log10(least)), high = Math.ceil(Math.log10(largest));
  const steps = high - low > 5 ? [1] : high - low > 3 ? [1, 3] : [1, 2, 5];
  const all = [];
  for (let at = low; at <= high; at++) for (const step of steps) all.push(step * 10 ** at);
  return all.filter((value) => value >= least && value <= largest);
};

// An axis with a logarithmic scale, its numbers written by `shown`.
Quaver.logAxis = (shown, extra) => Quaver.axis({
  splits: Quaver.logSplits, filter: (u, splits) => splits,
  values: (u, splits) => splits.map((value) => shown(parseFloat(value.toPrecision(3)))), ...extra,
});

Quaver.tip = (words, event) => {
  const tip = document.getElementById("tip");
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const box = event.target.getBoundingClientRect();
  const x = event.clientX || box.left + box.width / 2, y = event.clientY || box.bottom;
  const size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - size.width - 8)) + "px";
  tip.style.top = (y + 18 + size.height > innerHeight ? y - size.height - 12 : y + 18) + "px";
};
