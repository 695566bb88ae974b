//! A grid: instants of one period at which something outside of this kernel stops its CPUs, as the tick of a host does.
//!
//! Its period is shown by turns that were long in the loop's own code, where nothing else takes long. Its phase is
//! followed window by window, since the other side's clock drifts against ours. A turn that begins on a grid is told from
//! one that does not, wherever in its turn the loop was.

/// Periods that timers of hosts have, nanoseconds, the longest first.
const PERIODS_NS: [i64; 4] = [10_000_000, 4_000_000, 2_000_000, 1_000_000];
/// A grid is named where chance gives such a concentration less often.
pub(super) const CHANCE: f64 = 1e-6;
/// Length of a window, nanoseconds: short enough that the drift between two clocks is a line.
const WINDOW_NS: i64 = 640_000_000;
/// Instants of the grid with a turn that a window needs.
const FEWEST: usize = 16;
/// The phase is looked for in arcs of this length, nanoseconds. Clocks that part by 30 ppm stay in
/// one for a window.
const ARC_NS: i64 = 20_000;
/// A turn's begin is known to one turn of the loop, nanoseconds.
const SHORTEST_TOLERANCE_NS: i64 = 2_000;
/// What lies on the grid by chance must be less than this part of what lies on it.
const CHANCE_PART: f64 = 0.05;
/// See [`Grid::find`].
const NEARLY_ALL: f64 = 0.8;

/// Instants at which turns begin that nothing recorded explains: in the loop's own code, and in all places.
pub(super) struct Begins {
    pub(super) own_code: Vec<i64>,
    pub(super) all: Vec<i64>,
}

/// The phase in one window: `phase_ns + slope * (t - from_ns)` after each multiple of the period.
#[derive(Clone, Copy, Debug)]
struct Window {
    from_ns: i64,
    until_ns: i64,
    phase_ns: i64,
    slope: f64,
    tolerance_ns: i64,
}

/// A grid that turns lie on.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    period_ns: i64,
    windows: Vec<Window>,
}

impl Grid {
    /// The grid that long turns begin on; none where chance could have put them so. Instants ascend.
    ///
    /// A grid of a multiple of the true period holds a part of the turns, one of its divisors all of them: the longest
    /// period is taken that holds nearly all that any does.
    pub(super) fn find(begins: &Begins) -> Option<Self> {
        let grids: Vec<Self> = PERIODS_NS.into_iter().filter_map(|ns| Self::of_period(begins, ns)).collect();
        let held: Vec<usize> = grids.iter().map(|grid| grid.instants(&begins.all)).collect();
        let most = held.iter().max().copied()?;
        let nearly_all = |held: usize| held as f64 >= most as f64 * NEARLY_ALL;
        grids.into_iter().zip(held).find(|(_, held)| nearly_all(*held)).map(|(grid, _)| grid)
    }

    fn of_period(begins: &Begins, period_ns: i64) -> Option<Self> {
        let mut grid = Self { period_ns, windows: Vec::new() };
        let mut rest = begins.all.as_slice();
        while let Some(&first) = rest.first() {
            let until_ns = first.saturating_add(WINDOW_NS);
            let (here, later) = rest.split_at(rest.partition_point(|&begin| begin < until_ns));
            grid.windows.extend(Window::fit(here, first, until_ns, period_ns));
            rest = later;
        }
        // What all turns show must be what stops the loop's own code, else the kernel itself may be slow on a period.
        let in_windows = begins.own_code.iter().filter(|&&begin| grid.window(begin).is_some()).count();
        let share = grid.windows.iter().map(|window| window.share(period_ns)).fold(0.0, f64::max);
        (at_least(grid.instants(&begins.own_code), in_windows, share) < CHANCE).then_some(grid)
    }

    /// On how many different instants of the grid some of these begin. Turns that follow each other at once have one
    /// reason, and are no more evidence than the first of them.
    fn instants(&self, begins: &[i64]) -> usize {
        let on_grid = begins.iter().filter(|&&begin| self.holds(begin));
        let mut slots: Vec<i64> =
            on_grid.map(|begin| (begin + self.period_ns / 2) / self.period_ns).collect();
        slots.dedup();
        slots.len()
    }

    /// The period, nanoseconds.
    pub(super) const fn period_ns(&self) -> i64 {
        self.period_ns
    }

    /// Whether a turn that begins then begins on the grid.
    pub(super) fn holds(&self, begin_ns: i64) -> bool {
        self.window(begin_ns)
            .is_some_and(|window| window.off(begin_ns, self.period_ns).abs() <= window.tolerance_ns)
    }

    /// The first instant of the grid in a stretch, whose begin is known as well as a turn's.
    pub(super) fn instant_in(&self, from_ns: i64, until_ns: i64) -> Option<i64> {
        let window = self.window(from_ns)?;
        let nearest_ns = from_ns - window.off(from_ns, self.period_ns);
        let first_ns =
            if nearest_ns < from_ns - window.tolerance_ns { nearest_ns + self.period_ns } else { nearest_ns };
        (first_ns < until_ns).then_some(first_ns.max(from_ns))
    }

    /// The chance that a stretch at no particular time has an instant of the grid, 0 to 1.
    pub(super) fn chance(&self, length_ns: i64) -> f64 {
        ((length_ns + SHORTEST_TOLERANCE_NS) as f64 / self.period_ns as f64).min(1.0)
    }

    fn window(&self, begin_ns: i64) -> Option<&Window> {
        let after = self.windows.partition_point(|window| window.from_ns <= begin_ns);
        self.windows[..after].last().filter(|window| begin_ns < window.until_ns)
    }
}

impl Window {
    /// From the instants of a window, which ascend; none where too few of them are on one phase.
    fn fit(begins: &[i64], from_ns: i64, until_ns: i64, period_ns: i64) -> Option<Self> {
        let center_ns = densest(begins, period_ns)?;
        let coarse = Self { from_ns, until_ns, phase_ns: center_ns, slope: 0.0, tolerance_ns: ARC_NS };
        let near: Vec<(i64, i64)> = begins
            .iter()
            .map(|&begin| (begin - from_ns, coarse.off(begin, period_ns)))
            .filter(|(_, off)| off.abs() <= coarse.tolerance_ns)
            .collect();
        if near.len() < FEWEST {
            return None;
        }
        let slope = slope(&near);
        let rest: Vec<i64> = near.iter().map(|(at, off)| off - (*at as f64 * slope) as i64).collect();
        let middle_ns = median(rest.clone());
        let spread_ns = median(rest.iter().map(|off| (off - middle_ns).abs()).collect());
        let tolerance_ns = (5 * spread_ns).max(SHORTEST_TOLERANCE_NS);
        let fine =
            Self { phase_ns: (center_ns + middle_ns).rem_euclid(period_ns), slope, tolerance_ns, ..coarse };
        let on_grid = begins.iter().filter(|&&b| fine.off(b, period_ns).abs() <= tolerance_ns);
        let mut slots: Vec<i64> =
            on_grid.map(|begin| (begin - fine.phase_ns + period_ns / 2) / period_ns).collect();
        slots.dedup();
        let by_chance = begins.len().saturating_sub(slots.len()) as f64 * fine.share(period_ns);
        (slots.len() >= FEWEST && by_chance <= slots.len() as f64 * CHANCE_PART).then_some(fine)
    }

    /// How far an instant is from the nearest one of the grid, nanoseconds.
    fn off(&self, at_ns: i64, period_ns: i64) -> i64 {
        let drift_ns = ((at_ns - self.from_ns) as f64 * self.slope) as i64;
        (at_ns - self.phase_ns - drift_ns + period_ns / 2).rem_euclid(period_ns) - period_ns / 2
    }

    /// The part of all time that counts as on the grid.
    fn share(&self, period_ns: i64) -> f64 {
        (2 * self.tolerance_ns + 1) as f64 / period_ns as f64
    }
}

/// The middle of the arc of phases that holds most instants, nanoseconds; none without instants.
fn densest(begins: &[i64], period_ns: i64) -> Option<i64> {
    let mut phases: Vec<i64> = begins.iter().map(|begin| begin.rem_euclid(period_ns)).collect();
    phases.sort_unstable();
    let count = phases.len();
    phases.extend_from_within(..);
    phases[count..].iter_mut().for_each(|phase| *phase += period_ns);
    let mut end = 0;
    let mut best = None;
    for start in 0..count {
        while end < phases.len() && phases[end] <= phases[start] + ARC_NS {
            end += 1;
        }
        let held = (end - start).min(count);
        if best.is_none_or(|(most, _)| held > most) {
            best = Some((held, phases[start + held / 2]));
        }
    }
    best.map(|(_, middle_ns)| middle_ns.rem_euclid(period_ns))
}

/// The middle slope of the lines between instants that are half of all apart (Theil's incomplete method).
fn slope(points: &[(i64, i64)]) -> f64 {
    let half = points.len() / 2;
    let pairs = points.iter().zip(&points[half..]);
    let mut slopes: Vec<f64> = pairs
        .filter(|((x0, _), (x1, _))| x1 > x0)
        .map(|((x0, y0), (x1, y1))| (y1 - y0) as f64 / (x1 - x0) as f64)
        .collect();
    if slopes.is_empty() {
        return 0.0;
    }
    let middle = slopes.len() / 2;
    *slopes.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The upper median; 0 without values.
fn median(mut values: Vec<i64>) -> i64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

/// A bound on the chance that at least `found` of `count` independent instants fall where `share` of all time lies
/// (Chernoff: exp(-n D(k/n || p))).
pub(super) fn at_least(found: usize, count: usize, share: f64) -> f64 {
    let (n, k) = (count as f64, found as f64);
    if count == 0 || k <= n * share {
        return 1.0;
    }
    let part = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let rate = k / n;
    (-n * (part(rate, share) + part(1.0 - rate, 1.0 - share))).exp()
}
