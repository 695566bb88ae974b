"use strict";
// What each plot of a path shows: ranges, drawing, words. `pane` (path.js) keeps uPlot and the controls.
// A flow's colour is that of its way; with two flows in one plot, what is filled is half clear.
Quaver.path = {};

// Places that a multiple of a step needs: 2 for 0.25.
Quaver.path.places = (step) => {
  let places = 0;
  while (places < 9 && Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) > 1e-6 * step * 10 ** places) places++;
  return places;
};

// Delays with one unit for the whole axis and as many places as its steps need.
Quaver.path.timeTicks = (u, ticks, axis, space, step) => {
  const most = Math.max(...ticks.map(Math.abs));
  const [size, unit] = [[1e9, " s"], [1e6, " ms"], [1e3, " µs"]].find(([size]) => most >= size * 0.9999) || [1, " ns"];
  return ticks.map((ns) => (ns / size).toFixed(Quaver.path.places(step / size)) + unit);
};

// A delay with the digits that tell it from one a little different.
Quaver.path.exact = (ns) => {
  const short = Quaver.duration(ns);
  return Math.abs(ns) < 1e9 ? short : (ns / 1e9).toFixed(6) + " s";
};

Quaver.path.percent = (share) => {
  const size = Math.abs(share * 100);
  return (size >= 99.995 && size < 100 ? "> 99.99" : parseFloat((share * 100).toPrecision(4))) + " %";
};

Quaver.path.counts = (n) => (n >= 1e6 ? n / 1e6 + " M" : n >= 1e3 ? n / 1e3 + " k" : n < 1 && n > 0 ? "" : String(n));

Quaver.path.plural = (count, one, many) => `${Quaver.count(count)} ${count === 1 ? one : many}`;

Quaver.path.line = (u, points, dash, colour, width) => {
  const { ctx } = u;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width * uPlot.pxRatio;
  ctx.setLineDash(dash.map((length) => length * uPlot.pxRatio));
  ctx.beginPath();
  points.forEach(([x, y], at) => (at ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
  ctx.setLineDash([]);
};

// Index of the last element that is at most `wanted`; -1 where there is none.
Quaver.path.lastUpTo = (wanted, size, valueOf) => {
  let low = 0, high = size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueOf(middle) <= wanted) low = middle + 1; else high = middle;
  }
  return low - 1;
};

// A histogram with its CDF on the right axis. `bins` gives a flow's bins, `shift` what moves them.
Quaver.path.histogram = (quantity, bins, shift, none, noteOf) => ({
  label: quantity, cdf: true, logCounts: true, none,
  has: (flow) => Boolean(bins(flow)),
  edge: (flow, at, pane) => bins(flow).min_ns + shift(flow, pane) + at * bins(flow).bin_ns,
  total: (flow) => bins(flow).below + bins(flow).above + bins(flow).counts.reduce((sum, n) => sum + n, 0),
  xRange(flows, pane) {
    const ends = flows.flatMap((flow) => [this.edge(flow, 0, pane), this.edge(flow, bins(flow).counts.length, pane)]);
    const room = (Math.max(...ends) - Math.min(...ends)) * 0.01;
    return [Math.min(...ends) - room, Math.max(...ends) + room];
  },
  yRange(flows, pane) {
    const most = Math.max(...flows.flatMap((flow) => bins(flow).counts), 1);
    return pane.log ? [0.6, most * 1.6] : [0, most * 1.06];
  },
  yTicks: Quaver.path.counts,
  draw(u, flows, pane) {
    const { ctx } = u, floor = u.valToPos(u.scales.y.min, "y", true);
    for (const flow of flows) {
      ctx.fillStyle = pane.colour(flow);
      ctx.globalAlpha = flows.length > 1 ? 0.4 : 0.5;
      bins(flow).counts.forEach((count, at) => {
        if (!count) return;
        const left = u.valToPos(this.edge(flow, at, pane), "x", true), right = u.valToPos(this.edge(flow, at + 1, pane), "x", true);
        const top = Math.min(u.valToPos(count, "y", true), floor - uPlot.pxRatio);
        const gap = right - left > 5 * uPlot.pxRatio ? uPlot.pxRatio : 0;
        ctx.fillRect(left, top, Math.max(uPlot.pxRatio, right - left - gap), floor - top);
      });
      ctx.globalAlpha = 1;
    }
    for (const flow of flows) {
      const total = this.total(flow);
      let below = bins(flow).below;
      const point = (at) => [u.valToPos(this.edge(flow, at, pane), "x", true), u.valToPos(below / total, "share", true)];
      const points = [point(0)];
      bins(flow).counts.forEach((count, at) => { below += count; points.push(point(at + 1)); });
      Quaver.path.line(u, points, [], pane.colour(flow), 2);
    }
  },
  hint(x, flows, pane) {
    return flows.map((flow) => {
      const at = Math.floor((x - this.edge(flow, 0, pane)) / bins(flow).bin_ns), { counts, below } = bins(flow);
      if (!(counts[at] >= 0)) return "";
      const upTo = counts.slice(0, at + 1).reduce((sum, n) => sum + n, below) / this.total(flow);
      return `${flow.way}: ${Quaver.path.exact(this.edge(flow, at, pane))} to ${Quaver.path.exact(this.edge(flow, at + 1, pane))}\n` +
        `${Quaver.path.plural(counts[at], "packet", "packets")}; ${Quaver.path.percent(upTo)} up to here`;
    }).filter(Boolean).join("\n");
  },
  say: (flows, pane) => "Bars: packets in bins of equal width. Line: share of the packets that arrived with at most this value (right axis). " +
    flows.map((flow) => `${flow.way}: ${noteOf(flow, bins(flow), pane)}`).join(" "),
});

// Bars over whole numbers, of two flows side by side. `pairs` gives [value, count], `of` what a share is of.
Quaver.path.bars = (label, unit, pairs, of, none, note) => ({
  label, logCounts: true, whole: true, shares: Boolean(of), none,
  has: (flow) => pairs(flow).length > 0,
  height: (flow, count) => (of ? count / of(flow) : count),
  xRange(flows) {
    const values = flows.flatMap((flow) => pairs(flow).map(([value]) => value));
    return [Math.min(...values) - 0.75, Math.max(...values) + 0.75];
  },
  yRange(flows, pane) {
    const heights = flows.flatMap((flow) => pairs(flow).map(([, count]) => this.height(flow, count)));
    const most = Math.max(...heights);
    return pane.log ? [Math.min(...heights) * 0.6, most * 1.6] : [0, most * 1.06];
  },
  yTicks: of ? Quaver.path.percent : Quaver.path.counts,
  draw(u, flows, pane) {
    const { ctx } = u, floor = u.valToPos(u.scales.y.min, "y", true), part = 0.8 / flows.length;
    flows.forEach((flow, at) => {
      ctx.fillStyle = pane.colour(flow);
      for (const [value, count] of pairs(flow)) {
        const left = u.valToPos(value - 0.4 + at * part, "x", true), right = u.valToPos(value - 0.4 + (at + 1) * part, "x", true);
        const top = Math.min(u.valToPos(this.height(flow, count), "y", true), floor - uPlot.pxRatio);
        ctx.fillRect(left, top, Math.max(1.5 * uPlot.pxRatio, right - left), floor - top);
      }
    });
  },
  hint(x, flows) {
    const value = Math.round(x);
    return flows.map((flow) => {
      const found = pairs(flow).find(([other]) => other === value);
      return found ? `${flow.way}: ${label} ${value}\n${Quaver.count(found[1])} ${unit}` + (of ? `, ${Quaver.path.percent(found[1] / of(flow))}` : "") : "";
    }).filter(Boolean).join("\n");
  },
  say: (flows) => flows.map((flow) => `${flow.way}: ${note(flow)}`).join(" "),
});

// Share of packets above each PDV, both scales logarithmic.
Quaver.path.tail = {
  label: "PDV", logX: true, logY: true, none: "No delay differs from the least one, so there is no tail.",
  has: (flow) => flow.tail.some(([pdv]) => pdv > 0),
  xRange(flows) {
    const values = flows.flatMap((flow) => flow.tail.map(([pdv]) => pdv).filter((pdv) => pdv > 0));
    return [Math.min(...values) / 1.1, Math.max(...values) * 1.15];
  },
  yRange: (flows) => [Math.min(...flows.map((flow) => 0.5 / flow.packets)), 1.3],
  yTicks: (share) => parseFloat((share * 100).toPrecision(3)) + " %",
  steps(u, flow, shareOf) {
    const points = [], least = u.scales.x.min, floor = u.scales.y.min;
    let y = null;
    for (const [pdv, above] of flow.tail) {
      const x = u.valToPos(Math.max(pdv, least), "x", true);
      if (y !== null) points.push([x, y]);
      y = u.valToPos(Math.max(shareOf(above), floor), "y", true);
      points.push([x, y]);
    }
    return points;
  },
  draw(u, flows, pane) {
    for (const flow of flows) {
      Quaver.path.line(u, this.steps(u, flow, (above) => above / flow.packets), [], pane.colour(flow), 2);
      if (!flow.lost) continue;
      const points = this.steps(u, flow, (above) => (above + flow.lost) / flow.sent);
      points.push([u.bbox.left + u.bbox.width, points.at(-1)[1]]);
      Quaver.path.line(u, points, [6, 4], pane.colour(flow), 1.4);
    }
  },
  hint(x, flows) {
    return flows.map((flow) => {
      const at = Quaver.path.lastUpTo(x, flow.tail.length, (at) => flow.tail[at][0]);
      if (at < 0) return "";
      const [pdv, above] = flow.tail[at];
      return `${flow.way}: above ${Quaver.duration(pdv)}\n${Quaver.path.plural(above, "packet", "packets")}, ${Quaver.path.percent(above / flow.packets)} of those that arrived` +
        (flow.lost ? `\nlate or lost behind such a buffer: ${Quaver.path.percent((above + flow.lost) / flow.sent)}` : "");
    }).filter(Boolean).join("\n");
  },
  say: (flows) => "Line: share of the packets that arrived with a larger PDV." +
    (flows.some((flow) => flow.lost) ? " Dashed: share of the packets sent that a de-jitter buffer of this size would miss, lost ones too." : "") +
    " PDV by RFC 5481, section 4.2.",
};

// Delay over time of arrival: least and largest of each slice, losses at the foot, two lines.
Quaver.path.burstiness = {
  label: "time since the first arrival", time: true, none: "Nothing arrived.",
  has: (flow) => flow.packets > 0,
  xRange: () => [0, Quaver.end_ns],
  delay: (flow, number, pane) => flow.base_ns + number * flow.unit_ns + pane.shift(flow),
  yRange(flows, pane, u) {
    const [from, to] = [u.scales.x.min ?? 0, u.scales.x.max ?? Quaver.end_ns];
    let least = Infinity, largest = -Infinity;
    for (const flow of flows) {
      const seen = Quaver.extremes(Quaver.data.flows.indexOf(flow), from, to);
      if (!seen) continue;
      least = Math.min(least, this.delay(flow, seen.least, pane));
      largest = Math.max(largest, this.delay(flow, seen.largest, pane));
    }
    if (largest === -Infinity) return [0, 1];
    const room = (largest - least) * 0.05 || 10;
    // Losses stand below all delays.
    const foot = flows.some((flow) => flow.lost) ? room * 2.4 : room;
    return [least - foot, largest + room];
  },
  columns(u, flow, pane) {
    const { ctx } = u, [from, to] = [u.scales.x.min, u.scales.x.max], pixel = uPlot.pxRatio;
    const level = Quaver.levelFor(Quaver.data.flows.indexOf(flow), from, to, u.over.clientWidth);
    const last = Math.min(level.least.length - 1, Math.ceil(to / level.slice));
    pane.slice_ns = level.slice;
    for (let at = Math.max(0, Math.floor(from / level.slice)); at <= last; at++) {
      if (level.least[at] === Quaver.MISSING) continue;
      const left = u.valToPos(at * level.slice, "x", true), width = Math.max(pixel, u.valToPos((at + 1) * level.slice, "x", true) - left);
      const top = u.valToPos(this.delay(flow, level.largest[at], pane), "y", true);
      const bottom = u.valToPos(this.delay(flow, level.least[at], pane), "y", true);
      if (width <= 3 * pixel || bottom - top <= 3 * pixel) {
        ctx.fillRect(left, top - pixel, Math.max(width, 2 * pixel), bottom - top + 2 * pixel);
        continue;
      }
      // A wide column is one slice: its ends are known, what lies between them is not.
      const alpha = ctx.globalAlpha;
      ctx.globalAlpha = alpha * 0.3;
      ctx.fillRect(left, top, width, bottom - top);
      ctx.globalAlpha = alpha;
      ctx.fillRect(left, top - pixel, width, 2 * pixel);
      ctx.fillRect(left, bottom - pixel, width, 2 * pixel);
    }
  },
  losses(u, flow, row) {
    const { ctx, bbox } = u, pixel = uPlot.pxRatio, pairs = Quaver.path.lost(flow);
    const height = 9 * pixel, top = bbox.top + bbox.height - (row + 1) * (height + 2 * pixel);
    let drawn = -Infinity;
    for (let at = 0; at < pairs.length; at += 2) {
      const x = u.valToPos((pairs[at] + 0.5) * Quaver.data.slice_ns, "x", true);
      if (x < drawn + pixel || x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.fillRect(x - pixel / 2, top, 1.5 * pixel, height);
      drawn = x;
    }
  },
  lineThrough(u, at, dash) {
    const ends = [u.scales.x.min, u.scales.x.max].map((ns) => [u.valToPos(ns, "x", true), u.valToPos(at(ns), "y", true)]);
    // It runs through columns of any colour, so a dashed one has a rim; a lower one has the page below it.
    if (dash.length) Quaver.path.line(u, ends, [], Quaver.colour("panel"), 2.6);
    Quaver.path.line(u, ends, dash, Quaver.colour("ink"), 1.3);
  },
  draw(u, flows, pane) {
    const { ctx } = u;
    let row = 0;
    for (const flow of flows) {
      ctx.fillStyle = pane.colour(flow);
      ctx.globalAlpha = flows.length > 1 ? 0.5 : 0.75;
      this.columns(u, flow, pane);
      ctx.globalAlpha = 1;
      ctx.fillStyle = flows.length > 1 ? pane.colour(flow) : Quaver.colour("alarm");
      if (flow.lost) this.losses(u, flow, row++);
    }
    for (const flow of flows) {
      const shift = pane.shift(flow), { line, lower } = flow;
      if (line) this.lineThrough(u, (ns) => line.mean_delay_ns + shift + line.slope * (ns - line.mean_time_ns), [7, 4]);
      if (lower) this.lineThrough(u, (ns) => lower[0][1] + shift + ((lower[1][1] - lower[0][1]) / (lower[1][0] - lower[0][0] || 1)) * (ns - lower[0][0]), []);
    }
  },
  hint(x, flows, pane) {
    const at = Math.floor(x / pane.slice_ns);
    return flows.map((flow) => {
      const from = at * pane.slice_ns, seen = Quaver.extremes(Quaver.data.flows.indexOf(flow), from, from + pane.slice_ns * 0.999);
      const lost = Quaver.path.lostBetween(flow, from, from + pane.slice_ns);
      if (!seen && !lost) return "";
      return `${flow.way}, ${(from / 1e9).toFixed(6)} s\n` +
        (seen ? `delay ${Quaver.path.exact(this.delay(flow, seen.least, pane))} to ${Quaver.path.exact(this.delay(flow, seen.largest, pane))}` : "nothing arrived") +
        (lost ? `\n${Quaver.count(lost)} lost` : "");
    }).filter(Boolean).join("\n");
  },
  say(flows, pane) {
    const ppm = (slope) => (slope >= 0 ? "+" : "") + (slope * 1e6).toFixed(3) + " ppm";
    const words = [`Each column is the least and the largest delay of ${Quaver.duration(pane.slice_ns)}; no spike is dropped, and zooming in refines.`];
    if (flows.some((flow) => flow.lost)) words.push("Marks at the foot: lost packets, between their neighbours.");
    for (const flow of flows.filter((flow) => flow.line)) {
      const lower = flow.lower && (flow.lower[1][1] - flow.lower[0][1]) / (flow.lower[1][0] - flow.lower[0][0] || 1);
      words.push(`${flow.way}: least squares (dashed) ${ppm(flow.line.slope)}` +
        (flow.line.correlation === null ? "" : `, correlation ${flow.line.correlation.toFixed(3)}`) +
        (lower === null ? "." : `; lower line (solid) ${ppm(lower)}.`));
    }
    return words.join(" ");
  },
};

// Pairs of a slice and how many packets were lost in it.
Quaver.path.lost = (flow) => {
  const cache = (Quaver.path.lostCache ||= new Map());
  if (!cache.has(flow)) cache.set(flow, Quaver.block("lost-" + Quaver.data.flows.indexOf(flow)));
  return cache.get(flow);
};

Quaver.path.lostBetween = (flow, from, to) => {
  const pairs = Quaver.path.lost(flow), slice = Quaver.data.slice_ns;
  let lost = 0;
  for (let at = 0; at < pairs.length; at += 2) if (pairs[at] * slice >= from - slice / 2 && pairs[at] * slice < to - slice / 2) lost += pairs[at + 1];
  return lost;
};
