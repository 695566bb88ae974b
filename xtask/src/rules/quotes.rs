//! Figures outside of the book's own pages that must stand in a bench run.

use super::Problem;
use crate::measured::measured;
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

/// A paragraph of a document that names a bench run has its measured numbers from there, digit by digit.
pub(super) fn figures(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_document = |path: &str| {
        path.ends_with(".md") && !path.starts_with("bench-runs/") && !path.starts_with("docs/book/")
    };
    for (path, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        let mut line = 1;
        for paragraph in text.split("\n\n") {
            let runs: Vec<String> = paragraph.split("bench-runs/20").skip(1).map(folder).collect();
            let stands = |number: &str| runs.iter().any(|run| stands_in(tree, run, number));
            let numbers = measured(paragraph).into_iter().map(|(number, _)| number);
            for number in numbers.filter(|number| !runs.is_empty() && !stands(number)) {
                problems.push(Problem::at(
                    path,
                    line,
                    format!("{number} does not stand in {}", runs.join(" or ")),
                ));
            }
            line += paragraph.matches('\n').count() + 2;
        }
    }
    problems
}

/// The folder of a run whose name begins with "20" and these letters.
fn folder(rest: &str) -> String {
    let name = rest.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')).next();
    format!("bench-runs/20{}/", name.unwrap_or_default())
}

fn stands_in(tree: &Tree, folder: &str, number: &str) -> bool {
    let part_of_number = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == ',';
    let numbers = |text: &str| {
        text.split(|letter: char| !part_of_number(letter))
            .any(|one| one.trim_end_matches(['.', ',']) == number)
    };
    tree.texts().any(|(path, text)| path.starts_with(folder) && numbers(text))
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

    #[test]
    fn numbers_beside_a_run_stand_in_it() {
        let text = "It took 9 ns.\n\nOf 7 programs one took\n0.21 % and one 3 ms ([data](bench-runs/2026-x/README.md)).\n";
        let tree = |found| Tree::of(&[("docs/a.md", text), ("bench-runs/2026-x/README.md", found)]);
        assert_eq!(figures(&tree("worst 0.21 %, least 3.")), []);
        let problem = Problem::at("docs/a.md", 3, "0.21 does not stand in bench-runs/2026-x/");
        assert_eq!(figures(&tree("worst 0.217 %, least 3 ms")), [problem]);
    }
}
