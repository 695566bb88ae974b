"use strict";
// Lanes with intervals over one stretch of time, which can be zoomed.
View.Timeline = class extends View.Zoomed {
  constructor(figure, data) {
    super(figure, data);
    this.data = data.plot;
    for (const lane of this.data.lanes) for (const fill of lane.fills) fill.shares = View.numbers(fill.shares);
    [this.whole, this.shownRange, this.log] = [this.data.span, this.data.span, false];
    this.buttons();
    this.drag();
    this.build();
  }

  range() { return this.shownRange; }

  show(from, to) {
    this.shownRange = [from, to];
    this.build();
  }

  // Dragging chooses a part.
  drag() {
    let start = null;
    const at = (event) => {
      const svg = this.pane.firstElementChild.getBoundingClientRect(), [from, to] = this.shownRange, { left, right, wide } = this.frame;
      const share = (((event.clientX - svg.left) / svg.width) * wide - left) / (right - left);
      return from + (to - from) * Math.min(1, Math.max(0, share));
    };
    this.pane.addEventListener("pointerdown", (event) => { start = event.button === 0 ? [at(event), event.clientX] : null; });
    this.pane.addEventListener("pointermove", (event) => {
      if (start === null || Math.abs(event.clientX - start[1]) < 4) return;
      const [one, other] = [start[0], at(event)].map((ns) => this.x(ns));
      this.zone.setAttribute("x", Math.min(one, other));
      this.zone.setAttribute("width", Math.abs(other - one));
    });
    addEventListener("pointerup", (event) => {
      if (start !== null && Math.abs(event.clientX - start[1]) >= 4) this.zoom(...[start[0], at(event)].sort((a, b) => a - b));
      start = null;
    });
    this.pane.addEventListener("dblclick", () => this.all());
  }

  add(name, attributes, text) {
    const made = View.element(name, attributes, text);
    this.svg.append(made);
    return made;
  }

  line(x0, y0, x1, y1, kind) { this.add("path", { class: kind, d: `M${x0} ${y0}L${x1} ${y1}` }); }

  build() {
    const { lanes, zone, arrows } = this.data, [from, to] = this.shownRange, row = 20, gap = 10, top = 32;
    const wide = Math.max(560, this.pane.clientWidth);
    this.width = this.pane.clientWidth;
    const longest = Math.max(...lanes.flatMap((lane) => [View.room(lane.name), View.room(lane.detail)]));
    const left = Math.min(longest, 170) + 12, right = wide - 8;
    this.frame = { left, right, wide };
    this.x = (ns) => left + ((right - left) * Math.min(to, Math.max(from, ns)) - (right - left) * from) / (to - from);
    let y = top;
    const places = lanes.map((lane) => {
      const depth = Math.max(0, ...lane.spans.map((span) => span.depth)), high = row * Math.max(depth + 1, lane.detail ? 1.6 : 1), here = { y, high };
      y += high + gap;
      return here;
    });
    this.svg = View.element("svg", { viewBox: `0 0 ${wide} ${y}`, style: `min-width:${wide > this.width ? wide : 0}px` });
    if (zone && zone[1] > from && zone[0] < to) this.add("rect", { class: "zone", x: this.x(zone[0]), y: top - 8, width: Math.max(1, this.x(zone[1]) - this.x(zone[0])), height: y - top });
    this.axis(y, top);
    lanes.forEach((lane, at) => this.lane(lane, places[at], row));
    for (const arrow of arrows) {
      const [x0, x1] = [arrow.from[0], arrow.to[0]], [one, other] = [places[arrow.from[1]], places[arrow.to[1]]];
      if (!one || !other || x1 < from || x0 > to) continue;
      const [y0, y1] = [one.y + one.high / 2, other.y + other.high / 2], up = y1 < y0 ? 5 : -5, end = this.x(x1);
      this.line(this.x(x0), y0, end, y1, "arrow");
      this.add("path", { class: "arrow", d: `M${end - 3} ${y1 + up}L${end} ${y1}L${end + 3} ${y1 + up}` });
    }
    this.zone = this.add("rect", { class: "zone", x: 0, y: top - 8, width: 0, height: y - top, style: "pointer-events:none" });
    this.pane.replaceChildren(this.svg);
    this.state.textContent = from > this.whole[0] || to < this.whole[1] ? `Shown: ${View.cell("duration", to - from)}.` : "";
  }

  axis(foot, top) {
    const { origin, zone } = this.data, [from, to] = this.shownRange, { left, right } = this.frame, zero = origin?.[0] ?? 0;
    const values = View.linearTicks(from - zero, to - zero, Math.floor((right - left) / 100));
    for (const value of values) {
      const at = this.x(value + zero);
      this.line(at, top - 8, at, foot, "grid");
      const text = origin ? (value === 0 ? origin[1] : (value > 0 ? "+" : "") + View.tick("duration", value)) : View.tick("duration", value);
      this.add("text", { class: "soft", x: at, y: 14, "text-anchor": at > right - 30 ? "end" : at < left + 24 ? "start" : "middle" }, text);
    }
    for (const ns of zone || []) if (ns >= from && ns <= to) this.line(this.x(ns), top - 12, this.x(ns), foot, "guide");
  }

  lane(lane, { y, high }, row) {
    const { left, right } = this.frame, [from, to] = this.shownRange;
    this.add("text", { x: 0, y: lane.detail ? y + 12 : y + high / 2 + 4 }, View.cut(lane.name, left - 8));
    if (lane.detail) this.add("text", { x: 0, y: y + 27, class: "soft" }, View.cut(lane.detail, left - 8));
    this.line(left, y + high + 0.5, right, y + high + 0.5, "grid");
    const below = [];
    for (const fill of lane.fills) {
      const each = (this.whole[1] - this.whole[0]) / fill.shares.length, parts = [];
      fill.shares.forEach((share, at) => {
        const start = this.whole[0] + each * at, foot = below[at] || 0, part = Math.min(share || 0, 1 - foot);
        if (start + each <= from || start >= to || part * high < 0.1) return;
        parts.push(`M${this.x(start).toFixed(1)} ${(y + high * (1 - foot)).toFixed(1)}H${this.x(start + each).toFixed(1)}v${(-part * high).toFixed(1)}H${this.x(start).toFixed(1)}Z`);
        below[at] = foot + part;
      });
      this.add("path", { d: parts.join(""), style: `fill:var(${fill.colour})` });
    }
    // Long intervals first, so that short ones and instants stay visible on top of them.
    const spans = lane.spans.filter((span) => span.end >= from && span.start <= to).sort((a, b) => b.end - b.start - (a.end - a.start));
    for (const span of spans) this.span(span, y + high - row * (span.depth + 1) + 1, row - 2, spans.length <= 8);
  }

  // Few intervals of a lane are reached by keys too.
  span(span, y, high, reached) {
    const instant = span.end <= span.start, x = this.x(span.start), wide = instant ? 1.5 : Math.max(1.5, this.x(span.end) - x);
    const words = span.label + (instant ? "" : `\n${View.cell("duration", span.end - span.start)}`);
    const box = this.add("rect", { class: "span", x, y, width: wide, height: high, rx: wide > 6 ? 2 : 0, style: `fill:var(${instant ? "--ink" : span.colour})` });
    if (reached) {
      box.setAttribute("tabindex", "0");
      box.setAttribute("aria-label", words.replace("\n", ": "));
    }
    for (const kind of ["mousemove", "focus"]) box.addEventListener(kind, (event) => View.tip(words, event));
    for (const kind of ["mouseleave", "blur"]) box.addEventListener(kind, () => View.tip(""));
    if (!instant && wide > 34) this.add("text", { class: "inside" + (span.colour === "--faint" ? " faint" : ""), x: x + 5, y: y + 13.5 }, View.cut(span.label, wide - 8));
  }
};
