//! The normal distribution, by its inverse, so that a draw takes one random number.

/// Numerators and denominators of the rational approximations of Wichura's algorithm AS 241 (PPND16), to about 16 digits.
const CENTRE: ([f64; 8], [f64; 8]) = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_545,
    ],
);
const MIDDLE: ([f64; 8], [f64; 8]) = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        1.050_750_071_644_416_9e-9,
    ],
);
const TAIL: ([f64; 8], [f64; 8]) = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_3,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_7e-15,
    ],
);

fn rational((above, below): &([f64; 8], [f64; 8]), x: f64) -> f64 {
    let polynomial = |terms: &[f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * x + term);
    polynomial(above) / polynomial(below)
}

/// The value below which a standard normal variable lies with probability `p`, 0 < p < 1.
pub fn quantile(p: f64) -> f64 {
    let from_middle = p - 0.5;
    if from_middle.abs() <= 0.425 {
        return from_middle * rational(&CENTRE, 0.180_625 - from_middle * from_middle);
    }
    let outside = if from_middle < 0.0 { p } else { 1.0 - p };
    let depth = (-outside.ln()).sqrt();
    let far = if depth <= 5.0 { rational(&MIDDLE, depth - 1.6) } else { rational(&TAIL, depth - 5.0) };
    far.copysign(from_middle)
}

/// Mean of the largest of `count` independent log-normal variables of this mean and σ (of the logarithm), by summing over
/// quantiles: the density of the largest one's probability is uniform after the `count`-th root.
pub fn mean_of_largest(mean: f64, sigma: f64, count: u32) -> f64 {
    const STEPS: u32 = 200_000;
    let location = mean.ln() - sigma * sigma / 2.0;
    let root = 1.0 / f64::from(count);
    // The steps are finest where the largest values are: u = 1 - v⁴ with uniform v.
    let sum: f64 = (0..STEPS)
        .map(|step| {
            let v = (f64::from(step) + 0.5) / f64::from(STEPS);
            let p = (1.0 - v.powi(4)).powf(root);
            (location + sigma * quantile(p.min(1.0 - 1e-16))).exp() * 4.0 * v.powi(3)
        })
        .sum();
    sum / f64::from(STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        for (p, z) in [
            (0.5, 0.0),
            (0.841_344_746_068_543, 1.0),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813),
            (1e-10, -6.361_340_902_404_056),
            (0.25, -0.674_489_750_196_081_7),
        ] {
            assert!((quantile(p) - z).abs() < 1e-9, "{p}: {} {z}", quantile(p));
        }
    }

    #[test]
    fn the_largest_of_fifteen_as_the_brief_has_it() {
        assert_eq!(mean_of_largest(100.0, 0.6, 15).round(), 251.0);
        assert_eq!(mean_of_largest(100.0, 1.0, 15).round(), 406.0);
        assert!((mean_of_largest(100.0, 1.0, 1) - 100.0).abs() < 0.01);
    }
}
