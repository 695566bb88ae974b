//! The threaded programs in `kernels/`: they build without a warning, check themselves, and come to the same result with any
//! number of threads and either kind of barrier.

mod kernel_build;

use kernel_build::kernel;
use std::collections::BTreeSet;
use std::process::Output;

/// All programs, with a size that takes some hundredths of a second.
const KERNELS: [(&str, &str); 17] = [
    ("barnes", "512"),
    ("fmm", "1024"),
    ("lu", "128"),
    ("ocean", "32"),
    ("radix", "20000"),
    ("raytrace", "48"),
    ("water-nsquared", "125"),
    ("water-spatial", "512"),
    ("facesim", "32"),
    ("ferret", "200"),
    ("bodytrack", "512"),
    ("x264", "4"),
    ("raytrace-pool", "48"),
    ("vips", "128"),
    ("dedup", "256"),
    ("fluidanimate", "1000"),
    ("streamcluster", "2000"),
];

fn run(name: &str, options: &[&str]) -> Output {
    let output = std::process::Command::new(kernel(name)).args(options).output();
    output.unwrap_or_else(|error| panic!("{name} {options:?}: {error}"))
}

/// The line that a program prints; it must have ended with status 0.
fn line(name: &str, options: &[&str]) -> String {
    let output = run(name, options);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {options:?}: {}, {told}", output.status);
    String::from_utf8(output.stdout).unwrap_or_else(|error| panic!("{name} {options:?}: {error}"))
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    for (name, small) in KERNELS {
        let size = format!("-n{small}");
        let lines: BTreeSet<String> = ["-p1", "-p2", "-p4", "-p16"]
            .iter()
            .flat_map(|threads| ["cond", "posix"].map(|kind| line(name, &[threads, &size, "-b", kind])))
            .collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let told = lines.first().expect("one line");
        assert!(told.starts_with(&format!("{name} size={small} seed=1 checksum=")), "{told}");
        assert!(told.ends_with(": ok\n") && told.lines().count() == 1, "{told}");
    }
}

/// Programs that do something several times.
const STEPPED: [&str; 9] = [
    "barnes",
    "fmm",
    "ocean",
    "water-nsquared",
    "water-spatial",
    "facesim",
    "bodytrack",
    "raytrace-pool",
    "fluidanimate",
];

#[test]
fn one_step_is_checked_too_and_is_another_result() {
    for (name, small) in KERNELS {
        let size = format!("-n{small}");
        if STEPPED.contains(&name) {
            let one: BTreeSet<String> =
                ["-p1", "-p4"].iter().map(|threads| line(name, &[threads, &size, "-s1"])).collect();
            assert_eq!(one.len(), 1, "{one:?}");
            assert!(!one.contains(&line(name, &[&size])), "{name}");
        }
        let refused = run(name, &[&size, "-s", if STEPPED.contains(&name) { "0" } else { "1" }]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
    }
}

#[test]
fn another_seed_is_another_result() {
    for (name, small) in KERNELS {
        let size = format!("-n{small}");
        assert_ne!(
            checksum(&line(name, &["-p2", &size])),
            checksum(&line(name, &["-p2", &size, "-r7"])),
            "{name}"
        );
    }
}

#[test]
fn water_is_the_same_by_all_pairs_and_by_cells() {
    for molecules in ["-n27", "-n64", "-n343", "-n600"] {
        let all_pairs = line("water-nsquared", &["-p3", molecules]);
        let cells = line("water-spatial", &["-p2", molecules]);
        assert_eq!(checksum(&all_pairs), checksum(&cells), "{molecules}");
    }
}

#[test]
fn wrong_options_are_told() {
    for (name, _) in KERNELS {
        for wrong in
            [&["-p0"][..], &["-p257"], &["-px"], &["-n1"], &["-n"], &["-bspin"], &["more"], &["-r-1"]]
        {
            let output = run(name, wrong);
            assert_eq!(output.status.code(), Some(2), "{name} {wrong:?}");
            assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{name} {wrong:?}");
        }
        assert_eq!(run(name, &["-h"]).status.code(), Some(0), "{name}");
    }
}

fn checksum(line: &str) -> &str {
    line.split_whitespace().find(|word| word.starts_with("checksum=")).expect("a checksum")
}
