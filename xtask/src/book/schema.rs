//! Reference pages from JSON Schemas: a page for each file of `docs/schema`, a table for each object.

use super::pages::Page;
use crate::tree::Tree;
use anyhow::Context;
use serde_json::{Map, Value};

/// Where the schemas lie.
const FOLDER: &str = "docs/schema/";

/// The list of them and their pages, in the order of their names.
pub(super) fn pages(tree: &Tree) -> anyhow::Result<Vec<Page>> {
    let files = tree
        .texts()
        .filter_map(|(path, text)| Some((path.strip_prefix(FOLDER)?.strip_suffix(".json")?, text)));
    let mut list = "# JSON Schemas\n\n[Formats](../formats.md#json-schemas) says what a schema promises.\n\n\
                    | schema | of | what |\n| --- | --- | --- |\n"
        .to_owned();
    let mut pages = Vec::new();
    for (name, text) in files {
        let schema: Value = serde_json::from_str(text).with_context(|| format!("{FOLDER}{name}.json"))?;
        let title = schema["title"].as_str().unwrap_or(name);
        list.push_str(&format!(
            "| [{name}]({name}.md) | {title} | {} |\n",
            described(&schema).unwrap_or_default()
        ));
        pages.push(Page::schema(format!("{FOLDER}{name}.md"), name, &page(name, &schema)));
    }
    pages.insert(0, Page::schema(format!("{FOLDER}README.md"), "JSON Schemas", &list));
    Ok(pages)
}

fn page(name: &str, schema: &Value) -> String {
    let title = schema["title"].as_str().unwrap_or(name);
    let mut text = format!(
        "# {name}: {title}\n\nA table of the [JSON Schema]({name}.json), as `quaver schema` prints it.\n\n"
    );
    text.push_str(&object(schema));
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        text.push_str(&format!("## {name}\n\n{}", object(definition)));
    }
    text
}

/// What a definition is, with a table of its keys.
fn object(schema: &Value) -> String {
    let mut text = match described(schema) {
        Some(words) => format!("{words}\n\n"),
        None => String::new(),
    };
    for variant in variants(schema) {
        let what = kind(variant);
        let words = described(variant).map_or(String::new(), |words| format!(": {words}"));
        text.push_str(&format!("- {what}{words}\n"));
    }
    if !variants(schema).is_empty() {
        text.push('\n');
    }
    for keys in std::iter::once(schema).chain(variants(schema)).filter_map(|one| one.get("properties")) {
        text.push_str("| key | value | meaning |\n| --- | --- | --- |\n");
        rows(&mut text, "", keys.as_object());
        text.push('\n');
    }
    text
}

fn rows(text: &mut String, above: &str, keys: Option<&Map<String, Value>>) {
    for (key, value) in keys.into_iter().flatten() {
        let words = described(value).unwrap_or_default().replace('|', "\\|");
        text.push_str(&format!("| `{above}{key}` | {} | {words} |\n", kind(value)));
        rows(text, &format!("{above}{key}."), value["properties"].as_object());
    }
}

fn variants(schema: &Value) -> Vec<&Value> {
    ["oneOf", "anyOf"].iter().filter_map(|of| schema[*of].as_array()).flatten().collect()
}

/// A description as one line.
fn described(schema: &Value) -> Option<String> {
    let words = schema["description"].as_str()?;
    Some(words.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "&lt;"))
}

/// The kind of a value in a few words; other definitions as links.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(fixed) = schema.get("const") {
        return format!("`{fixed}`");
    }
    let one_of = |all: &[Value]| all.iter().map(kind).collect::<Vec<_>>().join(" or ");
    if let Some(fixed) = schema["enum"].as_array() {
        return fixed.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    }
    if !variants(schema).is_empty() {
        return variants(schema).into_iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(parts) = schema["prefixItems"].as_array() {
        return format!("list: {}", parts.iter().map(kind).collect::<Vec<_>>().join(", "));
    }
    let by_pattern = schema["patternProperties"].as_object().and_then(|all| all.values().next());
    if let Some(values) =
        by_pattern.or_else(|| schema.get("additionalProperties").filter(|one| one.is_object()))
    {
        return format!("by name: {}", kind(values));
    }
    match (&schema["type"], schema.get("items")) {
        (Value::String(name), Some(items)) if name == "array" => format!("list of {}", kind(items)),
        (Value::Array(names), Some(items)) if names.iter().any(|name| name == "array") => {
            format!("list of {} or null", kind(items))
        }
        (Value::String(name), _) => name.clone(),
        (Value::Array(names), _) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        (_, _) => schema["allOf"].as_array().map_or("any".to_owned(), |all| one_of(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_object_becomes_a_table() {
        let schema = json!({
            "title": "x/1", "description": "All\nof <it>.",
            "properties": {
                "a": {"type": ["integer", "null"], "description": "One | two."},
                "b": {"type": "array", "items": {"$ref": "#/$defs/Cell"}},
                "c": {"properties": {"d": {"const": 1}}, "type": "object"},
            },
            "$defs": {"Cell": {"oneOf": [{"const": "on", "description": "It is on."}, {"type": "null"}]}},
        });
        let wanted = "# x: x/1\n\nA table of the [JSON Schema](x.json), as `quaver schema` prints it.\n\nAll of &lt;it>.\n\n\
            | key | value | meaning |\n| --- | --- | --- |\n| `a` | integer or null | One \\| two. |\n\
            | `b` | list of [Cell](#cell) |  |\n| `c` | object |  |\n| `c.d` | `1` |  |\n\n\
            ## Cell\n\n- `\"on\"`: It is on.\n- null\n\n";
        assert_eq!(page("x", &schema), wanted);
    }
}
