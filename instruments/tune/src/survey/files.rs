//! Settings that are files.

use super::{Item, View, fits};
use crate::catalogue::Good;
use quaver_host::settings::TuneError;
use quaver_host::settings::contact;
use quaver_host::settings::knob::{Change, Knob, chosen};

/// What a file shall say.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) set: Option<&'a str>,
    pub(super) from: Option<&'a str>,
    pub(super) good: Option<&'a Good>,
}

impl View<'_> {
    pub(super) fn sysctl(&self, name: &str, set: &str, good: Option<&Good>) -> Item {
        self.judged(Knob::sysctl(name), &self.filled(set), good)
            .unwrap_or_else(|| Item::absent(format!("this kernel has no {name}")))
    }

    pub(super) fn files(&self, path: &str, value: Value<'_>, offered: Option<&str>) -> Vec<Item> {
        if path.contains("{interface}") && self.target.interface.is_none() {
            return vec![Item::absent("name the network interface with --interface")];
        }
        let mut items = Vec::new();
        for (path, stars) in self.expanded(path) {
            let set = match (value.set, value.from) {
                (Some(set), _) => Some(self.filled(set)),
                (None, Some(from)) => self.root().text(&with_stars(from, &stars)),
                (None, None) => None,
            };
            let Some(set) = set else { continue };
            let item = self.judged(Knob::file(path), &set, value.good);
            items.extend(item.map(|item| self.if_offered(item, offered)));
        }
        if items.is_empty() {
            items.push(Item::absent(format!("there is no {}", self.filled(path))));
        }
        items
    }

    /// A value that the kernel does not offer here cannot be set.
    fn if_offered(&self, item: Item, offered: Option<&str>) -> Item {
        let Some(path) = offered else { return item };
        let offers = self.root().text(path).unwrap_or_default();
        let offers = |change: &Change| offers.split_whitespace().any(|word| word == change.value);
        if item.changes.iter().all(offers) {
            return item;
        }
        Item {
            evidence: format!("{}, which is not offered here", item.evidence),
            changes: Vec::new(),
            ..item
        }
    }

    /// A knob held against its better value; none where it does not exist.
    pub(super) fn judged(&self, knob: Knob, set: &str, good: Option<&Good>) -> Option<Item> {
        let now = match contact::read(self.contact, &knob) {
            Ok(now) => now,
            Err(TuneError::Vanished { .. }) => return None,
            // A driver that knows no such setting answers so, or that the operation is not supported.
            Err(TuneError::Os { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return None;
            }
            Err(error) => return Some(Item::unknown(error.to_string())),
        };
        let text = chosen(&String::from_utf8_lossy(&now)).replace('\t', " ");
        let change = Change::new(knob.clone(), set);
        let shown = if text.is_empty() { "empty".to_owned() } else { text.clone() };
        if knob.same(&now, &change.bytes()) || self.is_good(&text, set, good) {
            return Some(Item::good(format!("{knob} is {shown}")));
        }
        Some(Item::hurts(format!("{knob} is {shown}, better {set}"), vec![change]))
    }

    /// The paths that a pattern stands for, each with what its `*` were. Only those that exist, in order.
    pub(super) fn expanded(&self, pattern: &str) -> Vec<(String, Vec<String>)> {
        let filled = self.filled(pattern);
        let patterns: Vec<String> = if filled.contains("{cpu}") {
            self.target.cpus.iter().map(|cpu| filled.replace("{cpu}", &cpu.to_string())).collect()
        } else {
            vec![filled]
        };
        let mut found = Vec::new();
        for pattern in patterns {
            let mut paths = vec![(String::new(), Vec::new())];
            for part in pattern.trim_start_matches('/').split('/') {
                paths = paths.into_iter().flat_map(|path| self.deeper(path, part)).collect();
            }
            found.extend(paths.into_iter().filter(|(path, _)| self.root().exists(path)));
        }
        found
    }

    fn deeper(&self, (path, stars): (String, Vec<String>), part: &str) -> Vec<(String, Vec<String>)> {
        if !part.contains('*') {
            return vec![(format!("{path}/{part}"), stars)];
        }
        let names = self.root().names(&path).into_iter().filter(|name| fits(part, name));
        names
            .map(|name| {
                let stars = stars.iter().cloned().chain([name.clone()]).collect();
                (format!("{path}/{name}"), stars)
            })
            .collect()
    }
}

/// A pattern whose parts with `*` are those that another pattern was found with.
fn with_stars(pattern: &str, stars: &[String]) -> String {
    let mut stars = stars.iter();
    let parts = pattern.split('/').map(|part| match part.contains('*') {
        true => stars.next().map_or(part, String::as_str),
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}
