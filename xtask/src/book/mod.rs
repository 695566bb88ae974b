//! `cargo xtask book`: the documents as a book. mdBook makes it from where they stand; reference pages and figures are put in.

mod commands;
mod figures;
mod links;
mod pages;
mod schema;
mod tables;

use crate::tree::Tree;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the book into a folder and follows each of its links.
pub(crate) fn build(root: &Path, mdbook: &Path, program: &Path, out: &Path) -> anyhow::Result<()> {
    let tree = Tree::tracked(root)?;
    let mut made = commands::pages(&|words| help(program, words))?;
    for (path, text) in
        tree.texts().filter(|(path, _)| *path == "README.md" || path.starts_with("docs/book/"))
    {
        if let Some(command) = commands::unknown(&made, text) {
            bail!("{path}: `{command}`: the program has no such command or option");
        }
    }
    made.push(commands::interface(&tree)?);
    made.extend(schema::pages(&tree)?);
    let files = pages::assemble(&tree, made)?;
    let place = with_ending(out, "-pages");
    write(&place, &files)?;
    let status =
        Command::new(mdbook).env("MDBOOK_LOG", "warn").arg("build").arg(&place).arg("-d").arg(out).status();
    if !status.with_context(|| format!("{}: run scripts/book.sh", mdbook.display()))?.success() {
        bail!("mdbook build failed");
    }
    let (count, dead) = links::follow(&read(out)?);
    for link in &dead {
        eprintln!("{link}");
    }
    if !dead.is_empty() {
        bail!("{} dead link(s) in the book", dead.len());
    }
    println!("book: {count} links hold; open {}/index.html", out.display());
    Ok(())
}

/// A path beside another.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What the program says of a command.
fn help(program: &Path, words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(words).arg("--help").output();
    let output = output.with_context(|| format!("{}: build it first", program.display()))?;
    if !output.status.success() {
        bail!("{} {} --help ended with {}", program.display(), words.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("help is not UTF-8")
}

fn write(place: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<()> {
    if place.exists() {
        std::fs::remove_dir_all(place).with_context(|| format!("emptying {}", place.display()))?;
    }
    for (path, text) in files {
        let file = place.join(path);
        let folder = file.parent().context("a page lies in a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// All files below a folder; the text of pages, and nothing of others.
fn read(place: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![place.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_page = path.extension().is_some_and(|end| end == "html");
            let text = if is_page { std::fs::read_to_string(&path)? } else { String::new() };
            files.insert(path.strip_prefix(place)?.to_string_lossy().into_owned(), text);
        }
    }
    Ok(files)
}
