//! How long files and functions may be, and what modules may not be called.

use super::Problem;
use crate::product::is_third_party;
use crate::rust_text;
use crate::tree::Tree;

/// Lines of a source file. A longer one holds two subjects.
const FILE_LINES: usize = 600;

/// Lines of a function at which it is an error. About 70 is the aim; a table or a `match` may need more.
const FUNCTION_LINES: usize = 90;

/// Functions that may be longer, as `path::name`, each with its reason.
const LONG_FUNCTIONS: &[&str] = &[];

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "misc", "helper", "helpers"];

const SOURCES: &[&str] = &[".rs", ".c", ".h", ".js", ".css", ".py", ".sh", ".html"];

fn is_source(path: &str) -> bool {
    SOURCES.iter().any(|end| path.ends_with(end)) && !is_third_party(path)
}

pub(super) fn files(tree: &Tree) -> Vec<Problem> {
    tree.texts()
        .filter(|(path, _)| is_source(path))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(path, lines)| {
            Problem::new(path, format!("has {lines} lines, more than {FILE_LINES}; split it by subject"))
        })
        .collect()
}

pub(super) fn functions(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust() {
        let code = rust_text::code_only(text);
        for function in rust_text::functions(&code) {
            let allowed = LONG_FUNCTIONS.contains(&format!("{path}::{}", function.name).as_str());
            if function.lines > FUNCTION_LINES && !allowed {
                let message = format!(
                    "fn {} has {} lines, more than {FUNCTION_LINES}; name its parts",
                    function.name, function.lines
                );
                problems.push(Problem::at(path, function.line, message));
            }
        }
    }
    problems
}

pub(super) fn module_names(tree: &Tree) -> Vec<Problem> {
    tree.paths()
        .filter(|path| is_source(path))
        .filter(|path| {
            path.split('/').any(|part| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part)))
        })
        .map(|path| Problem::new(path, "is named after nothing; name it after what it does"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found_unless_others_wrote_it() {
        let long = "x\n".repeat(FILE_LINES + 1);
        let tree = Tree::of(&[
            ("a.rs", &long),
            ("b.rs", &"x\n".repeat(FILE_LINES)),
            ("core/view/assets/uplot/uPlot.js", &long),
            ("Cargo.lock", &long),
        ]);
        let places: Vec<String> = files(&tree).into_iter().map(|problem| problem.place).collect();
        assert_eq!(places, vec!["a.rs"]);
    }

    #[test]
    fn a_long_function_is_found_by_its_line() {
        let of = |lines: usize| format!("\nfn f() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        let tree = Tree::of(&[("a.rs", &of(FUNCTION_LINES + 1)), ("b.rs", &of(FUNCTION_LINES))]);
        let problems = functions(&tree);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "a.rs:2");
    }

    #[test]
    fn names_of_nothing_are_found_as_file_and_as_folder() {
        let tree = Tree::of(&[
            ("src/util.rs", ""),
            ("src/common/x.c", ""),
            ("src/commons.rs", ""),
            ("docs/misc.md", ""),
        ]);
        assert_eq!(module_names(&tree).len(), 2);
    }
}
