//! Examples in documents, which `cargo test --doc` runs: which packages have any. Asked for all of them, rustdoc reads the whole
//! workspace again to find none.

use crate::product;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Packages whose documents may have an example.
pub(crate) fn packages(tree: &Tree) -> BTreeSet<String> {
    let sources = tree.rust().filter(|(_, text)| may_have_one(text));
    sources.map(|(path, _)| product::owner(tree, path)).collect()
}

/// Whether rustdoc may take something in there for an example: code that is not marked as text. What may come from elsewhere
/// counts.
fn may_have_one(source: &str) -> bool {
    let mut within_text = false;
    for line in source.lines().map(str::trim_start) {
        if ["#[doc", "#![doc", "/**", "/*!"].iter().any(|start| line.starts_with(start)) {
            return true;
        }
        let Some(words) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            within_text = false;
            continue;
        };
        let fence = ["```", "~~~"].iter().find_map(|fence| words.trim_start().strip_prefix(fence));
        match fence {
            Some(_) if within_text => within_text = false,
            Some("text") => within_text = true,
            Some(_) => return true,
            // Markdown takes lines that are indented by four for code.
            None if !within_text && (words.starts_with("     ") || words.contains('\t')) => return true,
            None => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_not_marked_as_text_may_be_an_example() {
        for none in [
            "//! A map:\n//! ```text\n//!     0   64\n//! ```\n//! Words.\nfn f() {}\n",
            "    /// Words:\n    ///  - one\n    // ```\n    fn f() {}\n",
            "/// ~~~text\n/// ```\n/// Words.\n",
        ] {
            assert!(!may_have_one(none), "{none}");
        }
        for one in [
            "/// ```\n/// f();\n/// ```\n",
            "    /// ```should_panic\n",
            "/// ```text\n/// a\n/// ```\n/// ~~~rust\n",
            "/// So:\n///\n///     f();\n",
            "/// ```text\nfn f() {}\n/// ```\n",
            "#![doc = include_str!(\"../README.md\")]\n",
            "/** f */\n",
        ] {
            assert!(may_have_one(one), "{one}");
        }
    }

    #[test]
    fn packages_are_named_by_their_manifests() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]\nname = \"quaver-a\""),
            ("a/src/lib.rs", "//! ```text\n//! ```\n"),
            ("b/Cargo.toml", "[package]\nname = \"quaver-b\""),
            ("b/src/lib.rs", "//! ```\n//! f();\n"),
        ]);
        assert_eq!(packages(&tree), BTreeSet::from(["quaver-b".to_owned()]));
    }
}
