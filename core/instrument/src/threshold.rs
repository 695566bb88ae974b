//! `--fail-if 'METRIC OP VALUE'`: a number of the summary against a limit.

use serde_json::Value;

/// A condition that makes the run a failure when it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    metric: String,
    comparison: Comparison,
    limit: f64,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

const OPERATORS: [(&str, Comparison); 6] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Reads a condition such as `lateness.packets > 0` or `lateness.distribution.p99_ns >= 20us`.
pub fn parse(text: &str) -> Result<FailIf, String> {
    let (operator, comparison) = OPERATORS
        .into_iter()
        .find(|(operator, _)| text.contains(operator))
        .ok_or_else(|| format!("`{text}` has no operator: write for example 'lateness.packets > 0'"))?;
    let (metric, value) = text.split_once(operator).expect("the operator was found in the text");
    let (metric, value) = (metric.trim(), value.trim());
    if metric.is_empty() {
        return Err(format!("`{text}` names no metric: use a path into summary.json"));
    }
    let percent = value.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let limit = match value.parse::<f64>() {
        Ok(number) => number,
        Err(_) if percent.is_some() => percent.unwrap_or_default() / 100.0,
        Err(_) => crate::quantity::duration(value)?.as_nanos() as f64,
    };
    Ok(FailIf { metric: metric.into(), comparison, limit, text: text.trim().into() })
}

impl FailIf {
    /// The path into the summary.
    #[must_use]
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The sentence to fail with if the condition holds in `summary`; an error if the metric is not there.
    pub fn check(&self, summary: &Value) -> Result<Option<String>, String> {
        let Some(number) = number_at(summary, &self.metric) else {
            return Err(format!(
                "--fail-if: `{}` is no number in this run's summary.json, or one of no samples",
                self.metric
            ));
        };
        let holds = match self.comparison {
            Comparison::Less => number < self.limit,
            Comparison::LessOrEqual => number <= self.limit,
            Comparison::Greater => number > self.limit,
            Comparison::GreaterOrEqual => number >= self.limit,
            Comparison::Equal => number == self.limit,
            Comparison::NotEqual => number != self.limit,
        };
        Ok(holds.then(|| format!("{}: it is {number}", self.text)))
    }
}

/// Distributions of what need not occur: that of no gaps in a noise program's run is a figure, and a good one.
const OCCURRENCES: [&str; 2] = ["gap", "late"];

/// The number of a summary at this path. A distribution of no samples is written as 0, and so is what stands beside it, such as
/// the count of late packets: that is missing.
pub(crate) fn number_at(summary: &Value, path: &str) -> Option<f64> {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let occurs = above.rsplit('.').next().is_some_and(|own| OCCURRENCES.contains(&own));
    let above = above.split('.').filter(|key| !key.is_empty()).try_fold(summary, enter)?;
    let number = enter(above, name)?.as_f64()?;
    let is_empty =
        |of: &Value| of.get("p50_ns").is_some() && of.get("count").and_then(Value::as_u64) == Some(0);
    let nothing = is_empty(above) || above.get("distribution").is_some_and(is_empty);
    (name == "count" || number != 0.0 || occurs || !nothing).then_some(number)
}

/// One step into the summary: a field, an element by number, or an element by the name of its layer or source.
fn enter<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Array(items) = value else { return value.get(key) };
    if let Ok(index) = key.parse::<usize>() {
        return items.get(index);
    }
    items.iter().find(|item| {
        ["layer", "source", "from", "id"].iter().any(|field| item.get(field) == Some(&Value::from(key)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn compares_numbers_and_durations() {
        let summary = json!({"lateness": {"packets": 3, "time_ns": 25_000}});
        assert!(parse("lateness.packets > 0").unwrap().check(&summary).unwrap().is_some());
        assert!(parse("lateness.packets > 3").unwrap().check(&summary).unwrap().is_none());
        assert!(parse("lateness.time_ns >= 25us").unwrap().check(&summary).unwrap().is_some());
    }

    #[test]
    fn arrays_are_entered_by_name() {
        let summary = json!({"layers": [{"layer": "receive", "delta_t": {"p99_ns": 7}}]});
        assert!(parse("layers.receive.delta_t.p99_ns == 7").unwrap().check(&summary).unwrap().is_some());
        assert!(parse("layers.0.delta_t.p99_ns == 7").unwrap().check(&summary).unwrap().is_some());
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(parse("nothing here").unwrap_err().contains("no operator"));
        assert!(parse("x > 1").unwrap().check(&json!({})).unwrap_err().contains("`x`"));
        assert!(parse("x > soon").is_err());
        let of = |count: u64| json!({"delay": {"count": count, "p50_ns": 0, "max_ns": 0}});
        let check = |text: &str, count| parse(text).unwrap().check(&of(count));
        assert_eq!(check("delay.max_ns > 1ms", 1), Ok(None));
        assert!(check("delay.max_ns > 1ms", 0).unwrap_err().contains("of no samples"));
        assert!(check("delay.count < 1", 0).unwrap().is_some());
        let quiet = json!({"cpus": [{"gap": {"count": 0, "p50_ns": 0, "max_ns": 0}}]});
        assert_eq!(parse("cpus.0.gap.max_ns > 10us").unwrap().check(&quiet), Ok(None));
        let late = json!({"lateness": {"packets": 0, "distribution": {"count": 0, "p50_ns": 0}}});
        assert!(parse("lateness.packets > 100").unwrap().check(&late).is_err());
        let unread = json!({"lateness": {"packets": 1, "distribution": {"count": 0, "p50_ns": 0}}});
        assert!(parse("lateness.packets > 0").unwrap().check(&unread).unwrap().is_some());
    }
}
