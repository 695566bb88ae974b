//! Figures outside of the book that must stand in a bench run.

use super::Problem;
use crate::tree::Tree;

/// The page in the README is that of the latest `bench-runs/DATE-readme`, word for word, but for lines that it leaves out.
pub(super) fn readme(tree: &Tree) -> Vec<Problem> {
    let run = tree
        .texts()
        .filter(|(path, _)| path.starts_with("bench-runs/") && path.ends_with("-readme/page.txt"))
        .last();
    let Some((path, page)) = run else { return Vec::new() };
    let mut problems = Vec::new();
    let lines = tree.text("README.md").unwrap_or_default().lines().enumerate();
    let block = lines.skip_while(|(_, line)| *line != "```console").skip(1);
    for (index, line) in block.take_while(|(_, line)| *line != "```") {
        let is_ours = line.trim() == "…" || line.starts_with("# ");
        if !is_ours && !page.lines().any(|known| known == line) {
            problems.push(Problem::at("README.md", index + 1, format!("{path} has no such line")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_latest_run_word_for_word() {
        let text = "x\n```console\n# quaver chase\nline\n  …\nother\n```\nafter\n";
        let tree = Tree::of(&[
            ("README.md", text),
            ("bench-runs/1-readme/page.txt", "other\n"),
            ("bench-runs/2-readme/page.txt", "line\nmore\n"),
        ]);
        let problem = Problem::at("README.md", 6, "bench-runs/2-readme/page.txt has no such line");
        assert_eq!(readme(&tree), [problem]);
    }
}
