//! Links of the rendered pages: each must lead to a file or heading of the book, and nothing is loaded from elsewhere.

use std::collections::{BTreeMap, BTreeSet};

/// Counts the links of all pages, and lists those that lead nowhere. Files are given by path, with the text of pages.
pub(super) fn follow(files: &BTreeMap<String, String>) -> (usize, Vec<String>) {
    let pages: Vec<(&String, &String)> = files.iter().filter(|(path, _)| path.ends_with(".html")).collect();
    let places: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, text)| (path.as_str(), attributes(text, "id").map(|(_, id)| id).collect()))
        .collect();
    let (mut count, mut dead) = (0, Vec::new());
    for (page, text) in &pages {
        let loaded = attributes(text, "src").map(|(_, link)| (link, true));
        let linked = attributes(text, "href").map(|(tag, link)| (link, tag == "link"));
        for (link, loads) in linked.chain(loaded) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                if loads {
                    dead.push(format!("{page}: loads {link}, which is not in the book"));
                }
                continue;
            }
            count += 1;
            if let Some(why) = broken(files, &places, page, link) {
                dead.push(format!("{page}: {link}: {why}"));
            }
        }
    }
    (count, dead)
}

fn broken(
    files: &BTreeMap<String, String>,
    places: &BTreeMap<&str, BTreeSet<&str>>,
    page: &str,
    link: &str,
) -> Option<&'static str> {
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let target = if path.is_empty() { Some(page.to_owned()) } else { resolved(page, path) };
    let Some(target) = target.filter(|target| files.contains_key(target)) else {
        return Some("no such file in the book");
    };
    let known = places.get(target.as_str());
    let has = place.is_empty() || known.is_some_and(|known| known.contains(place));
    (!has).then_some("no such heading there")
}

/// The path that a relative link of a file leads to; none above the top.
pub(super) fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Values of an attribute in HTML, outside of scripts, each with the name of its tag.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let start = format!(" {name}=\"");
    let tags = html.split('<').filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag);
    let values = tags.filter_map(move |tag| {
        let value = &tag[tag.find(&start)? + start.len()..];
        Some((tag.split_whitespace().next()?, value.split('"').next()?))
    });
    values.filter(|(_, value)| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(page: &str) -> Vec<String> {
        let files = [("a/b.html", page), ("c.html", "<h2 class=\"x\" id=\"here\">"), ("d.css", "")];
        follow(&files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()).1
    }

    #[test]
    fn links_lead_to_files_and_headings_of_the_book() {
        assert!(
            dead("<a href=\"../c.html#here\"><link href=\"../d.css\"><a href=\"https://example.org/\">")
                .is_empty()
        );
        assert!(dead("<p id=\"top\"><a href=\"#top\">").is_empty());
        assert_eq!(dead("<a href=\"../e.html\">"), ["a/b.html: ../e.html: no such file in the book"]);
        assert_eq!(
            dead("<a href=\"../c.html#there\">"),
            ["a/b.html: ../c.html#there: no such heading there"]
        );
        assert_eq!(dead("<a href=\"../../c.html\">"), ["a/b.html: ../../c.html: no such file in the book"]);
        assert_eq!(dead("<a href=\"#top\">"), ["a/b.html: #top: no such heading there"]);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let found = dead("<script src=\"https://example.org/x.js\">");
        assert_eq!(found, ["a/b.html: loads https://example.org/x.js, which is not in the book"]);
        let found = dead("<link rel=\"stylesheet\" href=\"https://example.org/x.css\">");
        assert_eq!(found, ["a/b.html: loads https://example.org/x.css, which is not in the book"]);
    }
}
