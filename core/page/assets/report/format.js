"use strict";
// Numbers as a person reads them, and small builders of elements. Text always goes in as text, never as markup.
const Quaver = {};

// What the page's numbers are about; the data of another page may say otherwise.
Quaver.words = {
  one: "late packet", many: "late packets", size: "late", from: "late from here", start: "time since the first packet",
  quantity: "ΔT", unit: "packets", drawn: "the worst",
};

Quaver.digits = (value) => {
  const size = Math.abs(value);
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
};

// Nanoseconds with a unit that fits: 812 ns, 7.41 µs, 1.20 ms, 2.00 s.
Quaver.duration = (ns) => {
  const size = Math.abs(ns);
  if (size < 1e3) return Math.round(ns) + " ns";
  if (size < 999.5e3) return Quaver.digits(ns / 1e3) + " µs";
  if (size < 999.5e6) return Quaver.digits(ns / 1e6) + " ms";
  return Quaver.digits(ns / 1e9) + " s";
};

// Nanoseconds for an axis: no trailing zeros.
Quaver.tick = (ns) => {
  const units = [[1e9, " s"], [1e6, " ms"], [1e3, " µs"]];
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size * 0.9999) || [1, " ns"];
  return parseFloat((ns / size).toPrecision(6)) + unit;
};

Quaver.count = (value) => Math.round(value).toLocaleString("en-US");

Quaver.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

Quaver.element = (name, attributes, text) => {
  const svg = ["svg", "g", "rect", "text", "line", "path", "title", "clipPath"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

// A cause's colour: the first six have their own, further ones share one.
Quaver.causeVariable = (cause) => "--cause-" + (cause < 0 ? "unexplained" : cause < 6 ? cause : "other");
Quaver.causeColour = (cause) => Quaver.colour(Quaver.causeVariable(cause).slice(2));

Quaver.causeName = (cause) =>
  cause < 0 ? "unexplained" : Quaver.data.causes[cause];

// Draws a cause's mark around (x, y): a shape of its own, so that colour is not needed to tell it.
Quaver.mark = (path, cause, x, y, r) => {
  switch (cause < 0 ? -1 : Math.min(cause, 6)) {
    case -1: path.moveTo(x - r, y - r); path.lineTo(x + r, y + r); path.moveTo(x + r, y - r); path.lineTo(x - r, y + r); break;
    case 0: path.moveTo(x + r, y); path.arc(x, y, r, 0, 2 * Math.PI); break;
    case 1: path.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8); break;
    case 2: path.moveTo(x, y - r * 1.2); path.lineTo(x + r * 1.15, y + r * 0.9); path.lineTo(x - r * 1.15, y + r * 0.9); path.closePath(); break;
    case 3: path.moveTo(x, y - r * 1.3); path.lineTo(x + r * 1.3, y); path.lineTo(x, y + r * 1.3); path.lineTo(x - r * 1.3, y); path.closePath(); break;
    case 4: path.moveTo(x, y + r * 1.2); path.lineTo(x + r * 1.15, y - r * 0.9); path.lineTo(x - r * 1.15, y - r * 0.9); path.closePath(); break;
    case 5: path.rect(x - r * 1.1, y - r * 0.5, r * 2.2, r); break;
    default: path.rect(x - r * 1.2, y - r * 0.45, r * 2.4, r * 0.9); path.rect(x - r * 0.45, y - r * 1.2, r * 0.9, r * 2.4);
  }
};

// The same mark as a small picture beside words.
Quaver.markPicture = (cause) => {
  const steps = [];
  const path = {
    moveTo: (x, y) => steps.push(`M${x} ${y}`), lineTo: (x, y) => steps.push(`L${x} ${y}`), closePath: () => steps.push("Z"),
    arc: (x, y, r) => steps.push(`A${r} ${r} 0 1 1 ${x - r} ${y}A${r} ${r} 0 1 1 ${x + r} ${y}Z`),
    rect: (x, y, w, h) => steps.push(`M${x} ${y}h${w}v${h}h${-w}Z`),
  };
  Quaver.mark(path, cause, 8, 8, 5);
  const colour = Quaver.causeVariable(cause);
  const svg = Quaver.element("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" });
  svg.append(Quaver.element("path", { d: steps.join(""), style: `fill:var(${colour});stroke:var(${colour});stroke-width:${cause < 0 ? 2 : 0}` }));
  return svg;
};
