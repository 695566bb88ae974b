//! The shape of JSON documents, read from the types that are serialised: which keys there can be, and what they hold.
//! Runs of one machine show some keys only; the types show all.

use crate::sources::{Source, bracketed};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A struct or an enum that serde writes.
struct Type {
    name: String,
    path: String,
    /// Options of `#[serde(...)]` before it.
    serde: String,
    /// `struct` or `enum`.
    is_enum: bool,
    /// Names of type parameters.
    parameters: Vec<String>,
    /// What stands in its brackets, with them: `{...}` or `(...)`.
    body: String,
}

/// All serialised types of the product.
pub(crate) struct Types<'a> {
    types: Vec<Type>,
    sources: &'a [Source],
}

/// A field, or a variant of an enum.
struct Item {
    serde: String,
    name: String,
    /// A field's type; a variant's brackets, or nothing.
    rest: String,
}

/// A type with what its parameters stand for.
struct User<'a> {
    of: &'a Type,
    bound: Vec<(String, String)>,
}

/// Where a document's keys are collected: what each path holds.
type Keys = BTreeMap<String, BTreeSet<String>>;

impl<'a> Types<'a> {
    /// Finds them.
    pub(crate) fn of(sources: &'a [Source]) -> Self {
        let types = sources.iter().flat_map(serialised).collect();
        Self { types, sources }
    }

    /// Paths of all keys below a type, as `path: what it holds`, arrays as `[]`, maps as `{}`. Where several types have the
    /// name, a field of it can be named as well: `Name.field`.
    pub(crate) fn document(&self, root: &str) -> String {
        let (name, field) = root.split_once('.').unwrap_or((root, ""));
        let is_it = |of: &&Type| {
            of.name == name && (field.is_empty() || items(&of.body).iter().any(|item| item.name == field))
        };
        let found: Vec<&Type> = self.types.iter().filter(is_it).collect();
        let [of] = found[..] else { panic!("{} serialised types are {root}", found.len()) };
        let mut keys = Keys::new();
        self.walk(of, "", &[], &mut vec![], &mut keys);
        let lines = keys.iter().map(|(path, holds)| {
            let holds: Vec<&str> = holds.iter().map(String::as_str).collect();
            format!("    {path}: {}\n", holds.join(" or "))
        });
        lines.collect()
    }

    fn walk(&self, of: &Type, at: &str, arguments: &[String], above: &mut Vec<String>, keys: &mut Keys) {
        let identity = format!("{}::{}", of.path, of.name);
        if above.contains(&identity) {
            put(keys, at, &format!("{} again", of.name));
            return;
        }
        above.push(identity);
        let bound = of.parameters.iter().cloned().zip(arguments.iter().cloned()).collect();
        let user = &User { of, bound };
        if let Some(into) = option(&of.serde, "into") {
            self.value(user, &into, at, above, keys);
        } else if of.is_enum {
            self.variants(user, at, above, keys);
        } else if of.body.starts_with('{') {
            put(keys, at, "object");
            self.fields(user, &of.body, &of.serde, at, above, keys);
        } else {
            self.tuple(user, &of.body, at, above, keys);
        }
        above.pop();
    }

    fn fields(
        &self,
        user: &User<'_>,
        body: &str,
        serde: &str,
        at: &str,
        above: &mut Vec<String>,
        keys: &mut Keys,
    ) {
        for field in items(body) {
            if has(&field.serde, "skip") {
                continue;
            }
            let name = option(&field.serde, "rename").unwrap_or_else(|| cased(&field.name, serde, false));
            if has(&field.serde, "flatten") {
                self.value(user, &field.rest, at, above, keys);
                continue;
            }
            let path = if at.is_empty() { name } else { format!("{at}.{name}") };
            if field.serde.contains("skip_serializing_if") {
                put(keys, &path, "absent");
            }
            if option(&field.serde, "serialize_with").is_some() {
                put(keys, &path, "string");
            } else {
                self.value(user, &field.rest, &path, above, keys);
            }
        }
    }

    fn tuple(&self, user: &User<'_>, body: &str, at: &str, above: &mut Vec<String>, keys: &mut Keys) {
        let parts = split(inner(body));
        let parts: Vec<&str> = parts.iter().map(|part| visible(attributes(part).1)).collect();
        match parts[..] {
            [one] => self.value(user, one, at, above, keys),
            _ => {
                put(keys, at, "array");
                for part in parts {
                    self.value(user, part, &format!("{at}[]"), above, keys);
                }
            }
        }
    }

    fn variants(&self, user: &User<'_>, at: &str, above: &mut Vec<String>, keys: &mut Keys) {
        let of = user.of;
        let (tag, content) = (option(&of.serde, "tag"), option(&of.serde, "content"));
        let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        for variant in items(&of.body) {
            if has(&variant.serde, "skip") {
                continue;
            }
            let name =
                option(&variant.serde, "rename").unwrap_or_else(|| cased(&variant.name, &of.serde, true));
            let place = if has(&of.serde, "untagged") {
                at.to_owned()
            } else if let Some(tag) = &tag {
                put(keys, at, "object");
                put(keys, &below(tag), &format!("{name:?}"));
                content.as_deref().map_or_else(|| at.to_owned(), below)
            } else if variant.rest.is_empty() {
                put(keys, at, &format!("{name:?}"));
                continue;
            } else {
                put(keys, at, "object");
                below(&name)
            };
            if variant.rest.starts_with('{') {
                put(keys, &place, "object");
                self.fields(user, &variant.rest, &variant.serde, &place, above, keys);
            } else if variant.rest.starts_with('(') {
                self.tuple(user, &variant.rest, &place, above, keys);
            }
        }
    }

    /// What a type as it is written holds.
    fn value(&self, user: &User<'_>, written: &str, at: &str, above: &mut Vec<String>, keys: &mut Keys) {
        let written = written.trim().trim_start_matches('&').trim();
        let written = written.strip_prefix("'static ").or(written.strip_prefix("'a ")).unwrap_or(written);
        let written = written.strip_prefix("mut ").unwrap_or(written);
        if let Some((_, argument)) = user.bound.iter().find(|(name, _)| name == written) {
            return self.value(user, argument, at, above, keys);
        }
        if written.starts_with('(') {
            return self.tuple(user, written, at, above, keys);
        }
        if written.starts_with('[') {
            put(keys, at, "array");
            let one = inner(written).rsplit_once(';').map_or_else(|| inner(written), |(one, _)| one);
            return self.value(user, one, &format!("{at}[]"), above, keys);
        }
        let (path, arguments) = match written.split_once('<') {
            Some((path, rest)) => (path, split(rest.trim_end().trim_end_matches('>'))),
            None => (written, vec![]),
        };
        let arguments: Vec<String> =
            arguments.into_iter().filter(|one| !one.starts_with('\'')).map(str::to_owned).collect();
        let name = path.rsplit("::").next().expect("a split has a first part");
        let first = arguments.first().map_or("", String::as_str);
        match name {
            "Option" => {
                put(keys, at, "null");
                self.value(user, first, at, above, keys);
            }
            "Box" | "Arc" | "Rc" | "Cow" | "RefCell" => self.value(user, first, at, above, keys),
            "Vec" | "BTreeSet" | "HashSet" | "VecDeque" => {
                put(keys, at, "array");
                self.value(user, first, &format!("{at}[]"), above, keys);
            }
            "BTreeMap" | "HashMap" => {
                put(keys, at, "object");
                let second = arguments.get(1).expect("a map has keys and values").clone();
                self.value(user, &second, &format!("{at}.{{}}"), above, keys);
            }
            "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
                put(keys, at, "integer");
            }
            "f32" | "f64" => put(keys, at, "number"),
            "bool" => put(keys, at, "boolean"),
            "String" | "str" | "PathBuf" | "Path" | "SocketAddr" | "IpAddr" | "Ipv4Addr" | "Ipv6Addr" => {
                put(keys, at, "string");
            }
            "Value" => put(keys, at, "any"),
            "Map" => {
                put(keys, at, "object");
                put(keys, &format!("{at}.{{}}"), "any");
            }
            _ => {
                let arguments: Vec<String> = arguments
                    .into_iter()
                    .map(|one| {
                        user.bound.iter().find(|(name, _)| *name == one).map_or(one, |(_, to)| to.clone())
                    })
                    .collect();
                self.walk(self.find(user.of, path, name), at, &arguments, above, keys);
            }
        }
    }

    /// The type that a file means by a name: its own, or else what its imports name.
    fn find(&self, user: &Type, path: &str, name: &str) -> &Type {
        let name = if name == "Self" { &user.name } else { name };
        let named: Vec<&Type> = self.types.iter().filter(|of| of.name == name).collect();
        if let Some(own) = named.iter().find(|of| of.path == user.path && !path.contains("::")) {
            return own;
        }
        let source =
            self.sources.iter().find(|source| source.path == user.path).expect("types are of sources");
        let imported = imports(&source.text, path.split("::").next().expect("a split has a first part"));
        let wanted = format!("{}::{path}", imported.unwrap_or_default());
        let score = |of: &&&Type| {
            let folders = of.path.replace(".rs", "").replace('_', "-");
            let of_crate = package(&of.path);
            let own_crate = user.path.split("/src/").next() == of.path.split("/src/").next();
            let parts: Vec<String> = wanted.split("::").map(|part| part.replace('_', "-")).collect();
            let in_crate = parts.iter().any(|part| Some(part) == of_crate.as_ref())
                || own_crate && parts.iter().any(|part| ["crate", "super", "self"].contains(&part.as_str()));
            let folders: Vec<&str> = folders.split('/').collect();
            let met = parts.iter().filter(|part| folders.contains(&part.as_str())).count();
            (in_crate, met, own_crate, std::cmp::Reverse(folders.len()))
        };
        let best = named.iter().max_by_key(score);
        best.unwrap_or_else(|| panic!("{}: no serialised type is called {name}", user.path))
    }
}

/// Name of the package that a source is of.
fn package(path: &str) -> Option<String> {
    let folder = path.split("/src/").next()?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(line.trim_end_matches('"').to_owned())
}

fn put(keys: &mut Keys, at: &str, holds: &str) {
    if !at.is_empty() {
        keys.entry(at.to_owned()).or_default().insert(holds.to_owned());
    }
}

/// The path by which a file imports a name, with the name left out.
fn imports(text: &str, name: &str) -> Option<String> {
    for statement in text.split("use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(path, _)| path)
    {
        let flat: String = statement.split_whitespace().collect();
        let mut words = flat.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        if words.any(|word| word == name) && !statement.contains("fn ") {
            return Some(match flat.split_once('{') {
                // Of a list in braces, the path to the name's own place in it.
                Some((before, list)) => {
                    let own =
                        list.split(',').find(|one| one.trim_end_matches('}').ends_with(name)).unwrap_or("");
                    let own = own.rsplit_once("::").map_or("", |(path, _)| path);
                    format!("{before}{own}")
                }
                None => flat.rsplit_once("::").map_or(String::new(), |(path, _)| path.to_owned()),
            });
        }
    }
    None
}

/// The serialised types of one file.
fn serialised(source: &Source) -> Vec<Type> {
    let mut found = Vec::new();
    for (at, _) in source.text.match_indices("#[derive(") {
        let (derives, item) = attributes(&source.text[at..]);
        let item = visible(item);
        let Some((kind, rest)) = item.split_once(' ').filter(|(kind, _)| ["struct", "enum"].contains(kind))
        else {
            continue;
        };
        let derived = derives.split(['(', ')', ',', ' ', ':']).any(|word| word == "Serialize");
        let end =
            rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let body = after.find(['{', '(', ';']).expect("a type has a body");
        if !derived || after[body..].starts_with(';') {
            continue;
        }
        let parameters = after[..body].trim().trim_start_matches('<').trim_end_matches('>');
        let parameters = parameters.split(',').map(|one| one.split(':').next().unwrap_or(one).trim());
        found.push(Type {
            name: name.to_owned(),
            path: source.path.clone(),
            serde: of_serde(derives),
            is_enum: kind == "enum",
            parameters: parameters
                .filter(|one| !one.is_empty() && !one.starts_with('\''))
                .map(str::to_owned)
                .collect(),
            body: after[body..body + bracketed(&after[body..])].to_owned(),
        });
    }
    found
}

/// Attributes that a text begins with, and what follows.
fn attributes(text: &str) -> (&str, &str) {
    let mut rest = text.trim_start();
    while rest.starts_with("#[") {
        rest = rest[1 + bracketed(&rest[1..])..].trim_start();
    }
    (&text[..text.len() - rest.len()], rest)
}

/// What stands in the attributes `#[serde(...)]`.
fn of_serde(attributes: &str) -> String {
    let each = attributes.match_indices("#[serde(").map(|(at, _)| {
        let text = &attributes[at + 7..];
        inner(&text[..bracketed(text)]).split_whitespace().collect::<Vec<_>>().join(" ")
    });
    each.collect::<Vec<_>>().join(", ")
}

fn visible(item: &str) -> &str {
    let item = item.trim();
    match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest[bracketed(rest)..].trim_start(),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => item,
    }
}

/// A text without the brackets around it.
fn inner(text: &str) -> &str {
    let text = text.trim();
    &text[1..text.len() - 1]
}

/// Parts between commas that stand in no bracket, without empty ones.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut begin, mut parts) = (0_i32, false, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn items(body: &str) -> Vec<Item> {
    let each = split(inner(body)).into_iter().map(|item| {
        let (attributes, rest) = attributes(item);
        let rest = visible(rest);
        let end =
            rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let rest = rest.trim().trim_start_matches(':').trim();
        let rest = if rest.starts_with('=') { "" } else { rest };
        Item { serde: of_serde(attributes), name: name.to_owned(), rest: rest.to_owned() }
    });
    each.collect()
}

/// Whether one of serde's words stands there by itself.
fn has(serde: &str, word: &str) -> bool {
    split(serde).contains(&word)
}

/// The text that one of serde's words is given.
fn option(serde: &str, word: &str) -> Option<String> {
    let each = split(serde).into_iter().filter_map(|one| one.split_once('='));
    let mut named = each.filter(|(name, _)| name.trim() == word);
    named.next().map(|(_, text)| text.trim().trim_matches('"').to_owned())
}

/// A name in the case that `rename_all` asks for.
fn cased(name: &str, serde: &str, variant: bool) -> String {
    let Some(case) = option(serde, "rename_all") else { return name.to_owned() };
    let mut words = String::new();
    for letter in name.chars() {
        if variant && letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    match case.as_str() {
        "kebab-case" => words.replace('_', "-"),
        "lowercase" => words.replace('_', ""),
        "snake_case" => words,
        other => panic!("{name}: case {other} is not known here"),
    }
}
