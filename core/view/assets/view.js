"use strict";
// What all drawings share: numbers as a person reads them, ticks, colours, elements, words beside the pointer.
// Text always goes in as text, never as markup. Formats and ticks are those of cell.rs and ticks.rs.
const View = {};

// Values beyond are no measurement, and no axis has room for them.
View.LIMIT = 1e100;

View.digits = (value) => {
  const size = Math.abs(value);
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
};

View.scaled = (value, units) => {
  const [each, unit] = units.find(([each]) => Math.abs(value) >= each * 0.9995) || units.at(-1);
  return [value / each, unit];
};

View.UNITS = {
  duration: [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]],
  bytes: [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]],
  count: [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]],
};

View.figure = (value) => {
  if (value === 0) return "0";
  if (value > 0 && value < 0.005) return "< 0.01";
  return Math.abs(value) < 99.95 ? value.toFixed(2) : Math.round(value).toLocaleString("en-US");
};

View.percent = (share) => {
  const value = share * 100;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  if (value >= 99.995 && value < 100) return "> 99.99 %";
  if (value === 0 || value >= 100) return value.toFixed(0) + " %";
  return (value < 1 || value >= 99.95 ? value.toFixed(2) : value.toFixed(1)) + " %";
};

// A value of a quantity.
View.cell = (quantity, value) => {
  if (!Number.isFinite(value)) return "-";
  switch (quantity) {
    case "duration": case "bytes": {
      if (Math.abs(value) < 999.5 && Number.isInteger(value)) return value + View.UNITS[quantity].at(-1)[1];
      const [size, unit] = View.scaled(value, View.UNITS[quantity]);
      return View.digits(size) + unit;
    }
    case "instant": return (value / 1e9).toFixed(6) + " s";
    case "share": return View.percent(value);
    case "count": return Number.isInteger(value) ? value.toLocaleString("en-US") : View.figure(value);
    case "ratio": return value.toFixed(3);
    default: return View.figure(value);
  }
};

View.plain = (value, digits) => String(parseFloat(value.toPrecision(digits)));

// A value of an axis: in words beside the pointer, and below a line.
View.words = (axis, value) => (axis.names?.length ? axis.names[Math.round(value)] ?? "" : View.cell(axis.quantity, value));
View.tick = (quantity, value, step) => {
  const units = View.UNITS[quantity];
  if (units) {
    const [each, unit] = units.find(([each]) => Math.abs(value) >= each * 0.9999) || units.at(-1);
    return View.plain(value / each, 6) + unit;
  }
  if (quantity === "instant") return (value / 1e9).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / 1e9) - 1e-9)))) + " s";
  return quantity === "share" ? View.plain(value * 100, 3) + " %" : View.plain(value, 6);
};

View.linearTicks = (from, to, most) => {
  const rough = Math.max((to - from) / Math.max(1, most), Number.MIN_VALUE), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough * 0.999999);
  const first = Math.ceil(from / step - 1e-9), last = Math.min(Math.floor(to / step + 1e-9), first + 100);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => (first + at) * step);
};

View.logTicks = (from, to, most) => {
  const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to));
  const all = (steps, skip) => {
    const found = [];
    for (let power = low; power <= high; power++) if (power % skip === 0) for (const step of steps) found.push(step * 10 ** power);
    return found.filter((value) => value >= from * 0.999999 && value <= to * 1.000001);
  };
  for (const steps of [[1, 2, 5], [1, 3]]) {
    const found = all(steps, 1);
    if (found.length <= most) return found.length < 2 ? View.linearTicks(from, to, Math.min(most, 4)) : found;
  }
  for (let skip = 1; ; skip++) {
    const found = all([1], skip);
    if (found.length <= Math.max(1, most)) return found;
  }
};

View.ticks = (axis, from, to, most) => axis.names?.length ? axis.names.map((_, at) => at).filter((at) => at >= from && at <= to) : (axis.log ? View.logTicks : View.linearTicks)(from, to, most);

// Room that words of drawings need, pixels.
View.brush = document.createElement("canvas").getContext("2d");
View.room = (words) => {
  View.brush.font = "12px system-ui, sans-serif";
  return View.brush.measureText(words).width;
};

View.cut = (words, room) => {
  if (View.room(words) <= room) return words;
  const letters = [...words];
  while (letters.length > 1 && View.room(letters.join("") + "…") > room) letters.pop();
  return letters.join("") + "…";
};

// What the drawings are made from: `charts` by their identifiers, and `columns` of numbers that they share.
View.load = async () => {
  const text = atob(document.getElementById("view-data").textContent), bytes = Uint8Array.from(text, (digit) => digit.charCodeAt(0));
  View.data = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).json();
};

// Columns of numbers: a list, or the place of one ("@3"). Gaps are not-a-number.
View.numbers = (column) => {
  const { columns } = View.data, place = column[0] === "@" ? Number(column.slice(1)) : -1, list = place < 0 ? column : columns[place];
  const numbers = list instanceof Float64Array ? list : Float64Array.from(list, (value) => value ?? NaN);
  if (place >= 0) columns[place] = numbers;
  return numbers;
};

View.colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

View.element = (name, attributes, text) => {
  const svg = ["svg", "g", "rect", "text", "path", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

// Shapes of marks by colour, as svg/mod.rs has them.
View.markOf = (variable) => (/^--c[0-7]$/.test(variable) ? Number(variable[3]) : variable === "--ink" ? 9 : 8);

View.tip = (words, event) => {
  const tip = document.getElementById("tip");
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const box = event.target.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const x = event.clientX || box.left + box.width / 2, y = event.clientY || box.bottom;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - size.width - 8)) + "px";
  tip.style.top = (y + 18 + size.height > innerHeight ? Math.max(4, y - size.height - 12) : y + 18) + "px";
};

// What drawings that can be zoomed have in common: a range of x, buttons and keys, and charts that move together.
// A subclass has `whole` (both ends of x), `log` (of x), `range()` and `show(from, to)`.
View.Zoomed = class {
  constructor(figure, data) {
    this.figure = figure;
    this.linked = data.linked;
    this.pane = figure.querySelector(".drawing");
    this.pane.setAttribute("role", "group");
    this.pane.tabIndex = 0;
    this.label = View.element("span", { class: "y-label" });
    this.controls = View.element("div", { class: "controls" });
    this.controls.append(this.label);
    this.pane.before(this.controls);
    this.state = View.element("p", { class: "state", role: "status" });
    this.pane.parentElement.append(this.state);
    this.pane.addEventListener("keydown", (event) => this.key(event));
  }

  buttons() {
    const holder = View.element("span", { class: "buttons zoom" });
    const all = [["+", "Zoom in", () => this.scale(1 / 4)], ["−", "Zoom out", () => this.scale(4)], ["all", "Show all of it", () => this.all()]];
    for (const [sign, words, action] of all) {
      const button = View.element("button", { type: "button", title: words, "aria-label": words }, sign);
      button.addEventListener("click", action);
      holder.append(button);
    }
    this.controls.append(holder);
  }

  key(event) {
    const actions = { "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), 0: () => this.all() };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  // Zooming works in the scale's own measure.
  to(value) { return this.log ? Math.log10(value) : value; }
  from(value) { return this.log ? 10 ** value : value; }

  zoom(from, to) {
    const [low, high] = this.whole.map((value) => this.to(value));
    const span = Math.min(Math.max(to - from, (high - low) * 1e-6), high - low);
    const start = Math.min(Math.max(from, low), high - span);
    this.show(this.from(start), this.from(start + span));
  }

  scale(factor) {
    const [from, to] = this.range().map((value) => this.to(value)), middle = (from + to) / 2, half = ((to - from) / 2) * factor;
    this.zoom(middle - half, middle + half);
  }

  move(part) {
    const [from, to] = this.range().map((value) => this.to(value));
    this.zoom(from + (to - from) * part, to + (to - from) * part);
  }

  all() { this.show(...this.whole); }
};
