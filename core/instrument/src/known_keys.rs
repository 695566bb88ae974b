//! Whether a run will have the number that `--fail-if` names: asked before it is measured.

use crate::exit_code::{ExitCode, failure};
use crate::threshold::FailIf;
use clap::ArgMatches;

/// Most paths that a refusal proposes.
const MOST_PROPOSED: usize = 3;

/// Refuses conditions on a number that no run of the verb can have. `interface` is the text of `docs/interface.txt`: every key
/// that a summary can have, as the tests read them from the types.
///
/// # Errors
/// A path of `--fail-if` is in no summary of this verb, or holds no number: status 2.
pub fn check(interface: &str, matches: &ArgMatches) -> anyhow::Result<()> {
    let mut verb = String::new();
    let mut last = matches;
    while let Some((name, below)) = last.subcommand() {
        verb = if verb.is_empty() { name.to_owned() } else { format!("{verb}-{name}") };
        last = below;
    }
    let Ok(Some(conditions)) = last.try_get_many::<FailIf>("fail_if") else { return Ok(()) };
    for condition in conditions {
        refusal(interface, &verb, condition.metric())
            .map_err(|sentence| failure(ExitCode::Usage, sentence))?;
    }
    Ok(())
}

/// A sentence where no summary of this verb has a number at this path.
fn refusal(interface: &str, verb: &str, metric: &str) -> Result<(), String> {
    let keys = known(interface, verb);
    let asked: Vec<&str> = metric.split('.').collect();
    let at_path: Vec<_> = keys.iter().filter(|(path, _)| leads_to(path, &asked)).collect();
    let is_open = |holds: &str| holds.split(" or ").any(|one| one == "any" || one.ends_with(" again"));
    let whole = |path: &str| steps(path).len() == asked.len();
    if keys.is_empty()
        || at_path.iter().any(|(path, holds)| is_open(holds) || whole(path) && holds_number(holds))
    {
        return Ok(());
    }
    let verb = verb.replace('-', " ");
    if at_path.iter().any(|(path, _)| whole(path)) {
        return Err(format!("--fail-if: `{metric}` is no number in the summary of `{verb}`"));
    }
    let proposed = proposals(&keys, &asked);
    let instead = if proposed.is_empty() {
        "`--json` prints one with all its paths".to_owned()
    } else {
        format!("there is {}", proposed.join(", "))
    };
    Err(format!("--fail-if: the summary of `{verb}` has no `{metric}`; {instead}"))
}

/// The keys of the verb: of its own summary, those of its other forms (`probe-mesh`), or that of the verb which it is a
/// form of.
fn known<'a>(interface: &'a str, verb: &str) -> Vec<(&'a str, &'a str)> {
    let is_form = |name: &str, of: &str| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('-'));
    let all: Vec<(&str, &str)> = interface
        .split("==== summary.json of ")
        .skip(1)
        .filter_map(|section| section.split_once(" ====\n"))
        .map(|(name, text)| (name, text.split_once("\n====").map_or(text, |(text, _)| text).trim()))
        .collect();
    let own: Vec<_> = all.iter().filter(|(name, _)| *name == verb || is_form(name, verb)).collect();
    let chosen =
        if own.is_empty() { all.iter().filter(|(name, _)| is_form(verb, name)).collect() } else { own };
    let text = |(_, text): &(&'a str, &'a str)| {
        let same = text.strip_prefix("as of ");
        same.and_then(|same| all.iter().find(|(name, _)| *name == same)).map_or(*text, |(_, text)| text)
    };
    chosen
        .into_iter()
        .map(text)
        .flat_map(str::lines)
        .filter_map(|line| line.trim().split_once(": "))
        .collect()
}

/// Whether a listed path, of which `[]` and `{}` stand for any one key, is the one that was asked for or one above it.
fn leads_to(path: &str, asked: &[&str]) -> bool {
    let steps = steps(path);
    let fits = |(step, key): (&&str, &&str)| matches!(*step, "[]" | "{}") || step == key;
    steps.len() <= asked.len() && steps.iter().zip(asked).all(fits)
}

fn holds_number(holds: &str) -> bool {
    holds.split(" or ").any(|one| matches!(one, "number" | "integer"))
}

fn steps(path: &str) -> Vec<&str> {
    path.split('.').flat_map(|key| key.split_inclusive("[]")).flat_map(split_brackets).collect()
}

fn split_brackets(key: &str) -> impl Iterator<Item = &str> {
    let (name, brackets) = match key.strip_suffix("[]") {
        Some(name) => (name, Some("[]")),
        None => (key, None),
    };
    Some(name).filter(|name| !name.is_empty()).into_iter().chain(brackets)
}

/// Numbers of the same last key; then those below the same first key, with those first whose last key begins alike.
fn proposals(keys: &[(&str, &str)], asked: &[&str]) -> Vec<String> {
    let distance = |path: &str| {
        let steps = steps(path);
        let (first, last) = (steps.first() == asked.first(), steps.last().zip(asked.last()));
        let begins_alike = last.is_some_and(|(one, asked)| one.starts_with(asked));
        [last.is_some_and(|(one, asked)| one == asked), first && begins_alike, first]
            .iter()
            .position(|&is| is)
    };
    let numbers = keys.iter().filter(|(_, holds)| holds_number(holds));
    let mut best: Vec<_> = numbers.filter_map(|(path, _)| Some((distance(path)?, *path))).collect();
    best.sort_by_key(|(distance, path)| (*distance, path.len()));
    let written =
        |path: &str| format!("`{}`", steps(path).join(".").replace("[]", "N").replace("{}", "NAME"));
    best.into_iter().take(MOST_PROPOSED).map(|(_, path)| written(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: &str = "
==== summary.json of chase ====

    lateness: object
    lateness.distribution.p99_9_ns: integer
    lateness.distribution.p99_ns: integer
    lateness.packets: integer
    layers: array
    layers[].layer: string
    layers[].p99_ns: null or number

==== summary.json of sink ====

    as of chase

==== summary.json of probe ====

    up.loss.share: number
    counts: any

==== summary.json of probe-mesh ====

    pairs[].share: number

==== summary.json of study ====

    arms[].cells: integer

==== manifest.json ====

    other: integer
";

    #[test]
    fn numbers_of_the_verb_are_accepted_by_key_index_and_name() {
        for (verb, metric) in [
            ("chase", "lateness.packets"),
            ("sink", "lateness.packets"),
            ("chase", "layers.receive.p99_ns"),
            ("chase", "layers.0.p99_ns"),
            ("probe", "up.loss.share"),
            ("probe", "counts.of.anything"),
            ("probe", "pairs.oslo-lossy.share"),
            ("study-run", "arms.rps.cells"),
            ("of-no-instrument", "anything"),
        ] {
            assert_eq!(refusal(INTERFACE, verb, metric), Ok(()), "{verb} {metric}");
        }
    }

    #[test]
    fn what_no_run_can_have_is_refused_with_what_there_is() {
        let said = |verb, metric| refusal(INTERFACE, verb, metric).unwrap_err();
        assert_eq!(
            said("chase", "latenes.packets"),
            "--fail-if: the summary of `chase` has no `latenes.packets`; there is `lateness.packets`"
        );
        assert!(said("chase", "lateness.p99").ends_with(
            "there is `lateness.distribution.p99_ns`, `lateness.distribution.p99_9_ns`, `lateness.packets`"
        ));
        assert!(said("probe", "share").contains("`pairs.N.share`"));
        for no_number in ["lateness", "layers.0.layer"] {
            assert!(said("chase", no_number).contains("is no number"), "{no_number}");
        }
        assert!(said("chase", "other").contains("`--json`"));
        assert!(said("sink", "layers.0.p99_ns.more").contains("has no"));
    }

    #[test]
    fn steps_are_keys_elements_and_entries() {
        assert_eq!(steps("a.b[].c[][].{}"), ["a", "b", "[]", "c", "[]", "[]", "{}"]);
    }
}
