//! The sources of the book: documents of the tree at their own paths, so that their links hold, and pages that are made.

use super::figures;
use super::links::resolved;
use crate::tree::Tree;
use anyhow::{Context, bail};
use std::collections::BTreeMap;

/// Folder of the pages that are only for the book, with its order and settings.
const BOOK: &str = "docs/book/";
/// Folder of the bench runs.
const RUNS: &str = "bench-runs/";

/// Which place in the order a made page has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Command,
    Schema,
    Run,
}

/// A page that is made.
pub(super) struct Page {
    place: Place,
    path: String,
    pub(super) title: String,
    pub(super) text: String,
}

impl Page {
    /// A page of a command.
    pub(super) fn command(path: String, title: &str, text: &str) -> Self {
        Self { place: Place::Command, path, title: title.to_owned(), text: text.to_owned() }
    }

    /// A page of a schema.
    pub(super) fn schema(path: String, title: &str, text: &str) -> Self {
        Self { place: Place::Schema, path, title: title.to_owned(), text: text.to_owned() }
    }
}

/// All files that mdBook reads, by path.
pub(super) fn assemble(tree: &Tree, mut made: Vec<Page>) -> anyhow::Result<BTreeMap<String, String>> {
    made.extend(runs(tree));
    let order = order(tree, &made)?;
    let texts = texts(tree, &made, &order)?;
    let mut files = BTreeMap::new();
    for (path, text) in &texts {
        let filled =
            if path.starts_with(BOOK) { figures::filled(tree, path, text)? } else { (*text).to_owned() };
        let page = with_files_named(&with_indexes(path, &filled, &texts));
        for target in targets(&page).filter_map(|link| resolved(path, link.split('#').next()?)) {
            if let Some(text) = tree.text(&target).filter(|_| !texts.contains_key(target.as_str())) {
                files.insert(format!("src/{target}"), text.to_owned());
            }
        }
        files.insert(format!("src/{path}"), page);
    }
    files.insert("src/SUMMARY.md".to_owned(), order);
    for name in ["book.toml", "book.css"] {
        let text = tree.text(&format!("{BOOK}{name}")).with_context(|| format!("{BOOK}{name} is missing"))?;
        files.insert(name.to_owned(), text.to_owned());
    }
    Ok(files)
}

/// The texts of all pages by path: made ones, and documents that the list names. It must name all that are in `docs/`.
fn texts<'a>(tree: &'a Tree, made: &'a [Page], order: &'a str) -> anyhow::Result<BTreeMap<&'a str, &'a str>> {
    let mut texts: BTreeMap<&str, &str> =
        made.iter().map(|page| (page.path.as_str(), page.text.as_str())).collect();
    let list = format!("{BOOK}SUMMARY.md");
    for page in targets(order) {
        if !texts.contains_key(page) {
            texts.insert(page, tree.text(page).with_context(|| format!("{list}: git tracks no {page}"))?);
        }
    }
    let is_document = |path: &&str| path.starts_with("docs/") && path.ends_with(".md") && *path != list;
    match tree.paths().filter(is_document).find(|path| !texts.contains_key(path)) {
        Some(forgotten) => bail!("{list} does not list {forgotten}"),
        None => Ok(texts),
    }
}

/// The list of pages, with links from the top of the tree and with the made pages, but for those that it names, in place of
/// their marks.
fn order(tree: &Tree, made: &[Page]) -> anyhow::Result<String> {
    let path = format!("{BOOK}SUMMARY.md");
    let list = tree.text(&path).with_context(|| format!("{path} is missing"))?;
    let named: Vec<String> = targets(list).filter_map(|link| resolved(&path, link)).collect();
    let mut order = String::new();
    for line in list.lines() {
        let place = match line.trim() {
            "{{commands}}" => Some(Place::Command),
            "{{schemas}}" => Some(Place::Schema),
            "{{runs}}" => Some(Place::Run),
            _ => None,
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        if place.is_some() {
            for page in made.iter().filter(|page| Some(page.place) == place && !named.contains(&page.path)) {
                order.push_str(&format!("{indent}- [{}]({})\n", page.title, page.path));
            }
            continue;
        }
        let target = targets(line).next();
        let from_top = target.map(|target| (target, resolved(&path, target)));
        match from_top {
            Some((target, Some(found))) => order.push_str(&line.replace(target, &found)),
            Some((target, None)) => bail!("{path}: {target} leads out of the tree"),
            None => order.push_str(line),
        }
        order.push('\n');
    }
    Ok(order)
}

/// The pages of bench runs, the latest first, and the list of them.
fn runs(tree: &Tree) -> Vec<Page> {
    let mut list = "# Bench runs\n\nEach figure that this book quotes comes from one of these. A run's folder below `bench-runs/` \
                    has its raw data.\n\n| run | what |\n| --- | --- |\n"
        .to_owned();
    let mut pages = Vec::new();
    for (path, text) in
        tree.texts().filter(|(path, _)| path.starts_with(RUNS) && path.ends_with("/README.md"))
    {
        let name = path.trim_start_matches(RUNS).trim_end_matches("/README.md");
        let page =
            Page { place: Place::Run, path: path.to_owned(), title: name.to_owned(), text: text.to_owned() };
        pages.push((page, format!("| [{name}]({name}/README.md) | {} |\n", about(text))));
    }
    pages.reverse();
    list.extend(pages.iter().map(|(_, row)| row.as_str()));
    let list = Page {
        place: Place::Run,
        path: format!("{RUNS}README.md"),
        title: "All bench runs".to_owned(),
        text: list,
    };
    std::iter::once(list).chain(pages.into_iter().map(|(page, _)| page)).collect()
}

/// What a run is about: its heading. If that is only its name, the headings of its parts, or its first sentence.
fn about(text: &str) -> String {
    let heads = |mark| text.lines().filter_map(move |line: &str| line.strip_prefix(mark));
    let name = heads("# ").next().unwrap_or_default();
    if !name.starts_with("Bench run") {
        return name.to_owned();
    }
    if text.contains("Written by `make bench`") {
        let ours = ["Machine", "Read with care"];
        return heads("## ").filter(|part| !ours.contains(part)).collect::<Vec<_>>().join("; ");
    }
    let paragraphs = text.split("\n\n").map(str::trim).filter(|part| !part.starts_with(['#', '|', '`']));
    let first = paragraphs.map(|part| part.replace('\n', " ")).next().unwrap_or_default();
    first.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}

/// Targets of the links to files, of the text outside of code.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    let lines = text.lines().filter(move |line| {
        let mark = line.trim_start().starts_with("```");
        fenced ^= mark;
        !fenced && !mark
    });
    let links = lines.flat_map(|line| line.split("](").skip(1)).filter_map(|link| link.split(')').next());
    links.filter(|link| !link.contains("://") && !link.starts_with('#'))
}

/// Links to a page called README, or to its folder, lead to the index that mdBook makes of it.
fn with_indexes(path: &str, text: &str, pages: &BTreeMap<&str, &str>) -> String {
    let mut page = text.to_owned();
    for link in targets(text) {
        let (file, place) = link.split_at(link.find('#').unwrap_or(link.len()));
        let folder = file.strip_suffix("README.md").unwrap_or(file);
        let is_index = folder.is_empty() || folder.ends_with('/');
        if is_index
            && resolved(path, &format!("{folder}README.md"))
                .is_some_and(|page| pages.contains_key(page.as_str()))
        {
            page = page.replace(&format!("]({link})"), &format!("]({folder}index.md{place})"));
        }
    }
    page
}

/// A block of code that names a file (`python receiver.py`) gets the name above it. mdBook takes the language alone.
fn with_files_named(text: &str) -> String {
    let mut page = String::new();
    for line in text.lines() {
        match line.strip_prefix("```").and_then(|info| info.split_once(' ')) {
            Some((language, name)) if name.parse::<usize>().is_err() => {
                page.push_str(&format!("File `{name}`:\n\n```{language}\n"));
            }
            Some((language, _)) => page.push_str(&format!("```{language}\n")),
            None => page.push_str(&format!("{line}\n")),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = "# Order\n\n- [A](../a.md)\n  {{runs}}\n";

    fn tree<'a>(more: &[(&'a str, &'a str)]) -> Tree {
        let always = [
            ("docs/book/SUMMARY.md", ORDER),
            ("docs/book/book.toml", "t"),
            ("docs/book/book.css", "c"),
            (
                "bench-runs/1-x/README.md",
                "# Bench run 1-x\n\nWritten by `make bench`\n\n## Machine\n\n## Sink: a packet\n",
            ),
            ("bench-runs/2-y/README.md", "# Counts\n"),
            ("bench-runs/3-z/README.md", "# Bench run 3-z\n\n## Method\n\nHow far\nit errs. And so.\n"),
            ("code.rs", "fn main() {}"),
        ];
        Tree::of(&always.iter().chain(more).copied().collect::<Vec<_>>())
    }

    #[test]
    fn pages_keep_their_paths_and_bring_the_files_that_they_link() {
        let page = "# A\n\n[code](../code.rs) [runs](../bench-runs/)\n```python b.py\n```\n```console 3\n[x](y)\n```\n";
        let files = assemble(&tree(&[("docs/a.md", page)]), Vec::new()).unwrap();
        let made = "# A\n\n[code](../code.rs) [runs](../bench-runs/index.md)\nFile `b.py`:\n\n```python\n```\n```console\n[x](y)\n```\n";
        assert_eq!(files["src/docs/a.md"], made);
        assert_eq!(files["src/code.rs"], "fn main() {}");
        let order = "# Order\n\n- [A](docs/a.md)\n  - [All bench runs](bench-runs/README.md)\n  - [3-z](bench-runs/3-z/README.md)\n  - [2-y](bench-runs/2-y/README.md)\n  - [1-x](bench-runs/1-x/README.md)\n";
        assert_eq!(files["src/SUMMARY.md"], order);
        let list = &files["src/bench-runs/README.md"];
        assert!(
            list.ends_with("| [3-z](3-z/index.md) | How far it errs. |\n| [2-y](2-y/index.md) | Counts |\n| [1-x](1-x/index.md) | Sink: a packet |\n"),
            "{list}"
        );
    }

    #[test]
    fn no_document_is_forgotten() {
        let forgotten = assemble(&tree(&[("docs/a.md", ""), ("docs/b.md", "")]), Vec::new()).unwrap_err();
        assert_eq!(forgotten.to_string(), "docs/book/SUMMARY.md does not list docs/b.md");
        let missing = assemble(&tree(&[]), Vec::new()).unwrap_err();
        assert_eq!(missing.to_string(), "docs/book/SUMMARY.md: git tracks no docs/a.md");
    }
}
