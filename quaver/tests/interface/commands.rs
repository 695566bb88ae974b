//! The command line as a list: each verb with its options, what they take, and what they are by default.

use clap::{Arg, Command};
use std::fmt::Write;

/// All verbs, each with its options below it.
pub(crate) fn list(mut program: Command) -> String {
    program.build();
    let mut out = String::new();
    verb(&program, "", &mut out);
    out
}

fn verb(command: &Command, above: &str, out: &mut String) {
    let name = format!("{above}{}", command.get_name());
    let hidden = if command.is_hide_set() { "  (hidden)" } else { "" };
    writeln!(out, "{name}{hidden}").expect("strings take all");
    for alias in command.get_all_aliases() {
        writeln!(out, "    alias {alias}").expect("strings take all");
    }
    for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
        writeln!(out, "    {}", option(command, arg)).expect("strings take all");
    }
    for group in command.get_groups().filter(|group| group.get_args().count() > 1 && !is_struct(group)) {
        let of: Vec<&str> = group.get_args().map(clap::Id::as_str).collect();
        let needed = if group.is_required_set() { "one" } else { "at most one" };
        writeln!(out, "    {needed} of {}", of.join(", ")).expect("strings take all");
    }
    out.push('\n');
    let mut below: Vec<&Command> =
        command.get_subcommands().filter(|below| below.get_name() != "help").collect();
    below.sort_by_key(|below| below.get_name());
    for below in below {
        verb(below, &format!("{name} "), out);
    }
}

/// Groups that the derive macro makes of each struct of arguments have the struct's name.
fn is_struct(group: &clap::ArgGroup) -> bool {
    group.get_id().as_str().starts_with(char::is_uppercase)
}

fn option(command: &Command, arg: &Arg) -> String {
    let mut words = Vec::new();
    words.extend(arg.get_short().map(|short| format!("-{short}")));
    words.extend(arg.get_long().map(|long| format!("--{long}")));
    words.extend(arg.get_all_aliases().into_iter().flatten().map(|alias| format!("--{alias}")));
    if arg.get_action().takes_values() {
        let names = arg.get_value_names().unwrap_or_default();
        words.push(names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" "));
        let count = arg.get_num_args().expect("the command was built");
        if count != 1.into() {
            words.push(format!("values {count}"));
        }
        words.extend(arg.get_value_delimiter().map(|letter| format!("split at {letter:?}")));
        if matches!(arg.get_action(), clap::ArgAction::Append) {
            words.push("repeatable".to_owned());
        }
    }
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !possible.is_empty() {
        words.push(format!("({})", possible.join("|")));
    }
    let texts = |values: &[clap::builder::OsStr]| {
        values.iter().map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    if arg.get_action().takes_values() && !arg.get_default_values().is_empty() {
        words.push(format!("default={}", texts(arg.get_default_values())));
    }
    words.extend(arg.get_env().map(|name| format!("env={}", name.to_string_lossy())));
    words.extend(arg.is_required_set().then(|| "required".to_owned()));
    words.extend(arg.is_global_set().then(|| "global".to_owned()));
    words.extend(arg.is_hide_set().then(|| "hidden".to_owned()));
    let mut against: Vec<&str> =
        command.get_arg_conflicts_with(arg).into_iter().map(|other| other.get_id().as_str()).collect();
    against.sort_unstable();
    against.dedup();
    if !against.is_empty() {
        words.push(format!("not with {}", against.join(",")));
    }
    words.join(" ")
}
