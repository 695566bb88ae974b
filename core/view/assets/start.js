"use strict";
// Replaces still drawings by ones that can be zoomed, where they are seen first.
View.charts = [];
View.markPaths = JSON.parse(document.getElementById("view-marks").textContent);
View.kinds = { xy: View.Plot, distribution: View.Plot, timeline: View.Timeline };

View.enliven = (figure) => {
  const data = View.data.charts[figure.id], kind = View.kinds[data.plot.kind];
  if (!kind || figure.dataset.live) return;
  figure.dataset.live = "yes";
  View.charts.push(new kind(figure, data));
};

// One chart of several: a list, and buttons for its neighbours.
View.oneOf = (group) => {
  const figures = [...group.querySelectorAll("figure")], controls = View.element("div", { class: "controls" });
  const label = View.element("label", {}, group.dataset.label + " "), choice = View.element("select", { autocomplete: "off" });
  const titles = figures.map((figure) => figure.querySelector("h3")?.textContent || figure.id);
  figures.forEach((figure, at) => choice.append(View.element("option", { value: at }, titles[at])));
  label.append(choice);
  const buttons = [["Previous", -1], ["Next", 1]].map(([words, step]) => {
    const button = View.element("button", { type: "button" }, words);
    button.addEventListener("click", () => show(Number(choice.value) + step));
    return button;
  });
  const show = (wanted) => {
    figures.forEach((figure, at) => { figure.hidden = at !== wanted; });
    choice.value = wanted;
    buttons.forEach((button, at) => { button.disabled = wanted === [0, figures.length - 1][at]; });
    if ("chart" in figures[wanted].dataset) View.enliven(figures[wanted]);
  };
  choice.addEventListener("change", () => show(Number(choice.value)));
  const holder = View.element("span", { class: "buttons" });
  holder.append(...buttons);
  controls.append(label, holder);
  group.prepend(controls);
  show(0);
};

// Drawn anew where the page's width or its colours change.
View.anew = (always) => {
  for (const chart of View.charts) if (chart.pane.clientWidth && (always || chart.pane.clientWidth !== chart.width)) chart.build();
};

View.start = () => {
  document.querySelectorAll(".one-of").forEach((group) => { if (group.querySelector("figure")) View.oneOf(group); });
  View.seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) { View.seen.unobserve(target); View.enliven(target); }
  }, { rootMargin: "600px" });
  document.querySelectorAll("figure[data-chart]").forEach((figure) => { if (!figure.closest(".one-of")) View.seen.observe(figure); });
  let waiting = 0;
  new ResizeObserver(() => { clearTimeout(waiting); waiting = setTimeout(View.anew, 120, false); }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => View.anew(true));
  addEventListener("beforeprint", () => document.querySelectorAll("figure[data-chart]:not([hidden])").forEach(View.enliven));
  document.documentElement.dataset.ready = "yes";
};

document.documentElement.dataset.scripts = "yes";
View.started = View.load().then(View.start, () => {
  document.querySelector(".how").textContent = "This browser cannot unpack the drawings' data (DecompressionStream). They stand still, and where one of several can be chosen, the first is shown.";
});
