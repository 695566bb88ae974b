"use strict";
// The page's data blocks, and ΔT at the level of detail that a view needs.
Quaver.MISSING = -2147483648;

Quaver.block = (id) => {
  const text = atob(document.getElementById(id).textContent);
  const octets = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) octets[at] = text.charCodeAt(at);
  return new Int32Array(octets.buffer);
};

// Levels of one layer: each next one joins four slices to one and keeps their least and largest, so that no
// spike is lost at any zoom.
Quaver.levels = (layer) => {
  const cache = (Quaver.levelCache ||= new Map());
  if (cache.has(layer)) return cache.get(layer);
  const both = Quaver.block("slices-" + layer);
  const size = both.length / 2;
  const levels = [{ least: both.subarray(0, size), largest: both.subarray(size), slice: Quaver.data.slice_ns }];
  while (levels.at(-1).least.length > 1024) levels.push(Quaver.coarser(levels.at(-1)));
  cache.set(layer, levels);
  return levels;
};

Quaver.coarser = (from) => {
  const size = Math.ceil(from.least.length / 4);
  const least = new Int32Array(size).fill(Quaver.MISSING);
  const largest = new Int32Array(size).fill(Quaver.MISSING);
  for (let at = 0; at < from.least.length; at++) {
    if (from.least[at] === Quaver.MISSING) continue;
    const to = at >> 2;
    if (least[to] === Quaver.MISSING || from.least[at] < least[to]) least[to] = from.least[at];
    if (from.largest[at] > largest[to]) largest[to] = from.largest[at];
  }
  return { least, largest, slice: from.slice * 4 };
};

// The coarsest level that still has a slice for each of `columns` columns between two instants.
Quaver.levelFor = (layer, from_ns, to_ns, columns) => {
  const levels = Quaver.levels(layer);
  for (let at = levels.length - 1; at > 0; at--) {
    if ((to_ns - from_ns) / levels[at].slice >= columns) return levels[at];
  }
  return levels[0];
};

// Least and largest ΔT of a layer between two instants, from the finest level.
Quaver.extremes = (layer, from_ns, to_ns) => {
  const level = Quaver.levels(layer)[0];
  const first = Math.max(0, Math.floor(from_ns / level.slice));
  const last = Math.min(level.least.length - 1, Math.floor(to_ns / level.slice));
  let least = Infinity, largest = -Infinity;
  for (let at = first; at <= last; at++) {
    if (level.least[at] === Quaver.MISSING) continue;
    least = Math.min(least, level.least[at]);
    largest = Math.max(largest, level.largest[at]);
  }
  return largest === -Infinity ? null : { least, largest };
};

Quaver.load = () => {
  Quaver.data = JSON.parse(document.getElementById("data").textContent);
  Object.assign(Quaver.words, Quaver.data.words);
  Quaver.end_ns = Quaver.data.slices * Quaver.data.slice_ns;
  const halves = Quaver.block("late-time");
  const time = new Float64Array(halves.length / 2);
  for (let at = 0; at < time.length; at++) time[at] = (halves[2 * at] >>> 0) + halves[2 * at + 1] * 4294967296;
  Quaver.late = { time, lateness: Quaver.block("late-lateness"), cause: Quaver.block("late-cause"), delta: new Map() };
};

// ΔT of the late packets at a layer.
Quaver.lateDelta = (layer) => {
  const cache = Quaver.late.delta;
  if (!cache.has(layer)) cache.set(layer, Quaver.block("late-delta-" + layer));
  return cache.get(layer);
};
