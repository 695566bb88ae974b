//! Help that fits any terminal: a paragraph of the source is one line, which clap wraps.

use clap::Command;
use clap::builder::StyledStr;

/// The same command with the lines of each paragraph joined, in all its subcommands. Indented lines stand as they are.
pub fn flowing(command: Command) -> Command {
    let text = |before: Option<&StyledStr>| before.map(|text| joined(&text.to_string()));
    let (after, after_long) = (text(command.get_after_help()), text(command.get_after_long_help()));
    let (before, long) = (text(command.get_before_help()), text(command.get_long_about()));
    let command = command.mut_subcommands(flowing);
    let command = if let Some(text) = after { command.after_help(text) } else { command };
    let command = if let Some(text) = after_long { command.after_long_help(text) } else { command };
    let command = if let Some(text) = before { command.before_help(text) } else { command };
    if let Some(text) = long { command.long_about(text) } else { command }
}

/// Joins each line that is not indented to one before it that is not indented either.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut flows = false;
    for (number, line) in text.lines().enumerate() {
        let is_text = !line.is_empty() && !line.starts_with(' ');
        if number > 0 {
            out.push(if flows && is_text { ' ' } else { '\n' });
        }
        out.push_str(line);
        flows = is_text && !line.ends_with(':');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined_and_examples_stand() {
        let text = "One claim\nin two lines.\nAnother.\n\nExamples:\n  quaver a\n  quaver b\nSee also:\nc\n";
        let flowing_text =
            "One claim in two lines. Another.\n\nExamples:\n  quaver a\n  quaver b\nSee also:\nc";
        assert_eq!(joined(text), flowing_text);
    }

    #[test]
    fn every_subcommand_flows() {
        let inner = Command::new("inner").after_help("a\nb").long_about("c\nd");
        let outer = flowing(Command::new("outer").subcommand(inner).after_long_help("e\nf"));
        let inner = outer.find_subcommand("inner").unwrap();
        let said = |text: Option<&StyledStr>| text.map(ToString::to_string);
        assert_eq!(said(inner.get_after_help()).as_deref(), Some("a b"));
        assert_eq!(said(inner.get_long_about()).as_deref(), Some("c d"));
        assert_eq!(said(outer.get_after_long_help()).as_deref(), Some("e f"));
    }
}
