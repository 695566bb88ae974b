//! Checks of the repository as code: `cargo xtask tidy` its rules, `cargo xtask test` its tests, `cargo xtask book` its documents.

#![forbid(unsafe_code)]

mod book;
mod examples;
mod measured;
mod product;
mod rules;
mod rust_text;
mod size;
mod test_run;
mod tree;

use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;
use tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy [--registry] | size | circles | test [PACKAGE/TARGET]... | words
       cargo xtask book MDBOOK QUAVER FOLDER

  tidy        check the rules of CONTRIBUTING.md on all files that git tracks
  --registry  also compare committed third-party files with the registry's copy (needs npm)
  size        print the lines of the product by crate and language, with the budget of each crate
  circles     print modules that import each other in a circle, and where
  test        build all tests and run their executables side by side, or those that are named
  book        build the documents into a folder by mdBook and quaver's help, and follow all links (scripts/book.sh)
  words       list odd English words in the program's own sentences; no rule, status 0";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["tidy"] => tidy(false),
        ["tidy", "--registry"] => tidy(true),
        ["size"] => print(size::table),
        ["circles"] => print(rules::circles::list),
        ["words"] => print(odd_words),
        ["test", ref wanted @ ..] => test(wanted),
        ["book", mdbook, quaver, folder] => {
            root().and_then(|root| book::build(root, mdbook.as_ref(), quaver.as_ref(), folder.as_ref()))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root.
fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")
}

fn odd_words(tree: &Tree) -> String {
    let found = rules::prose::odd_strings(tree);
    let lines: String = found.iter().map(|problem| format!("{}: {problem}\n", problem.place)).collect();
    format!("{lines}{} odd words\n", found.len())
}

fn test(wanted: &[&str]) -> anyhow::Result<()> {
    if !test_run::run(root()?, wanted)? {
        bail!("tests failed");
    }
    Ok(())
}

fn print(list: fn(&Tree) -> String) -> anyhow::Result<()> {
    print!("{}", list(&Tree::tracked(root()?)?));
    Ok(())
}

fn tidy(registry: bool) -> anyhow::Result<()> {
    let root = root()?;
    let tree = Tree::tracked(root)?;
    let mut problems = 0;
    for rule in rules::ALL {
        for problem in (rule.check)(&tree) {
            eprintln!("{}: {problem} [{}]", problem.place, rule.name);
            problems += 1;
        }
    }
    for problem in rules::assets::sums(root, &tree)? {
        eprintln!("{}: {problem} [assets]", problem.place);
        problems += 1;
    }
    if registry {
        for problem in rules::assets::registry(root, &tree)? {
            eprintln!("{}: {problem} [assets]", problem.place);
            problems += 1;
        }
    }
    if problems > 0 {
        bail!("{problems} problem(s); the rules and the reasons for them are in CONTRIBUTING.md");
    }
    println!("tidy: {} rules hold on {} files", rules::ALL.len() + 1, tree.len());
    Ok(())
}
