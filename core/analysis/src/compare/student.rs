//! Quantiles of Student's t.

use std::f64::consts::FRAC_PI_2;

/// Steps of the integral.
const STEPS: usize = 400;
/// Beyond so many degrees of freedom the distribution is normal to four digits.
const MOST_FREEDOM: f64 = 2_000.0;

/// The quantile of Student's t for `share` above 1/2. With t = √ν·tan θ its density is cos^(ν-1) θ, up to a factor.
pub(super) fn quantile(freedom: f64, share: f64) -> f64 {
    let freedom = freedom.clamp(1.0, MOST_FREEDOM);
    let whole = integral(freedom, FRAC_PI_2);
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if integral(freedom, middle) / whole < 2.0 * share - 1.0 { low = middle } else { high = middle }
    }
    freedom.sqrt() * low.tan()
}

/// The integral of cos^(ν-1) from 0, by Simpson's rule.
fn integral(freedom: f64, to: f64) -> f64 {
    let step = to / STEPS as f64;
    let weight = |at: usize| match at {
        0 | STEPS => 1.0,
        _ if at % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let height = |at: usize| (at as f64 * step).cos().max(0.0).powf(freedom - 1.0);
    (0..=STEPS).map(|at| weight(at) * height(at)).sum::<f64>() * step / 3.0
}
