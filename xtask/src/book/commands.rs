//! Reference pages from the program's own help, and from the generated list of its interface.

use super::pages::Page;
use crate::tree::Tree;
use anyhow::Context;

/// Folder of these pages.
const FOLDER: &str = "docs/reference";
/// Sections of the list that have pages of their own: what help says, and JSON, which schemas say.
const ELSEWHERE: [&str; 3] = ["Command line", "summary.json of", "json"];

/// Asks the program for a command's help.
type Help<'a> = dyn Fn(&[&str]) -> anyhow::Result<String> + 'a;

/// A page for each verb, with its commands below it.
pub(super) fn pages(help: &Help) -> anyhow::Result<Vec<Page>> {
    let all = help(&[])?;
    let mut pages = vec![Page::command(format!("{FOLDER}/quaver.md"), "quaver", &section(&["quaver"], &all))];
    for verb in subcommands(&all) {
        let text = with_subcommands(help, &[verb])?;
        pages.push(Page::command(format!("{FOLDER}/{verb}.md"), verb, &text));
    }
    Ok(pages)
}

fn with_subcommands(help: &Help, words: &[&str]) -> anyhow::Result<String> {
    let said = help(words)?;
    let named: Vec<&str> = std::iter::once("quaver").chain(words.iter().copied()).collect();
    let mut text = section(&named, &said);
    for below in subcommands(&said) {
        let deeper: Vec<&str> = words.iter().copied().chain([below]).collect();
        text.push_str(&with_subcommands(help, &deeper)?);
    }
    Ok(text)
}

fn section(words: &[&str], help: &str) -> String {
    let (about, rest) = help.split_once("\n\n").unwrap_or(("", help));
    let level = "#".repeat(if words.len() > 2 { 2 } else { 1 });
    format!("{level} {}\n\n{about}\n\n```text\n{}\n```\n\n", words.join(" "), rest.trim_end())
}

/// Names of the commands that a help lists, without `help`.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    let named = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// Statuses, variables, files and columns.
pub(super) fn interface(tree: &Tree) -> anyhow::Result<Page> {
    let list = tree.text("docs/interface.txt").context("docs/interface.txt is missing")?;
    let mut text = "# Statuses, variables, files\n\nAll that programs can rely on beside options and JSON. \
                    A test compares this list with the code.\n\n"
        .to_owned();
    for part in list.split("\n==== ").skip(1) {
        let (title, body) =
            part.split_once(" ====\n").context("docs/interface.txt: a section has no title")?;
        if !ELSEWHERE
            .iter()
            .any(|start| title.starts_with(start) || title.contains(".json") || title.contains("JSON"))
        {
            text.push_str(&format!("## {title}\n\n```text\n{}\n```\n\n", body.trim_matches('\n')));
        }
    }
    Ok(Page::command(format!("{FOLDER}/interface.md"), "Statuses, variables, files", &text))
}

/// The first command or option in a text's code that the program does not have.
pub(super) fn unknown<'a>(pages: &[Page], text: &'a str) -> Option<&'a str> {
    text.split('`').skip(1).step_by(2).find(|code| match code.strip_prefix("quaver ") {
        Some(words) => !known(pages, words),
        None => code.starts_with("--") && !pages.iter().any(|page| has(page, code)),
    })
}

/// Whether a page has the option that some words begin with.
fn has(page: &Page, words: &str) -> bool {
    let option = words.split(['=', ' ']).next().unwrap_or(words);
    page.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option)
}

fn known(pages: &[Page], words: &str) -> bool {
    let mut words = words.split_whitespace();
    let is_name =
        |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let Some(verb) = words.next().filter(|verb| is_name(verb)) else { return true };
    let Some(page) = pages.iter().find(|page| page.title == verb) else { return false };
    let mut words = words.take_while(|word| *word != "--").peekable();
    let below = words.next_if(|word| page.text.contains("\nCommands:\n") && is_name(word));
    let below = below.is_none_or(|word| page.text.contains(&format!("# quaver {verb} {word}\n")));
    below && words.filter(|word| word.starts_with('-')).all(|word| has(page, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_help_of_a_verb_and_of_all_below_it() {
        let help = |words: &[&str]| {
            Ok(match words {
                [] => "Top\n\nUsage: quaver\n\nCommands:\n  run   Runs\n        on\n  help  Help\n\nOptions:\n  -h\n",
                ["run"] => "Runs\n\nUsage: quaver run\n\nCommands:\n  it  Runs it\n",
                _ => "Runs it\n\nUsage: quaver run it\n",
            }
            .to_owned())
        };
        let pages = pages(&help).unwrap();
        assert_eq!(pages.iter().map(|page| page.title.as_str()).collect::<Vec<_>>(), ["quaver", "run"]);
        let wanted = "# quaver run\n\nRuns\n\n```text\nUsage: quaver run\n\nCommands:\n  it  Runs it\n```\n\n\
                      ## quaver run it\n\nRuns it\n\n```text\nUsage: quaver run it\n```\n\n";
        assert_eq!(pages[1].text, wanted);
        for fine in [
            "`quaver run it`",
            "`quaver run X`",
            "`quaver VERB --y`",
            "`run --y` quaver it",
            "`-h`",
            "`quaver run -- it -x`",
        ] {
            assert_eq!(unknown(&pages, fine), None);
        }
        for odd in ["quaver walk", "quaver run at", "quaver run --y", "quaver run it -x", "--y"] {
            assert_eq!(unknown(&pages, &format!("a `b` `{odd}`")), Some(odd));
        }
    }

    #[test]
    fn what_has_a_page_of_its_own_is_left_out_of_the_list() {
        let list = "x\n\n==== Command line ====\n\nq\n\n==== Exit statuses ====\n\n    0 Done\n\n==== summary.json of a ====\n\nk\n";
        let page = interface(&Tree::of(&[("docs/interface.txt", list)])).unwrap();
        assert!(page.text.ends_with("## Exit statuses\n\n```text\n    0 Done\n```\n\n"), "{}", page.text);
        assert!(!page.text.contains("summary"));
    }
}
