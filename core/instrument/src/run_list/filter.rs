//! `--where 'verb = chase and p99_ns > 20us'`.

use super::row::RunRow;
use std::cmp::Ordering;

/// Conditions that all have to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Vec<Condition>);

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    key: String,
    accepts: &'static [Ordering],
    negated: bool,
    words: String,
    number: Option<f64>,
}

const OPERATORS: [(&str, &[Ordering], bool); 7] = [
    ("<=", &[Ordering::Less, Ordering::Equal], false),
    (">=", &[Ordering::Greater, Ordering::Equal], false),
    ("==", &[Ordering::Equal], false),
    ("!=", &[Ordering::Equal], true),
    ("<", &[Ordering::Less], false),
    (">", &[Ordering::Greater], false),
    ("=", &[Ordering::Equal], false),
];

/// Keys whose values are words. All others have numbers.
const WORDS: [&str; 6] = ["verb", "name", "host", "when", "complete", "tag"];

/// Reads conditions that are joined by `and`.
pub(super) fn parse(text: &str) -> Result<Filter, String> {
    text.split(" and ").map(condition).collect::<Result<_, _>>().map(Filter)
}

fn condition(text: &str) -> Result<Condition, String> {
    let (operator, accepts, negated) =
        OPERATORS
            .into_iter()
            .find(|(operator, ..)| text.contains(operator))
            .ok_or_else(|| format!("`{text}` has no operator: write for example 'verb = chase'"))?;
    let (key, words) = text.split_once(operator).expect("the operator was found in the text");
    let (key, words) = (key.trim().to_owned(), words.trim().trim_matches(['"', '\'']).to_owned());
    if key.is_empty() || words.is_empty() {
        return Err(format!("`{}` lacks a key or a value: write for example 'verb = chase'", text.trim()));
    }
    let of_operators = ['=', '<', '>', '!'];
    if words.contains(of_operators) || key.ends_with(of_operators) {
        let text = text.trim();
        return Err(format!(
            "`{text}` has two operators: join conditions by ` and `, as in 'verb = chase and tag = x'"
        ));
    }
    let equality = negated || *accepts == [Ordering::Equal];
    let words = match key.as_str() {
        "tag" | "complete" if !equality => return Err(format!("`{key}` is compared by = or != only")),
        "complete" if !matches!(words.as_str(), "true" | "false") => {
            return Err(format!("`{words}` is not what complete has: true or false"));
        }
        // As lists show it, and as manifests have it.
        "when" => when(&words)?,
        _ => words,
    };
    let duration = || crate::quantity::duration(&words).ok().map(|time| time.as_nanos() as f64);
    let percent = || Some(words.strip_suffix('%')?.trim_end().parse::<f64>().ok()? / 100.0);
    let number = words.parse().ok().or_else(percent).or_else(duration);
    let number = number.or_else(|| size_bytes(&words).ok().map(|bytes| bytes as f64));
    if !number.is_some_and(f64::is_finite) && !WORDS.contains(&key.as_str()) {
        return Err(format!("`{words}` is no number, as {key} has; {} have words", WORDS.join(", ")));
    }
    Ok(Condition { key, accepts, negated, words, number })
}

/// The beginning of a time as manifests have it, `2026-11-20T16:58:00Z`.
fn when(words: &str) -> Result<String, String> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00Z";
    let words = words.replacen(' ', "T", 1);
    let fits = |(letter, shape): (u8, &u8)| match shape {
        b'0' => letter.is_ascii_digit(),
        other => letter == *other,
    };
    match words.len() >= 4 && words.len() <= SHAPE.len() && words.bytes().zip(SHAPE).all(fits) {
        true => Ok(words),
        false => Err(format!("`{words}` is no time: write for example 2026-11-20 or '2026-11-20 16:58'")),
    }
}

/// A size such as `5GiB` or `200MB`; a number alone is bytes.
pub(super) fn size_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("B", 1.0),
    ];
    let (number, unit) = UNITS
        .into_iter()
        .find_map(|(name, unit)| Some((text.trim().strip_suffix(name)?, unit)))
        .unwrap_or((text, 1.0));
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((number * unit) as u64),
        _ => Err(format!("`{text}` is no size: write for example 5GiB")),
    }
}

impl Filter {
    /// Whether all of it holds of a run. What a run does not have does not hold.
    pub(super) fn holds(&self, row: &RunRow) -> bool {
        self.0.iter().all(|condition| condition.holds(row))
    }

    /// A key that is none of the list's, and that none of these runs has.
    pub(super) fn unknown(&self, rows: &[RunRow]) -> Option<&str> {
        let listed = |key: &str| WORDS.contains(&key) || ["size_bytes", "headline"].contains(&key);
        let keys = self.0.iter().map(|condition| condition.key.as_str()).filter(|key| !listed(key));
        keys.into_iter().find(|key| !rows.iter().any(|row| row.number(key).is_some()))
    }
}

impl Condition {
    fn holds(&self, row: &RunRow) -> bool {
        let manifest = &row.listed.manifest;
        match self.key.as_str() {
            "verb" => self.words_hold(&manifest.verb),
            "name" => self.words_hold(&row.listed.run.name()),
            "host" => self.words_hold(&row.host()),
            // A day equals each of its times. What is later than the day's beginning is after it, too.
            "when"
                if self.accepts.contains(&Ordering::Equal) && manifest.started.starts_with(&self.words) =>
            {
                !self.negated
            }
            "when" => self.words_hold(&manifest.started),
            "complete" => self.words_hold(if manifest.complete { "true" } else { "false" }),
            "tag" => row.listed.tags.contains(&self.words) != self.negated,
            "size_bytes" => self.number_holds(Some(row.bytes as f64)),
            "headline" => self.number_holds(row.headline.as_ref().map(|(_, value)| *value)),
            path => self.number_holds(row.number(path)),
        }
    }

    fn words_hold(&self, words: &str) -> bool {
        self.accepts.contains(&words.cmp(&self.words)) != self.negated
    }

    fn number_holds(&self, number: Option<f64>) -> bool {
        let order = number.zip(self.number).and_then(|(number, limit)| number.partial_cmp(&limit));
        order.is_some_and(|order| self.accepts.contains(&order) != self.negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_store::listing::Listed;
    use quaver_store::manifest::Manifest;
    use quaver_store::run::RunDir;
    use serde_json::json;

    #[test]
    fn runs_are_chosen_by_what_is_known_of_them() {
        let place = tempfile::tempdir().unwrap();
        let run = RunDir::create(place.path(), "chase").unwrap();
        let manifest = Manifest::begin("0.1.0", "chase", json!({}), json!({}), 1_795_193_880_000_000_000);
        let summary = json!({"lateness": {"distribution": {"p99_ns": 25_000}}, "losses": {"ours": 0}});
        let headline = Some(("lateness.distribution.p99_ns".to_owned(), 25_000.0));
        let listed = Listed { run, manifest, tags: vec!["before".to_owned()] };
        let row = RunRow { listed, bytes: 2_000_000, headline, summary };
        let holds = |text: &str| parse(text).unwrap().holds(&row);
        for yes in [
            "verb = chase and p99_ns > 20000",
            "p99_ns > 20us",
            "lateness.distribution.p99_ns <= 25us",
            "losses.ours == 0",
            "tag = before",
            "tag != after",
            "when > 2026-11-20",
            "when = 2026-11-20",
            "when > 2026-11-20 16:57",
            "when <= '2026-11-20 16:58'",
            "when != 2026-11-21",
            "size_bytes > 1MiB",
            "complete = false",
            "headline = 25us",
            "verb != noise",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in [
            "verb = noise",
            "verb = chase and p99_ns > 1ms",
            "missing > 0",
            "missing != 0",
            "when < 2026",
            "when > 2026-11-20 16:59",
        ] {
            assert!(!holds(no), "{no}");
        }
        let rows = [row];
        assert_eq!(
            parse("verb = noise and p99_ns > 3 and misspelt_ns > 3").unwrap().unknown(&rows),
            Some("misspelt_ns")
        );
        for refused in [
            "verb === chase",
            "p99_ns > much",
            "p99_ns => 3",
            "verb = chase or verb = noise",
            "verb = chase AND tag = before",
            "tag > a",
            "complete = no",
            "complete < true",
            "when > yesterday",
            "size_bytes > NaN",
            "p99_ns < inf",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
        assert!(parse("verb").is_err() && parse("= 3").is_err() && parse("verb =").is_err());
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        assert_eq!(size_bytes("5GiB"), Ok(5 << 30));
        assert_eq!(size_bytes("1.5 kB"), Ok(1_500));
        assert_eq!(size_bytes("12"), Ok(12));
        assert!(size_bytes("-1B").is_err() && size_bytes("many").is_err());
    }
}
