//! Axes of a plan: what is varied, by which values.

use crate::sweep::digest::Label;
use serde::{Deserialize, Serialize};

/// Most values of an axis.
const MOST_VALUES: usize = 100_000;

/// Something that is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Axis {
    /// What it is called: the name of its column.
    pub(super) name: String,
    /// Its values, in the order of the plan.
    pub(super) points: Vec<AxisPoint>,
}

/// A value of an axis, and what it sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AxisPoint {
    /// As it stands in tables.
    pub(super) label: Label,
    /// Keys and what they become.
    pub(super) set: Vec<(String, toml::Value)>,
}

/// An axis as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AxisText {
    name: Option<String>,
    key: Option<Keys>,
    values: Option<Vec<toml::Value>>,
    from: Option<toml::Value>,
    to: Option<toml::Value>,
    step: Option<toml::Value>,
    factor: Option<toml::Value>,
    point: Option<Vec<PointText>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointText {
    name: String,
    #[serde(default)]
    set: toml::Table,
}

impl AxisText {
    /// Reads it; errors are sentences that begin with its name.
    pub(super) fn read(self, number: usize) -> Result<Axis, String> {
        let keys = match &self.key {
            None => Vec::new(),
            Some(Keys::One(key)) => vec![key.clone()],
            Some(Keys::Several(keys)) => keys.clone(),
        };
        let name = self.name.clone().or_else(|| keys.first().cloned());
        let Some(name) = name else {
            return Err(format!(
                "axis {number}: give a key with values, or a name with points ([[axis.point]])"
            ));
        };
        let said = |what: String| format!("axis {name}: {what}");
        let points = self.points(&keys).map_err(said)?;
        if points.is_empty() {
            return Err(said("it has no values".to_owned()));
        }
        for (at, point) in points.iter().enumerate() {
            if let Some((key, _)) = point.set.iter().find(|(key, value)| !is_known(key, value)) {
                return Err(said(key_fault(key)));
            }
            if points[..at].iter().any(|other| other.label == point.label) {
                return Err(said(format!("{} stands there twice", point.label)));
            }
        }
        Ok(Axis { name, points })
    }

    fn points(self, keys: &[String]) -> Result<Vec<AxisPoint>, String> {
        let range = [&self.from, &self.to, &self.step, &self.factor].into_iter().any(Option::is_some);
        let ways = [self.values.is_some(), range, self.point.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err("give its values in one way: values = [...], from and to with step or factor, or [[axis.point]]"
                .to_owned());
        }
        if let Some(points) = self.point {
            if !keys.is_empty() {
                return Err(
                    "points say themselves what they set, so there is no key; name it by name".to_owned()
                );
            }
            return Ok(points.into_iter().map(named).collect());
        }
        if keys.is_empty() {
            return Err("say by key what the values are of, for example key = \"machine.l2.kib\"".to_owned());
        }
        let values = match self.values {
            Some(values) => values,
            None => span(self.from, self.to, self.step, self.factor)?,
        };
        let point = |value: toml::Value| AxisPoint {
            label: label(&value),
            set: keys.iter().map(|key| (key.clone(), value.clone())).collect(),
        };
        Ok(values.into_iter().map(point).collect())
    }
}

fn label(value: &toml::Value) -> Label {
    match value {
        toml::Value::Integer(number) => Label::Integer(*number),
        toml::Value::Float(number) => Label::Float(*number),
        toml::Value::String(text) => Label::Text(text.clone()),
        other => Label::Text(other.to_string()),
    }
}

/// A named point: what it sets may be written with dots, as tables, or both.
fn named(text: PointText) -> AxisPoint {
    let mut set = Vec::new();
    flatten("", text.set, &mut set);
    AxisPoint { label: Label::Text(text.name), set }
}

fn flatten(prefix: &str, table: toml::Table, into: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => flatten(&key, inner, into),
            value => into.push((key, value)),
        }
    }
}

/// Whether a key is one of the machine's or the cure's. `cure = false` is a run without any.
fn is_known(key: &str, value: &toml::Value) -> bool {
    let within = key.strip_prefix("machine.").or_else(|| key.strip_prefix("cure."));
    within.is_some_and(|rest| !rest.is_empty() && !rest.split('.').any(str::is_empty))
        || (key == "cure" && *value == toml::Value::Boolean(false))
}

fn key_fault(key: &str) -> String {
    if key == "cure" {
        return "cure = false is a run without jitter and cure; else name a key in it, such as cure.dvfs.reactivity".to_owned();
    }
    format!(
        "{key} is no key: write machine.{key} for one of the machine (`quaver sim config` prints them) or \
         cure.{key} for one of injection and cure"
    )
}

/// The values of a range: by equal steps, or each so many times the one before. `to` is in it where it is met.
fn span(
    from: Option<toml::Value>,
    to: Option<toml::Value>,
    step: Option<toml::Value>,
    factor: Option<toml::Value>,
) -> Result<Vec<toml::Value>, String> {
    let number = |name: &str, value: Option<toml::Value>| match value {
        None => Err(format!("a range wants from, to, and step or factor; {name} is missing")),
        Some(value @ (toml::Value::Integer(_) | toml::Value::Float(_))) => Ok(value),
        Some(_) => Err(format!("{name} is no number")),
    };
    let (from, to) = (number("from", from)?, number("to", to)?);
    let (by, grows) = match (step, factor) {
        (Some(_), Some(_)) => return Err("give step or factor, not both".to_owned()),
        (None, Some(factor)) => (number("factor", Some(factor))?, true),
        (step, None) => (number("step", step)?, false),
    };
    let whole = [&from, &to, &by].iter().all(|value| value.is_integer());
    let real = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|one| one as f64));
    let [Some(first), Some(last), Some(by)] = [real(&from), real(&to), real(&by)] else {
        return Err("from, to and step are numbers".to_owned());
    };
    let possible = if grows { by > 1.0 && first > 0.0 } else { by > 0.0 };
    if !(possible && first <= last && first.is_finite() && last.is_finite()) {
        return Err("a range goes upwards: from is not above to, step is above 0, factor above 1 (and then from above 0)"
            .to_owned());
    }
    let at = |place: i32| if grows { first * by.powi(place) } else { first + f64::from(place) * by };
    // What rounding does to the last of them must not leave it out.
    let limit = last + (last.abs() + by) * 1e-9;
    let mut values = Vec::new();
    while values.len() < MOST_VALUES && at(values.len() as i32) <= limit {
        let value = at(values.len() as i32);
        values.push(if whole {
            toml::Value::Integer(value as i64)
        } else {
            toml::Value::Float(tidied(value))
        });
    }
    if values.len() == MOST_VALUES {
        return Err(format!("the range has {MOST_VALUES} values or more"));
    }
    Ok(values)
}

/// Twelve digits, so that 0.1 three times is 0.3.
fn tidied(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Axis, String> {
        toml::from_str::<AxisText>(text).map_err(|error| error.to_string())?.read(1)
    }

    fn labels(text: &str) -> Vec<String> {
        read(text).unwrap().points.iter().map(|point| point.label.to_string()).collect()
    }

    #[test]
    fn values_are_listed_or_a_range() {
        assert_eq!(labels("key='machine.l2.kib'\nvalues=[128,256]"), ["128", "256"]);
        assert_eq!(
            labels("key='machine.l2.kib'\nfrom=128\nto=1024\nfactor=2"),
            ["128", "256", "512", "1024"]
        );
        assert_eq!(labels("key='cure.dvfs.reactivity'\nfrom=1\nto=6\nstep=2"), ["1", "3", "5"]);
        assert_eq!(labels("name='x'\nvalues=['100 ns']\nkey='machine.memory.latency'"), ["100 ns"]);
        let steps = labels("key='cure.cache.pinned_until'\nfrom=0.1\nto=0.7\nstep=0.1");
        assert_eq!(steps, ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]);
        assert_eq!(labels("key='machine.chip.frequency_ghz'\nfrom=1\nto=4\nfactor=2.0"), ["1", "2", "4"]);
        assert_eq!(labels("key='cure.count_all'\nvalues=[true,false]"), ["true", "false"]);
        let both = read("key=['cure.frames.subframe_ns','cure.dvfs.subframe_ns']\nvalues=[1000]").unwrap();
        assert_eq!(both.points[0].set.len(), 2);
        assert_eq!(both.name, "cure.frames.subframe_ns");
    }

    #[test]
    fn named_points_set_several_keys_with_dots_or_tables() {
        let text = "name='scheme'\n[[point]]\nname='plain'\nset={'cure'=false}\n[[point]]\nname='os'\n\
                    set={cure.cache.kind='os-cache', 'machine.l2.kib'=192}\n[[point]]\nname='as it is'";
        let axis = read(text).unwrap();
        let keys = |at: usize| axis.points[at].set.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>();
        assert_eq!((keys(0), keys(2)), (vec!["cure"], vec![]));
        assert_eq!(keys(1), ["cure.cache.kind", "machine.l2.kib"]);
        assert_eq!(axis.points[1].label, Label::Text("os".into()));
    }

    #[test]
    fn mistakes_are_told_in_sentences() {
        for (text, said) in [
            ("values=[1]", "axis 3: give a key with values, or a name with points"),
            ("name='x'\nvalues=[1]", "axis x: say by key what the values are of"),
            ("key='machine.l2.kib'", "give its values in one way"),
            ("key='machine.l2.kib'\nvalues=[1]\nfrom=1", "give its values in one way"),
            ("key='machine.l2.kib'\nvalues=[]", "axis machine.l2.kib: it has no values"),
            ("key='machine.l2.kib'\nvalues=[1,2,1]", "1 stands there twice"),
            ("key='l2.kib'\nvalues=[1]", "l2.kib is no key: write machine.l2.kib"),
            ("key='machine.'\nvalues=[1]", "machine. is no key"),
            ("key='cure'\nvalues=[true]", "cure = false is a run without"),
            ("key='machine.l2.kib'\nfrom=1\nstep=1", "to is missing"),
            ("key='machine.l2.kib'\nfrom=1\nto=2", "step is missing"),
            ("key='machine.l2.kib'\nfrom=1\nto=2\nstep=1\nfactor=2", "not both"),
            ("key='machine.l2.kib'\nfrom=3\nto=2\nstep=1", "a range goes upwards"),
            ("key='machine.l2.kib'\nfrom=0\nto=2\nfactor=2", "a range goes upwards"),
            ("key='machine.l2.kib'\nfrom=1\nto=2\nstep=0", "a range goes upwards"),
            ("key='machine.l2.kib'\nfrom='1'\nto=2\nstep=1", "from is no number"),
            ("key='machine.l2.kib'\nfrom=1\nto=1000000\nstep=1", "100000 values or more"),
            ("key='x'\nname='y'\n[[point]]\nname='z'", "points say themselves what they set"),
            ("key='machine.l2.kib'\nvalue=[1]", "unknown field `value`"),
        ] {
            let text = toml::from_str::<AxisText>(text).map_err(|error| error.to_string());
            let error = text.and_then(|text| text.read(3)).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
