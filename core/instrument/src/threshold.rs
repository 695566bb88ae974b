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
    if metric.ends_with(['=', '<', '>', '!']) {
        return Err(format!("`{text}` has two operators: write for example 'lateness.packets > 0'"));
    }
    let limit = limit(value)?;
    let refused = match limit {
        Limit::Time(_) if is_share(metric) => "is a share, and has no time as limit",
        Limit::Percent(_) if !is_share(metric) && metric.split('.').any(|key| key.ends_with("_ns")) => {
            "is a time, and has no percentage as limit"
        }
        _ => "",
    };
    if !refused.is_empty() {
        return Err(format!("`{metric}` {refused}"));
    }
    let (Limit::Plain(limit) | Limit::Percent(limit) | Limit::Time(limit)) = limit;
    Ok(FailIf { metric: metric.into(), comparison, limit, text: text.trim().into() })
}

/// A limit in the unit of the summary.
#[derive(Clone, Copy)]
enum Limit {
    Plain(f64),
    Percent(f64),
    Time(f64),
}

fn limit(value: &str) -> Result<Limit, String> {
    let finite = |number: f64| match number.is_finite() {
        true => Ok(number),
        false => Err(format!("`{value}` is no limit: nothing lies beyond it")),
    };
    if let Ok(number) = value.parse::<f64>() {
        return finite(number).map(Limit::Plain);
    }
    if let Some(number) = value.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok()) {
        return finite(number / 100.0).map(Limit::Percent);
    }
    let (sign, time) = value.strip_prefix('-').map_or((1.0, value), |time| (-1.0, time));
    Ok(Limit::Time(sign * crate::quantity::duration(time)?.as_nanos() as f64))
}

/// Whether a path names a share by its words: one of a summary, a relative change, or a cause's part of the time in a comparison.
fn is_share(metric: &str) -> bool {
    let mut keys = metric.rsplit('.');
    let last = keys.next().unwrap_or_default();
    let of_change = matches!(last, "a" | "b" | "difference" | "difference_low" | "difference_high");
    let compared = |key: &str| key.ends_with("share") || metric.starts_with("causes.");
    matches!(last, "change" | "change_low" | "change_high")
        || last.ends_with("share")
        || of_change && keys.next().is_some_and(compared)
}

impl FailIf {
    /// The path into the summary.
    #[must_use]
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The sentence to fail with if the condition holds in `summary`, of several entries of one name in any; an error if the
    /// metric is not there.
    pub fn check(&self, summary: &Value) -> Result<Option<String>, String> {
        let numbers = numbers_at(summary, &self.metric);
        let holds = |number: &f64| match self.comparison {
            Comparison::Less => *number < self.limit,
            Comparison::LessOrEqual => *number <= self.limit,
            Comparison::Greater => *number > self.limit,
            Comparison::GreaterOrEqual => *number >= self.limit,
            Comparison::Equal => *number == self.limit,
            Comparison::NotEqual => *number != self.limit,
        };
        if let Some(number) = numbers.iter().flatten().find(|number| holds(number)) {
            return Ok(Some(format!("{}: it is {number}", self.text)));
        }
        if numbers.is_empty() || numbers.contains(&None) {
            let metric = &self.metric;
            return Err(format!("--fail-if: `{metric}` is no number of this result, or one of no samples"));
        }
        Ok(None)
    }
}

/// Distributions of what need not occur: that of no gaps in a noise program's run is a figure, and a good one.
const OCCURRENCES: [&str; 2] = ["gap", "late"];

/// The number of a summary at this path; of several entries of one name the first that has it.
pub(crate) fn number_at(summary: &Value, path: &str) -> Option<f64> {
    numbers_at(summary, path).into_iter().flatten().next()
}

/// The number at this path of each entry that it names; none where an entry lacks it. A distribution of no samples is written
/// as 0, and so is what stands beside it, such as the count of late packets: that is missing.
fn numbers_at(summary: &Value, path: &str) -> Vec<Option<f64>> {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let own = above.rsplit('.').next().unwrap_or_default();
    let keys = above.split('.').filter(|key| !key.is_empty());
    let places = keys
        .fold(vec![summary], |places, key| places.into_iter().flat_map(|place| enter(place, key)).collect());
    places.into_iter().map(|above| number_of(above, own, name)).collect()
}

/// The number `name` of an object whose own name is `own`.
pub(crate) fn number_of(above: &Value, own: &str, name: &str) -> Option<f64> {
    let number = enter(above, name).first()?.as_f64()?;
    let is_empty =
        |of: &Value| of.get("p50_ns").is_some() && of.get("count").and_then(Value::as_u64) == Some(0);
    let nothing = is_empty(above) || above.get("distribution").is_some_and(is_empty);
    (name == "count" || number != 0.0 || OCCURRENCES.contains(&own) || !nothing).then_some(number)
}

/// One step into the summary: a field, an element by number, or the elements by the name of their layer or source.
fn enter<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    let Value::Array(items) = value else { return value.get(key).into_iter().collect() };
    if let Ok(index) = key.parse::<usize>() {
        return items.get(index).into_iter().collect();
    }
    let named = |item: &&Value| {
        ["layer", "source", "from", "id"].iter().any(|field| item.get(field) == Some(&Value::from(key)))
    };
    items.iter().filter(named).collect()
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
    fn of_several_causes_of_one_source_each_is_judged() {
        let cause = |b: f64, change: Value| json!({"source": "timers", "b": b, "change": change});
        let summary = json!({"causes": [cause(0.02, json!(0.1)), cause(0.05, Value::Null)]});
        let check = |text: &str| parse(text).unwrap().check(&summary);
        assert_eq!(check("causes.timers.b > 4 %"), Ok(Some("causes.timers.b > 4 %: it is 0.05".to_owned())));
        assert_eq!(check("causes.timers.b > 6 %"), Ok(None));
        assert!(check("causes.timers.change > 5 %").unwrap().is_some());
        assert!(check("causes.timers.change > 50 %").is_err(), "one of them has no such number");
    }

    #[test]
    fn a_limit_that_nothing_can_pass_is_refused() {
        for never in
            ["x > NaN", "x > inf", "x > 1e999", "x > nan %", "p99.b => 5", "p99.b =< 5", "p99.b >< 5"]
        {
            assert!(parse(never).is_err(), "{never}");
        }
        let of_time = ["p99.change > 10us", "causes.tick.b > 1ms", "up.loss.share > 1ms"];
        for other_unit in of_time.into_iter().chain(["lateness.time_ns > 10 %", "figures.x_ns.b < 1 %"]) {
            assert!(parse(other_unit).unwrap_err().contains("as limit"), "{other_unit}");
        }
        for fits in ["p99.b > 10us", "figures.x_ns.change > 10 %", "figures.off_share.b > 1 %", "x > 0.5"] {
            assert!(parse(fits).is_ok(), "{fits}");
        }
        let summary = json!({"p99": {"difference": -20_000}});
        assert!(parse("p99.difference < -10us").unwrap().check(&summary).unwrap().is_some());
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
