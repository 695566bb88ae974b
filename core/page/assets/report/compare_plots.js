"use strict";
// What each plot of a comparison shows: lines over a common x, and words. `pane` (compare.js) keeps uPlot and the controls.
Quaver.compare = {};

Quaver.compare.share = (share) => parseFloat((share * 100).toPrecision(3)) + " %";

// Bins of equal ratio, 24 to a tenfold, filled up so that a gap in a density is a gap on the page.
Quaver.compare.density = {
  label: "overhead of a stamp", logX: true, shares: true,
  make(pattern) {
    const number = (low) => Math.round(Math.log10(low) * 24);
    const used = pattern.arms.flatMap((arm) => arm.density.bins.map(([low]) => number(low)));
    if (!used.length) return null;
    const first = Math.min(...used) - 1, size = Math.max(...used) - first + 2;
    const x = Array.from({ length: size }, (_, at) => 10 ** ((first + at + 0.5) / 24));
    return { x, lines: pattern.arms.map((arm) => {
      const y = new Array(size).fill(0);
      for (const [low, share] of arm.density.bins) y[number(low) - first] = share;
      return { name: arm.name, y };
    }) };
  },
  tick: Quaver.tick,
  at: (x) => `overhead of about ${x < 10 ? x.toFixed(1) + " ns" : Quaver.duration(x)}`,
  say(pattern) {
    const none = pattern.arms.filter((arm) => arm.density.not_positive > 0);
    const words = none.map((arm) => `${arm.name} ${Quaver.compare.share(arm.density.not_positive)}`).join(", ");
    return "Share of the stamps in bins of equal ratio (24 to a tenfold). The checkpoints' own time is taken off" +
      (words ? `, which leaves nothing or less of: ${words} (not drawn).` : ".");
  },
};

// Bins of equal width, common to all ways; `densityOf` gives an arm's.
Quaver.compare.level = (label, words, densityOf) => ({
  label, shares: true,
  make(pattern) {
    const known = pattern.arms.filter((arm) => densityOf(arm)?.shares.length);
    if (!known.length) return null;
    const { from_ns, bin_ns, shares } = densityOf(known[0]);
    const x = shares.map((_, at) => from_ns + (at + 0.5) * bin_ns);
    return { x, lines: known.map((arm) => ({ name: arm.name, y: densityOf(arm).shares })) };
  },
  tick: (ns) => Quaver.tick(ns),
  at: (x) => `${x < 0 ? "−" : "+"}${Quaver.duration(Math.abs(x))}`,
  say: (pattern) => words + " of equal width over the middle 99 % of all ways together; beyond them lie " +
    pattern.arms.filter((arm) => densityOf(arm)?.shares.length)
      .map((arm) => `${arm.name} ${Quaver.compare.share(densityOf(arm).below + densityOf(arm).above)}`).join(", ") + ".",
});

Quaver.compare.interarrival = Quaver.compare.level("time since the packet before, less the period",
  "As stamped. Share of the packets in bins", (arm) => arm.interarrival);

// In the kernel overheads lie around nothing as often as not.
Quaver.compare.kernel = {
  density: Quaver.compare.level("overhead, the mean of the checkpoints alone (off) taken off",
    "Share of the stamps in bins", (arm) => arm.overhead),
  interarrival: Quaver.compare.level("time since the packet before, less the period",
    "Between first checkpoints. Share of the packets in bins", (arm) => arm.interarrival),
};

Quaver.compare.memory = {
  label: "lag, packets",
  make(pattern) {
    const known = pattern.arms.filter((arm) => arm.autocorrelation.length);
    const most = Math.max(0, ...known.map((arm) => arm.autocorrelation.length));
    if (!most) return null;
    const x = Array.from({ length: most }, (_, at) => at + 1);
    return { x, points: true, lines: known.map((arm) => ({ name: arm.name, y: x.map((lag) => arm.autocorrelation[lag - 1] ?? null) })) };
  },
  tick: (lag) => (Number.isInteger(lag) ? String(lag) : ""),
  at: (x) => `lag ${Math.round(x)}`,
  say: () => "Autocorrelation of the overheads within blocks; values beyond the 1st and 99th percentile are moved to these. The paper reads a high one as stability.",
};

// Loss over octets: a line for each way to stamp and placement.
Quaver.compare.loss = (sweep, label) => ({
  label, shares: true, ofLoss: true,
  make() {
    const curves = Quaver.data.loss.filter((curve) => curve.sweep === sweep);
    if (!curves.length) return null;
    const x = [...new Set(curves.flatMap((curve) => curve.points.map(([octets]) => octets)))].sort((a, b) => a - b);
    return { x, points: true, lines: curves.map((curve) => ({
      name: `${curve.arm}, ${curve.placement}`,
      y: x.map((octets) => curve.points.find(([other]) => other === octets)?.[1] ?? null),
      words: x.map((octets) => curve.words[curve.points.findIndex(([other]) => other === octets)]),
    })) };
  },
  tick: String,
  at: (x) => `${Math.round(x)} octets`,
  say: () => "Share of the packets sent that the receiver did not get, all repetitions together. Gaps are those asked for at 1 Gbit/s; what the source reached is told beside the pointer.",
});
