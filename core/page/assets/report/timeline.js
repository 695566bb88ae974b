"use strict";
// What happened around one of the worst packets, as rows of boxes over one time axis.
Quaver.timeline = {
  at: 0,

  colourOf(lane, box) {
    if (lane.kind === "cause") return Quaver.causeVariable(box.cause);
    if (lane.kind === "stage") return "--series";
    if (/^idle/.test(box.label)) return "--line";
    return "--event-" + box.depth;
  },

  draw() {
    const view = Quaver.data.timelines[this.at];
    const holder = document.getElementById("worst-plot");
    const width = Math.max(620, holder.clientWidth), left = 150, right = width - 10;
    const x = (ns) => left + ((right - left) * ns) / view.span_ns;
    const row = 20, gap = 12, top = 34;
    let y = top;
    const placed = view.lanes.map((lane) => {
      const depth = Math.max(0, ...lane.boxes.map((box) => box.depth));
      const height = lane.kind === "arrival" ? 16 : (depth + 1) * row;
      const here = { lane, y, height };
      y += height + gap;
      return here;
    });
    const svg = Quaver.element("svg", { viewBox: `0 0 ${width} ${y}`, role: "img", "aria-label": this.title(view) });
    svg.append(Quaver.element("rect", { x: x(view.due_ns), y: top - 8, width: Math.max(1, x(view.came_ns) - x(view.due_ns)), height: y - top, style: "fill:var(--late-zone)" }));
    this.axis(svg, view, x, y, left, right, top);
    for (const { lane, y, height } of placed) this.lane(svg, lane, x, y, height, row, left, right);
    holder.replaceChildren(svg);
    this.describe(view);
  },

  axis(svg, view, x, bottom, left, right, top) {
    const rough = view.span_ns / Math.max(4, Math.floor((right - left) / 110));
    const decade = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((n) => n * decade >= rough) * decade;
    for (let ns = Math.ceil(-view.due_ns / step) * step; ns + view.due_ns <= view.span_ns; ns += step) {
      const at = x(ns + view.due_ns);
      svg.append(Quaver.element("line", { x1: at, x2: at, y1: top - 8, y2: bottom, style: "stroke:var(--faint)" }));
      const anchor = at > right - 40 ? "end" : at < left + 30 ? "start" : "middle";
      svg.append(Quaver.element("text", { x: at, y: 14, "text-anchor": anchor, class: "soft" }, ns === 0 ? "due" : (ns > 0 ? "+" : "") + Quaver.tick(ns)));
    }
    for (const ns of [view.due_ns, view.came_ns])
      svg.append(Quaver.element("line", { x1: x(ns), x2: x(ns), y1: top - 12, y2: bottom, style: "stroke:var(--cause-0);stroke-width:1.5;stroke-dasharray:3 3" }));
  },

  lane(svg, lane, x, y, height, row, left, right) {
    const words = lane.name.match(/^(CPU \d+)(?: \((.*)\))?$/);
    const name = Quaver.element("text", { x: 0, y: y + (words?.[2] ? 12 : height / 2 + 4) }, words ? words[1] : lane.name);
    svg.append(name);
    if (words?.[2]) svg.append(Quaver.element("text", { x: 0, y: y + 28, class: "soft" }, words[2]));
    svg.append(Quaver.element("line", { x1: left, x2: right, y1: y + height + 0.5, y2: y + height + 0.5, style: "stroke:var(--line)" }));
    // Long boxes first, so that short ones and instants stay visible on top of them.
    const boxes = [...lane.boxes].sort((a, b) => b.end_ns - b.start_ns - (a.end_ns - a.start_ns));
    for (const box of boxes) this.box(svg, lane, box, x, y, height, row);
  },

  box(svg, lane, box, x, y, height, row) {
    const tall = lane.kind === "arrival" ? height : row - 2;
    const upper = lane.kind === "arrival" ? y : y + height - (box.depth + 1) * row + 2;
    const instant = box.end_ns === box.start_ns;
    const wide = instant ? 1.5 : Math.max(1.5, x(box.end_ns) - x(box.start_ns) - (lane.kind === "stage" ? 1 : 0));
    const group = Quaver.element("g", { class: "box" });
    const fill = instant ? "--ink" : this.colourOf(lane, box);
    const clear = lane.kind === "event" && !instant ? 0.78 : lane.kind === "arrival" ? 0.7 : 1;
    const rect = Quaver.element("rect", { x: x(box.start_ns), y: upper, width: wide, height: tall, rx: wide > 6 ? 2 : 0, class: "box", style: `fill:var(${fill});fill-opacity:${clear}` });
    const words = box.label + (instant ? "" : `\n${Quaver.duration(box.end_ns - box.start_ns)} shown here`);
    rect.append(Quaver.element("title", {}, words.replace("\n", ": ")));
    if (lane.kind === "cause" || lane.kind === "stage") rect.setAttribute("tabindex", "0");
    group.append(rect);
    const room = Math.floor((wide - 8) / 6.4);
    if (room >= 4 && !instant) {
      const cut = box.label.length > room ? box.label.slice(0, room - 1) + "…" : box.label;
      const pale = fill === "--line";
      group.append(Quaver.element("text", { x: x(box.start_ns) + 5, y: upper + 13, style: `pointer-events:none;fill:var(${pale ? "--ink" : "--on-colour"})` }, cut));
    }
    for (const kind of ["mousemove", "focusin"]) group.addEventListener(kind, (event) => Quaver.tip(words, event));
    for (const kind of ["mouseleave", "focusout"]) group.addEventListener(kind, () => Quaver.tip(""));
    svg.append(group);
  },

  title: (view) => `Packet #${view.seq}: ${Quaver.duration(view.lateness_ns)} late, ${Quaver.causeName(view.cause)}`,

  describe(view) {
    const parts = [`Packet #${view.seq} came ${Quaver.duration(view.lateness_ns)} late, ${(view.offset_ns / 1e9).toFixed(6)} s into the run. Leading source: ${Quaver.causeName(view.cause)}.`];
    if (view.left_out) parts.push(`${Quaver.count(view.left_out)} events shorter than the ones shown are left out.`);
    document.getElementById("worst-state").textContent = parts.join(" ");
    document.getElementById("worst-packet").value = this.at;
    document.getElementById("worst-before").disabled = this.at === 0;
    document.getElementById("worst-after").disabled = this.at === Quaver.data.timelines.length - 1;
  },

  show(at) {
    this.at = Math.min(Math.max(at, 0), Quaver.data.timelines.length - 1);
    this.draw();
  },

  start() {
    if (!Quaver.data.timelines.length) return;
    const choice = document.getElementById("worst-packet");
    Quaver.data.timelines.forEach((view, at) =>
      choice.append(Quaver.element("option", { value: at }, `${at + 1}. #${view.seq} · ${Quaver.duration(view.lateness_ns)} · ${Quaver.causeName(view.cause)}`)));
    choice.addEventListener("change", () => this.show(Number(choice.value)));
    document.getElementById("worst-before").addEventListener("click", () => this.show(this.at - 1));
    document.getElementById("worst-after").addEventListener("click", () => this.show(this.at + 1));
    this.draw();
  },
};
