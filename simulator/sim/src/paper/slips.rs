//! Where the paper says two things, or its numbers do not follow from each other: both are printed.

use super::tables::mean_slowdown_percent;
use quaver_dvfs::power::AreaConfig;
use quaver_sync_analysis::bench::paper::{PROGRAMS, Suite};
use schemars::JsonSchema;
use serde::Serialize;

/// Numbers that do not agree.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Slip {
    /// What they are of.
    pub what: &'static str,
    /// Where in the paper, and what it says.
    pub printed: Vec<(&'static str, String)>,
    /// What follows from its other numbers, where something does.
    pub follows: Option<String>,
}

fn slip(what: &'static str, printed: &[(&'static str, &str)], follows: Option<String>) -> Slip {
    let printed = printed.iter().map(|(place, says)| (*place, (*says).to_owned())).collect();
    Slip { what, printed, follows }
}

/// All that were found.
pub fn slips() -> Vec<Slip> {
    let area = AreaConfig::default().area();
    let [splash, parsec] = Suite::ALL.map(mean_slowdown_percent);
    let means_us = PROGRAMS.iter().map(|row| row.mean_us);
    let (least_us, most_us) =
        means_us.fold((f64::INFINITY, 0.0_f64), |(least, most), mean| (least.min(mean), most.max(mean)));
    let low = PROGRAMS.iter().filter(|row| {
        let counts = row.suite == Suite::Splash2 && !row.left_out && row.paper != "barnes";
        counts && row.sync_share_percent < 95.0
    });
    let low: Vec<String> = low.map(|row| format!("{} has {} %", row.paper, row.sync_share_percent)).collect();
    vec![
        slip(
            "area of 16 OS caches",
            &[("section 6.4", "3.9 mm2, 0.97 % of the die")],
            Some(format!("16 times 0.975 mm2 are {:.1} mm2; 3.9 are four", area.os_caches_mm2)),
        ),
        slip(
            "area of everything",
            &[("abstract", "1 %"), ("section 6.4", "about 1 %")],
            Some(format!("{:.2} % of 400 mm2", area.overhead_percent)),
        ),
        slip(
            "programs with good results, of 17",
            &[("abstract", "14"), ("section 6.2", "14 (3 not fully mitigated)"), ("section 7", "12")],
            None,
        ),
        slip(
            "worst slow-down",
            &[
                ("abstract", "35.22 %"),
                ("section 1", "41 % in Splash2, 27 % in Parsec"),
                ("table 6, one run", "35.61 %"),
            ],
            None,
        ),
        slip("Parsec with DVFS and OS cache", &[("section 6.2", "1.5 % faster"), ("section 7", "0 %")], None),
        slip(
            "mean slow-down with the unified cache",
            &[("section 6.2, ten runs", "14.5 % and 6.4 %")],
            Some(format!("{:.1} % and {:.1} % in tables 6 and 7, one run", splash, parsec)),
        ),
        slip(
            "sync jitter over all jitter in Splash2 but barnes, lu and radix",
            &[("section 6.1.1", "larger than 95 %")],
            Some(format!("95 to 97 % in table 4, but {}", low.join(", "))),
        ),
        slip(
            "mean duration of a jitter event",
            &[("appendix E.1", "20 to 200 us")],
            Some(format!("{least_us:.0} to {most_us:.0} us in tables 6 and 7")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slip_says_both() {
        let slips = slips();
        let of = |what: &str| slips.iter().find(|slip| slip.what == what).unwrap().follows.clone().unwrap();
        assert_eq!(of("area of 16 OS caches"), "16 times 0.975 mm2 are 15.6 mm2; 3.9 are four");
        assert_eq!(of("area of everything"), "3.93 % of 400 mm2");
        assert_eq!(
            of("mean slow-down with the unified cache"),
            "15.3 % and 6.5 % in tables 6 and 7, one run"
        );
        assert_eq!(
            of("sync jitter over all jitter in Splash2 but barnes, lu and radix"),
            "95 to 97 % in table 4, but water-nsq has 91 %"
        );
        assert_eq!(of("mean duration of a jitter event"), "15 to 282 us in tables 6 and 7");
        for slip in &slips {
            assert!(slip.printed.len() + usize::from(slip.follows.is_some()) >= 2, "{}", slip.what);
        }
    }
}
