//! `cargo xtask size`: lines of the product by crate and language.

use crate::product::{LANGUAGES, sources};
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Lines that each crate may have, or each folder of what belongs to no crate, in the order of names. A budget is lowered
/// when the crate became smaller, and raised only with the reason in the commit.
pub(crate) const BUDGETS: &[(&str, usize)] = &[
    ("kernels", 4_676),
    ("kmod", 315),
    ("quaver", 181),
    ("quaver-abi", 5_137),
    ("quaver-analysis", 8_619),
    ("quaver-arrivals", 6_802),
    ("quaver-bpf-build", 59),
    ("quaver-capture", 14_679),
    ("quaver-capture-analysis", 4_408),
    ("quaver-chase", 5_888),
    ("quaver-clock", 3_185),
    ("quaver-cure", 3_226),
    ("quaver-cure-analysis", 690),
    ("quaver-doctor", 196),
    ("quaver-dvfs", 1_245),
    ("quaver-exposition", 1_176),
    ("quaver-host", 14_946),
    ("quaver-instrument", 8_750),
    ("quaver-lab", 893),
    ("quaver-lab-guests", 1_266),
    ("quaver-launch", 563),
    ("quaver-noise", 1_089),
    ("quaver-path", 9_742),
    ("quaver-path-flow", 4_429),
    ("quaver-path-record", 12_302),
    ("quaver-pcapng", 2_037),
    ("quaver-peers", 1_262),
    ("quaver-preload", 4_489),
    ("quaver-probe", 3_430),
    ("quaver-qemu-plugin", 2_652),
    ("quaver-screen", 560),
    ("quaver-sim", 14_044),
    ("quaver-sim-program", 12_616),
    ("quaver-store", 4_811),
    ("quaver-study", 4_546),
    ("quaver-study-analysis", 2_036),
    ("quaver-sync", 12_245),
    ("quaver-sync-analysis", 9_875),
    ("quaver-sync-store", 1_240),
    ("quaver-trace", 4_839),
    ("quaver-tune", 2_813),
    ("quaver-view", 5_693),
    ("quaver-waiting", 162),
    ("quaver-watch", 8_187),
];

/// The budget of a crate, where it has one.
pub(crate) fn budget(name: &str) -> Option<usize> {
    BUDGETS.iter().find(|(known, _)| *known == name).map(|(_, lines)| *lines)
}

/// Lines of each language, by crate.
pub(crate) fn by_crate(tree: &Tree) -> BTreeMap<String, [usize; LANGUAGES.len()]> {
    let mut all: BTreeMap<String, [usize; LANGUAGES.len()]> = BTreeMap::new();
    for source in sources(tree).into_iter().filter(|source| !source.is_tool) {
        all.entry(source.owner).or_default()[source.language] += source.lines;
    }
    all
}

/// The table.
pub(crate) fn table(tree: &Tree) -> String {
    let mut out = String::from(
        "lines of the product, without tests, examples, test tools, traces and third-party files\n\n",
    );
    let mut row = |name: &str, cells: Vec<String>| {
        out.push_str(&format!("{name:<20}"));
        out.extend(cells.iter().map(|cell| format!("{cell:>8}")));
        out.push('\n');
    };
    let mut heads: Vec<String> = LANGUAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    heads.extend(["all", "budget"].map(str::to_owned));
    row("", heads);
    let mut totals = [0; LANGUAGES.len()];
    let mut budgets = 0;
    for (name, lines) in by_crate(tree) {
        let mut cells: Vec<String> = lines.iter().map(ToString::to_string).collect();
        cells.push(lines.iter().sum::<usize>().to_string());
        cells.push(budget(&name).map_or("none".to_owned(), |lines| lines.to_string()));
        row(&name, cells);
        lines.iter().zip(&mut totals).for_each(|(lines, total)| *total += lines);
        budgets += budget(&name).unwrap_or_default();
    }
    let mut cells: Vec<String> = totals.iter().map(ToString::to_string).collect();
    cells.extend([totals.iter().sum::<usize>(), budgets].map(|lines| lines.to_string()));
    row("total", cells);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_crate_and_language() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]\nname = \"quaver-a\""),
            ("a/src/lib.rs", "x\ny\n"),
            ("a/src/c/m.rs", "x\n"),
            ("a/src/c/p.bpf.c", "x\n"),
            ("kernels/k.c", "x\nx\nx\n"),
        ]);
        let sizes = by_crate(&tree);
        assert_eq!(sizes["quaver-a"], [3, 1, 0, 0, 0]);
        assert_eq!(sizes["kernels"], [0, 3, 0, 0, 0]);
        let table = table(&tree);
        assert!(
            table.contains("total                      3       4       0       0       0       7"),
            "{table}"
        );
    }
}
