//! Series of packets with given statistics: the inverse of the analysis.
//!
//! Order statistics are set outright; what lies between them is moved until mean and standard deviation are right, and
//! the order in which the delays come until slope and correlation are. All by a fixed seed and exact sums, so that the
//! same series comes out each time.

/// What a series shall have. Times in nanoseconds.
pub(super) struct Wanted {
    pub(super) count: usize,
    /// Latency of the fastest packet.
    pub(super) min_ns: i64,
    /// PDV at positions of the sorted array; the first is 0, the last is the largest.
    pub(super) ranks_ns: Vec<(usize, i64)>,
    /// Lower end and width of the fullest bin, and packets put into it.
    pub(super) mode: (i64, i64, usize),
    /// Sum of all PDV.
    pub(super) sum_ns: i64,
    pub(super) sd_ns: f64,
    /// Standard deviation of the latencies from a sum of squares in 64-bit floating point, where its rounding shows.
    pub(super) rounded_sd_ns: Option<f64>,
    /// Time from the first to the last packet sent.
    pub(super) sent_span_ns: i64,
    /// PDV of the first and the last packet, where they matter.
    pub(super) ends_ns: Option<(i64, i64)>,
    pub(super) line: Line,
}

/// What the line through the burstiness plot shall have.
pub(super) enum Line {
    /// Its correlation; the slope follows from it.
    Correlation(f64),
    /// Both. The instants of sending are then moved towards the middle of the test.
    Both { slope: f64, correlation: f64 },
}

/// A packet's sending and receiving time after the test's start, in the order of both.
pub(super) type Packet = (i64, i64);

/// Makes the series.
pub(super) fn series(wanted: &Wanted) -> Vec<Packet> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut delays = sorted_pdv(wanted, &mut random);
    random.shuffle(&mut delays);
    let ends = wanted.ends_ns.unwrap_or((delays[0], delays[wanted.count - 1]));
    place(&mut delays, 0, ends.0);
    place(&mut delays, wanted.count - 1, ends.1);
    let (sent, covariance) = sending_times(wanted, &delays);
    arrange(&mut delays, &sent, covariance, &mut random);
    if let Some(sd_ns) = wanted.rounded_sd_ns {
        round_squares(wanted, &mut delays, sd_ns, &mut random);
    }
    sent.iter().zip(&delays).map(|(sent, pdv)| (*sent, sent + wanted.min_ns + pdv)).collect()
}

/// Puts a delay of this size to this place.
fn place(delays: &mut [i64], at: usize, pdv_ns: i64) {
    let from = (0..delays.len() - 1)
        .chain([delays.len() - 1])
        .filter(|from| at == 0 || *from > 0)
        .min_by_key(|from| delays[*from].abs_diff(pdv_ns))
        .expect("there are delays");
    delays.swap(from, at);
}

/// PDV in rising order up to the moves, with the wanted ranks, mode, sum and standard deviation.
fn sorted_pdv(wanted: &Wanted, random: &mut Random) -> Vec<i64> {
    let mut values = vec![0; wanted.count];
    // The free values, each with the bounds that leave the ranks as they are.
    let mut free: Vec<(usize, i64, i64)> = Vec::new();
    let (mode_ns, width_ns, mut in_mode) = wanted.mode;
    for pair in wanted.ranks_ns.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        (values[from], values[to]) = (low, high);
        for (at, value) in values.iter_mut().enumerate().take(to).skip(from + 1) {
            let share = (at - from) as f64 / (to - from) as f64;
            *value = low + ((high - low) as f64 * share) as i64;
            let holds_mode = low < mode_ns + width_ns && mode_ns < high;
            if holds_mode && in_mode > 0 {
                let inside = low.max(mode_ns + 1)..high.min(mode_ns + width_ns);
                *value = inside.start + random.below((inside.end - inside.start) as u64) as i64;
                in_mode -= 1;
            } else if low < high {
                free.push((at, low, high));
            }
        }
    }
    assert_eq!(in_mode, 0, "the fullest bin's packets have room beside the ranks");
    move_to_moments(wanted, &mut values, &free, random);
    values
}

/// Moves free values until sum and sum of squares are right.
fn move_to_moments(wanted: &Wanted, values: &mut [i64], free: &[(usize, i64, i64)], random: &mut Random) {
    let mean = wanted.sum_ns as f64 / wanted.count as f64;
    let square = |value: i64| (value as f64 - mean) * (value as f64 - mean);
    let squares_wanted = wanted.sd_ns * wanted.sd_ns * wanted.count as f64;
    let mut sum: i64 = values.iter().sum();
    let mut squares: f64 = values.iter().map(|value| square(*value)).sum();
    // Distance from the goal; a sum that is off by one packet's mean weighs as much as squares of one variance.
    let distance = |sum: i64, squares: f64| {
        let first = (sum - wanted.sum_ns) as f64 / mean;
        let second = (squares - squares_wanted) / (wanted.sd_ns * wanted.sd_ns);
        first * first + second * second
    };
    for turn in 0..4_000_000_u64 {
        if sum == wanted.sum_ns && (squares / squares_wanted - 1.0).abs() < 1e-9 {
            break;
        }
        let (at, low, high) = free[random.below(free.len() as u64) as usize];
        // Ever smaller steps.
        let reach = ((high - low) >> (turn / 50_000).min(40)).max(2);
        let step = random.below(2 * reach as u64 + 1) as i64 - reach;
        let new = values[at] + step;
        if new < low || new > high {
            continue;
        }
        let (new_sum, new_squares) = (sum + new - values[at], squares + square(new) - square(values[at]));
        if distance(new_sum, new_squares) < distance(sum, squares) {
            (values[at], sum, squares) = (new, new_sum, new_squares);
        }
    }
    assert_eq!(sum, wanted.sum_ns, "the ranks leave room for this mean");
    assert!(
        (squares / squares_wanted - 1.0).abs() < 2e-6,
        "and for this deviation: {squares} {squares_wanted}"
    );
}

/// When packets are sent, and the covariance of sending time and delay that gives the line.
///
/// With arrival a = t + d: cov(a, d) = x + S², var(a) = T² + 2x + S², where x = cov(t, d) and S, T are the standard
/// deviations of d and t. So the slope is (x + S²) / var(a), and slope and correlation together tell x and T.
fn sending_times(wanted: &Wanted, delays: &[i64]) -> (Vec<i64>, f64) {
    let s2 = variance(delays);
    match wanted.line {
        Line::Correlation(r) => {
            let sent = times(wanted, 0.0);
            let t2 = variance(&sent);
            let correlation = |x: f64| (x + s2) / (s2 * (t2 + 2.0 * x + s2)).sqrt();
            let reach = 0.5 * (s2 * t2).sqrt();
            (sent, bisect(-reach, reach, |x| correlation(x) - r))
        }
        Line::Both { slope, correlation } => {
            let a2 = s2 * (correlation / slope).powi(2);
            let x = slope * a2 - s2;
            let t2 = a2 - 2.0 * x - s2;
            let most = wanted.sent_span_ns as f64 / (2.0 * std::f64::consts::PI);
            let pull = bisect(0.0, most, |pull| t2 - variance(&times(wanted, pull)));
            (times(wanted, pull), x)
        }
    }
}

/// Sending times at equal distances, pulled towards the middle by a sine of this height.
fn times(wanted: &Wanted, pull_ns: f64) -> Vec<i64> {
    let last = (wanted.count - 1) as f64;
    let time = |at: usize| {
        let share = at as f64 / last;
        let pull = pull_ns * (2.0 * std::f64::consts::PI * share).sin();
        (wanted.sent_span_ns as f64 * share + pull).round() as i64
    };
    (0..wanted.count).map(time).collect()
}

/// Swaps delays, but those of the ends, until the covariance with the sending times is right.
fn arrange(delays: &mut [i64], sent: &[i64], covariance: f64, random: &mut Random) {
    let count = delays.len();
    let mean: i64 = sent.iter().sum::<i64>() / count as i64;
    let exact = |delays: &[i64]| -> i128 {
        sent.iter().zip(delays).map(|(t, d)| i128::from(t - mean) * i128::from(*d)).sum()
    };
    let rest: i128 =
        i128::from(sent.iter().sum::<i64>() - mean * count as i64) * i128::from(delays.iter().sum::<i64>());
    let wanted = (covariance * count as f64) as i128 + rest / count as i128;
    let mut off = exact(delays) - wanted;
    let enough = ((variance(delays) * variance(sent)).sqrt() * count as f64 * 2e-8) as i128;
    for _ in 0..3_000_000 {
        if off.abs() <= enough {
            break;
        }
        let [i, j] = [(); 2].map(|()| 1 + random.below(count as u64 - 2) as usize);
        let change = i128::from(sent[j] - sent[i]) * i128::from(delays[i] - delays[j]);
        if (off + change).abs() < off.abs() {
            delays.swap(i, j);
            off += change;
        }
    }
    assert!(off.abs() <= enough, "an order with this correlation was found: {off} of {enough}");
}

/// Moves pairs of delays apart by some nanoseconds until the rounded sum of their squares is the wanted one. A
/// nanosecond of half a minute changes the square by more than the sum's last digit, and the true deviation hardly.
fn round_squares(wanted: &Wanted, delays: &mut [i64], sd_ns: f64, random: &mut Random) {
    let mean = wanted.min_ns as f64 + wanted.sum_ns as f64 / wanted.count as f64;
    let off = |delays: &[i64]| {
        let square = |pdv: &i64| ((wanted.min_ns + pdv) as f64).powi(2);
        let sum: f64 = delays.iter().map(square).sum();
        (sum / wanted.count as f64 - mean * mean - sd_ns * sd_ns).abs()
    };
    let mut least = off(delays);
    // How far the true sum of squares may go: two nanoseconds of the deviation.
    let (mut drift, bound) = (0_i64, (4.0 * wanted.sd_ns) as i64 * wanted.count as i64);
    // The figure's last digit stands for ten nanoseconds.
    let enough = 2.0 * sd_ns * 4.0;
    for _ in 0..200_000 {
        if least < enough {
            break;
        }
        // Neighbours, so that the order in time, and with it the correlation, stays as it is.
        let i = random.below(delays.len() as u64 - 1) as usize;
        let (i, j) = if random.below(2) == 0 { (i, i + 1) } else { (i + 1, i) };
        let step = 1 + random.below(300) as i64;
        let keeps_ranks = |from: i64, to: i64| {
            wanted.ranks_ns.iter().all(|(_, rank)| from.cmp(rank) == to.cmp(rank) && from != *rank)
        };
        if !keeps_ranks(delays[i], delays[i] + step) || !keeps_ranks(delays[j], delays[j] - step) {
            continue;
        }
        (delays[i], delays[j]) = (delays[i] + step, delays[j] - step);
        let new = off(delays);
        let new_drift = drift + 2 * step * (delays[i] - delays[j]);
        if new < least && new_drift.abs() < bound {
            (least, drift) = (new, new_drift);
        } else {
            (delays[i], delays[j]) = (delays[i] - step, delays[j] + step);
        }
    }
}

fn variance(values: &[i64]) -> f64 {
    let mean = values.iter().map(|value| i128::from(*value)).sum::<i128>() as f64 / values.len() as f64;
    values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Where a function that rises is zero.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }

    fn shuffle(&mut self, values: &mut [i64]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}
