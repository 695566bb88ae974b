//! How many lines of product each crate may have: not more than its budget.

use super::Problem;
use crate::size::{BUDGETS, budget, by_crate};
use crate::tree::Tree;

pub(super) fn budgets(tree: &Tree) -> Vec<Problem> {
    let sizes = by_crate(tree);
    let mut problems = Vec::new();
    for (name, lines) in &sizes {
        let lines: usize = lines.iter().sum();
        match budget(name) {
            None => problems.push(Problem::new(name, "has no budget of lines (xtask/src/size.rs)")),
            Some(budget) if lines > budget => {
                let message = format!(
                    "has {lines} lines of product, more than its {budget}; `cargo xtask size` lists them"
                );
                problems.push(Problem::new(name, message));
            }
            Some(_) => {}
        }
    }
    let gone = BUDGETS.iter().filter(|(name, _)| !sizes.is_empty() && !sizes.contains_key(*name));
    problems.extend(gone.map(|(name, _)| Problem::new(*name, "has a budget of lines, but is no crate")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_over_its_budget_or_without_one_is_found() {
        let messages = |name: &str, lines: usize| {
            let manifest = format!("[package]\nname = \"{name}\"");
            let tree = Tree::of(&[("a/Cargo.toml", &manifest), ("a/src/lib.rs", &"x\n".repeat(lines))]);
            let of_name = budgets(&tree).into_iter().filter(|problem| problem.place == name);
            of_name.map(|problem| problem.message).collect::<Vec<_>>()
        };
        let (name, lines) = BUDGETS[0];
        assert!(messages(name, lines).is_empty());
        assert!(messages(name, lines + 1)[0].contains("more than its"));
        assert!(messages("quaver-new", 1)[0].contains("has no budget"));
    }

    #[test]
    fn a_budget_of_no_crate_is_found() {
        let tree = Tree::of(&[("kernels/a.c", "x\n")]);
        let problems = budgets(&tree);
        assert_eq!(problems.len(), BUDGETS.iter().filter(|(name, _)| *name != "kernels").count());
    }
}
