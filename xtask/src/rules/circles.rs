//! Modules with the same parent must not use each other in a circle.
//!
//! A module uses a sibling when a file at or below the one names something at or below the other, in an import or in a
//! path. Names that a module hands on (`pub use`) count as those of the module that defines them. A module may use its
//! parent, and a parent its children: neither is a sibling of the other. Test code does not count.

mod modules;

use super::Problem;
use crate::product::sources;
use crate::tree::Tree;
use modules::Modules;
use std::collections::{BTreeMap, BTreeSet};

/// Modules that use each other.
struct Circle {
    /// Crate, and parent of the members.
    place: String,
    /// Names of the modules.
    members: BTreeSet<String>,
    /// Who uses whom, and the first place where.
    uses: Vec<String>,
}

impl Circle {
    fn name(&self) -> String {
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        format!("{}: {}", self.place, members.join(" "))
    }
}

/// What one sibling uses of another: places.
type Uses = BTreeMap<(String, String), Vec<String>>;

fn found(tree: &Tree) -> Vec<Circle> {
    let sources = sources(tree);
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.owner.as_str()).collect();
    let mut all = Vec::new();
    for name in crates {
        let modules = Modules::of(sources.iter().filter(|source| source.owner == name));
        let mut parents: BTreeMap<Vec<String>, Uses> = BTreeMap::new();
        for (user, used, place) in modules.uses() {
            let common = user.iter().zip(&used).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (user.get(common), used.get(common)) {
                let uses = parents.entry(user[..common].to_vec()).or_default();
                uses.entry((one.clone(), other.clone())).or_default().push(place);
            }
        }
        for (parent, uses) in parents {
            let mut path = vec![name.to_owned()];
            path.extend(parent);
            all.extend(circles_of(&path.join("::"), &uses));
        }
    }
    all
}

/// All siblings that one uses, also by way of others.
fn reached<'a>(uses: &'a Uses, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(at) = next.pop() {
        let used = uses.keys().filter(|(user, _)| user == at).map(|(_, used)| used);
        next.extend(used.filter(|used| seen.insert(*used)));
    }
    seen
}

/// Sets of modules of which each reaches each other one.
fn circles_of(place: &str, uses: &Uses) -> Vec<Circle> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|(user, _)| (user, reached(uses, user))).collect();
    let mut done = BTreeSet::new();
    let mut all = Vec::new();
    for (from, reaches) in reach.iter().filter(|(from, reaches)| reaches.contains(*from)) {
        let back = reaches.iter().filter(|other| reach.get(*other).is_some_and(|back| back.contains(from)));
        let members: BTreeSet<String> = back.map(|member| (*member).clone()).collect();
        if done.insert(members.clone()) {
            let within =
                uses.iter().filter(|((user, used), _)| members.contains(user) && members.contains(used));
            let uses = within.map(|((user, used), places)| {
                format!("{user} -> {used}: {}, first {}", places.len(), places[0])
            });
            all.push(Circle { place: place.to_owned(), uses: uses.collect(), members });
        }
    }
    all
}

/// All circles with the uses that they are made of.
pub(crate) fn list(tree: &Tree) -> String {
    let all = found(tree);
    let mut out = String::new();
    for circle in &all {
        out.push_str(&format!("{}\n", circle.name()));
        out.extend(circle.uses.iter().map(|one| format!("    {one}\n")));
    }
    out.push_str(&format!("{} circles\n", all.len()));
    out
}

pub(super) fn circles(tree: &Tree) -> Vec<Problem> {
    let problem = |circle: &Circle| {
        let message = format!(
            "use each other in a circle ({}); `cargo xtask circles` shows where",
            circle.uses.join("; ")
        );
        Problem::new(circle.name(), message)
    };
    found(tree).iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("a/Cargo.toml", "[package]\nname = \"a\"")];
        all.extend(files);
        found(&Tree::of(&all)).iter().map(Circle::name).collect()
    }

    #[test]
    fn siblings_that_use_each_other_are_a_circle() {
        let files = [
            ("a/src/lib.rs", "mod one;\nmod two;\nmod three;\nuse three::T;"),
            ("a/src/one.rs", "use crate::two::Two;\npub struct One;"),
            ("a/src/two/mod.rs", "mod deep;\npub struct Two;"),
            ("a/src/two/deep.rs", "fn f(one: &crate::one::One) {}"),
            ("a/src/three.rs", "use super::one::One;\nuse crate::lib_item;"),
        ];
        assert_eq!(names(&files), vec!["a: one two"]);
    }

    #[test]
    fn parents_and_children_may_use_each_other() {
        let files = [
            ("a/src/lib.rs", "mod one;"),
            ("a/src/one.rs", "mod deep;\nuse deep::Deep;\npub struct One;"),
            ("a/src/one/deep.rs", "use super::One;\npub struct Deep;"),
        ];
        assert_eq!(names(&files), Vec::<String>::new());
    }

    #[test]
    fn names_that_a_parent_hands_on_are_those_of_the_child() {
        let files = [
            ("a/src/lib.rs", "mod p;"),
            ("a/src/p/mod.rs", "mod x;\nmod y;\npub use x::X;\npub use y::*;"),
            ("a/src/p/x.rs", "use super::Y;\npub struct X;"),
            ("a/src/p/y.rs", "fn f() { super::X::new() }\npub struct Y;"),
        ];
        assert_eq!(names(&files), vec!["a::p: x y"]);
    }

    #[test]
    fn modules_that_were_imported_are_followed() {
        let files = [
            ("a/src/lib.rs", "mod p;"),
            ("a/src/p/mod.rs", "mod x;\nmod y;\nmod z;"),
            ("a/src/p/x.rs", "use crate::p::{self, z as last};\nfn f() { p::y::g() }\nfn h() { last::k() }"),
            ("a/src/p/y.rs", "pub fn g() { super::z::k() }"),
            ("a/src/p/z.rs", "use super::{\n    x::{self, f},\n    y,\n};"),
        ];
        assert_eq!(names(&files), vec!["a::p: x y z"]);
    }

    #[test]
    fn tests_comments_and_literals_do_not_count() {
        let files = [
            ("a/src/lib.rs", "mod one;\nmod two;"),
            ("a/src/one.rs", "use crate::two::Two;"),
            (
                "a/src/two.rs",
                "// crate::one::One\nconst A: &str = \"crate::one::One\";\n#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}",
            ),
        ];
        assert_eq!(names(&files), Vec::<String>::new());
    }
}
