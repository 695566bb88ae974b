//! `cargo xtask size`: lines of the product by crate and language.

use crate::product::{LANGUAGES, sources};
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Lines that each crate may have, or each folder of what belongs to no crate, in the order of names. A budget is lowered
/// when the crate became smaller, and raised only with the reason in the commit.
pub(crate) const BUDGETS: &[(&str, usize)] = &[
    ("kernels", 5_000),
    ("kmod", 286),
    ("quaver", 500),
    ("quaver-abi", 5_200),
    ("quaver-analysis", 14_871),
    ("quaver-bpf-build", 500),
    ("quaver-capture", 13_753),
    ("quaver-capture-analysis", 4_004),
    ("quaver-chase", 5_733),
    ("quaver-clock", 3_500),
    ("quaver-cure", 2_900),
    ("quaver-cure-analysis", 463),
    ("quaver-doctor", 500),
    ("quaver-dvfs", 1_500),
    ("quaver-host", 14_697),
    ("quaver-instrument", 8_437),
    ("quaver-lab", 1_500),
    ("quaver-lab-guests", 1_500),
    ("quaver-launch", 1_000),
    ("quaver-noise", 1_500),
    ("quaver-path", 9_500),
    ("quaver-path-flow", 4_500),
    ("quaver-path-record", 12_000),
    ("quaver-pcapng", 2_030),
    ("quaver-peers", 1_300),
    ("quaver-preload", 4_000),
    ("quaver-probe", 3_419),
    ("quaver-qemu-plugin", 3_000),
    ("quaver-screen", 600),
    ("quaver-sim", 14_250),
    ("quaver-sim-program", 13_000),
    ("quaver-store", 4_780),
    ("quaver-study", 4_520),
    ("quaver-study-analysis", 2_500),
    ("quaver-sync", 10_895),
    ("quaver-sync-analysis", 8_645),
    ("quaver-sync-store", 1_500),
    ("quaver-trace", 5_000),
    ("quaver-tune", 2_794),
    ("quaver-view", 5_711),
    ("quaver-waiting", 500),
    ("quaver-watch", 6_964),
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
