//! A summary of bounded size. Long lists and texts are cut, and the rest is counted.

use serde_json::{Map, Value};

/// Most bytes of `summary.json`.
pub const MOST_BYTES: usize = 100_000;
/// Key of what was left out: by place, how many elements of lists (and bytes of texts).
pub const LEFT_OUT: &str = "left_out";

/// The first length that lists are cut to. It is halved until the summary fits.
const LONGEST: usize = 4_096;
/// An object with more keys is no type of ours, but a list whose elements have names.
const MOST_KEYS: usize = 100;
/// So few plain values are one value, such as a share by class, and stay together.
const TUPLE: usize = 8;
/// A text is cut to so many bytes for each element that a list keeps, and only once lists are short.
const TEXT_BYTES: usize = 64;
const SHORT: usize = 16;

/// `summary` with its longest lists cut until `fits` holds. Elements stay in their order, and the first ones stay, for
/// lists are ranked. The key `left_out` counts the others.
pub(crate) fn shortened(summary: &Value, fits: impl Fn(&Value) -> bool) -> Value {
    let (mut limit, mut most_keys) = (LONGEST, MOST_KEYS);
    loop {
        let (mut short, mut left_out) = (summary.clone(), Map::new());
        cut(&mut short, (limit, most_keys), "", &mut left_out);
        if let Value::Object(keys) = &mut short {
            keys.insert(LEFT_OUT.to_owned(), left_out.into());
        }
        if fits(&short) || most_keys <= 1 {
            return short;
        }
        // Keys of our own types go last.
        match limit {
            1 => most_keys /= 2,
            _ => limit /= 2,
        }
    }
}

fn cut(
    value: &mut Value,
    (limit, most_keys): (usize, usize),
    place: &str,
    left_out: &mut Map<String, Value>,
) {
    let mut count = |elements: usize| {
        let before = left_out.get(place).and_then(Value::as_u64).unwrap_or(0);
        left_out.insert(place.to_owned(), (before + elements as u64).into());
    };
    match value {
        Value::Array(all) => {
            let is_tuple = all.len() <= TUPLE && all.iter().all(|one| !one.is_object() && !one.is_array());
            if all.len() > limit && !is_tuple {
                count(all.len() - limit);
                all.truncate(limit);
            }
            all.iter_mut().for_each(|one| cut(one, (limit, most_keys), place, left_out));
        }
        Value::Object(keys) => {
            let most = limit.max(most_keys);
            if keys.len() > most && !place.is_empty() {
                count(keys.len() - most);
                let mut places = 0..;
                keys.retain(|_, _| places.next().is_some_and(|place| place < most));
            }
            let named = keys.len() >= MOST_KEYS;
            for (key, below) in keys.iter_mut() {
                let at = match (place, named) {
                    (_, true) => place.to_owned(),
                    ("", false) => key.clone(),
                    (_, false) => format!("{place}.{key}"),
                };
                cut(below, (limit, most_keys), &at, left_out);
            }
        }
        Value::String(text) if limit <= SHORT && text.len() > limit * TEXT_BYTES => {
            let end = (0..=limit * TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            count(text.len() - end);
            text.truncate(end);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_lists_are_cut_first_and_what_is_left_out_is_counted() {
        let rows: Vec<Value> = (0..40).map(|row| json!({"row": row, "bins": vec![1; 600]})).collect();
        let names: Map<String, Value> = (0..150).map(|key| (key.to_string(), json!(vec![0; 300]))).collect();
        let summary = json!({"schema": "quaver.x/1", "rows": rows, "names": names, "few": [1, 2, 3]});
        let fits = |value: &Value| value.to_string().len() < 30_000;
        let short = shortened(&summary, fits);
        assert!(fits(&short));
        assert_eq!(short["few"], json!([1, 2, 3]));
        let (rows, names) = (short["rows"].as_array().unwrap(), short["names"].as_object().unwrap());
        let list = rows[0]["bins"].as_array().unwrap().len();
        assert_eq!(rows[0]["row"], 0, "the first stay");
        assert_eq!((rows.len(), names.len()), (40, MOST_KEYS), "short lists stay whole");
        assert_eq!(short[LEFT_OUT]["rows.bins"], 40 * (600 - list));
        assert_eq!(short[LEFT_OUT]["names"], 50 + MOST_KEYS * (300 - list));
    }

    #[test]
    fn names_are_cut_where_nothing_else_is_left() {
        let few: Map<String, Value> = (0..90).map(|key| (format!("key{key}"), json!(key))).collect();
        let nested: Map<String, Value> = (0..90).map(|key| (format!("key{key}"), json!(few))).collect();
        let summary = json!({"schema": "quaver.x/1", "nested": nested});
        let fits = |value: &Value| value.to_string().len() < 10_000;
        let short = shortened(&summary, fits);
        assert!(fits(&short) && short["schema"] == "quaver.x/1" && short["nested"]["key0"]["key0"] == 0);
    }

    #[test]
    fn a_few_numbers_stay_together() {
        let row = json!({"shares": [0, 0, 1, 0, 0, 0], "long": vec![1; 9], "objects": [{"a": 1}, {"a": 2}]});
        let summary = json!({"rows": vec![row; 50]});
        let short = shortened(&summary, |value| value.to_string().len() < 300);
        let row = &short["rows"][0];
        assert_eq!(row["shares"], json!([0, 0, 1, 0, 0, 0]));
        assert_eq!((row["long"].as_array().unwrap().len(), row["objects"].as_array().unwrap().len()), (2, 2));
    }

    #[test]
    fn texts_are_cut_last_and_within_no_letter() {
        let summary = json!({"list": vec![0; 20], "text": "é".repeat(5_000)});
        let short = shortened(&summary, |value| value.to_string().len() < 1_000);
        assert_eq!(short["list"].as_array().unwrap().len(), 8);
        assert_eq!(short["text"].as_str().unwrap().chars().count(), 256);
        assert_eq!(short[LEFT_OUT], json!({"list": 12, "text": 10_000 - 512}));
    }
}
