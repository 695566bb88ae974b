//! The modules of one crate, and what each names of the others.

use crate::product::Source;
use crate::rust_text;
use std::collections::BTreeMap;

/// Most names that are followed from one to the next, for `use` can go in a circle as well.
const FOLLOWED: usize = 8;

/// Names from the crate's root down; none is the root.
pub(super) type Path = Vec<String>;

/// One name that a `use` brings in.
struct Import {
    line: usize,
    path: Path,
    /// As what; `*` where it brings in all.
    name: String,
}

struct Module {
    file: String,
    imports: Vec<Import>,
    /// Paths in the code, with their lines.
    paths: Vec<(usize, Path)>,
    code: String,
}

/// All modules of a crate.
pub(super) struct Modules {
    all: BTreeMap<Path, Module>,
}

impl Modules {
    pub(super) fn of<'a>(sources: impl Iterator<Item = &'a Source<'a>>) -> Self {
        let mut all = BTreeMap::new();
        for source in sources {
            if let Some(path) = module_path(source.path) {
                let code = rust_text::code_only(&source.text);
                let (imports, rest) = imports(&code);
                let module = Module { file: source.path.to_owned(), imports, paths: paths(&rest), code };
                // A library's root and its binary's share a name; the library comes first.
                all.entry(path).or_insert(module);
            }
        }
        Self { all }
    }

    /// Who uses whom, and where.
    pub(super) fn uses(&self) -> Vec<(Path, Path, String)> {
        let mut found = Vec::new();
        for (user, module) in &self.all {
            let imported = module.imports.iter().map(|import| (import.line, &import.path));
            for (line, path) in imported.chain(module.paths.iter().map(|(line, path)| (*line, path))) {
                if let Some(used) = self.resolve(user, path, FOLLOWED) {
                    found.push((user.clone(), used, format!("{}:{line}", module.file)));
                }
            }
        }
        found
    }

    /// The module that defines what a path means in a module; none where it is of another crate.
    fn resolve(&self, within: &[String], path: &[String], followed: usize) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Path::new(),
            "self" => within.to_vec(),
            "super" => within.split_last()?.1.to_vec(),
            name => match self.child(within, name) {
                Some(child) => child,
                None => self.imported(within, name, followed)?,
            },
        };
        for (index, name) in rest.iter().enumerate() {
            match name.as_str() {
                "self" | "*" => {}
                "super" => at = at.split_last()?.1.to_vec(),
                name => match self.child(&at, name) {
                    Some(child) => at = child,
                    None => {
                        let Some(owner) = self.imported(&at, name, followed) else { return Some(at) };
                        let mut whole = vec!["crate".to_owned()];
                        whole.extend(owner);
                        whole.extend(rest[index + 1..].iter().cloned());
                        return self.resolve(within, &whole, followed.checked_sub(1)?);
                    }
                },
            }
        }
        Some(at)
    }

    fn child(&self, of: &[String], name: &str) -> Option<Path> {
        let mut path = of.to_vec();
        path.push(name.to_owned());
        self.all.contains_key(&path).then_some(path)
    }

    /// The module from which a module has a name that it does not define.
    fn imported(&self, module: &[String], name: &str, followed: usize) -> Option<Path> {
        let followed = followed.checked_sub(1)?;
        let imports = &self.all.get(module)?.imports;
        if let Some(import) = imports.iter().find(|import| import.name == name && import.path != [name]) {
            return self.resolve(module, &import.path, followed);
        }
        let all = imports.iter().filter(|import| import.name == "*");
        let mut targets = all.filter_map(|import| self.resolve(module, &import.path, followed));
        targets.find(|target| target != module && self.defines(target, name))
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        let kinds = ["struct", "enum", "fn", "trait", "type", "const", "static", "union"];
        self.all.get(module).is_some_and(|module| {
            let words: Vec<&str> = rust_text::words(&module.code).map(|(_, word)| word).collect();
            words.windows(2).any(|two| kinds.contains(&two[0]) && two[1] == name)
        })
    }
}

/// `crates/a/src/one/two.rs` is `one::two`.
fn module_path(file: &str) -> Option<Path> {
    let (_, inside) = file.strip_suffix(".rs")?.rsplit_once("/src/")?;
    let mut path: Path = inside.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    Some(path)
}

/// What is imported, and the code without that.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest, mut from) = (Vec::new(), code.to_owned(), 0);
    while let Some(at) = code[from..].find("use ").map(|at| from + at) {
        from = at + 4;
        let before = code[..at].chars().next_back();
        let Some(end) = code[at..].find(';').map(|end| at + end) else { break };
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let tree = code[at + 4..end].split_whitespace().collect::<Vec<_>>().join(" ");
        expand(&tree, &Path::new(), line, &mut found);
        let blank: String =
            code[at..end].chars().map(|letter| if letter == '\n' { letter } else { ' ' }).collect();
        if blank.len() == end - at {
            rest.replace_range(at..end, &blank);
        }
        from = end;
    }
    (found, rest)
}

/// Takes the tree of a `use` apart.
fn expand(tree: &str, above: &Path, line: usize, found: &mut Vec<Import>) {
    let tree = tree.trim().trim_start_matches("::");
    if let Some((head, list)) = tree.split_once('{') {
        let mut path = above.clone();
        path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
        let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
        for part in parts(list) {
            expand(part, &path, line, found);
        }
        return;
    }
    let (written, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name.trim())));
    let mut path = above.clone();
    path.extend(written.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned() {
        found.push(Import { line, path, name: alias.map_or(last, str::to_owned) });
    }
}

/// Parts between commas outside braces.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[begin..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

/// Names joined by `::` in code, at least two.
fn paths(code: &str) -> Vec<(usize, Path)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(begin) = rest.find(|letter: char| letter.is_alphabetic() || letter == '_') {
            let end = rest[begin..].find(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
            let end = end.map_or(rest.len(), |end| begin + end);
            let word = &rest[begin..end];
            // What follows a bracket, as in `<T as X>::y`, has no beginning to be resolved from.
            if word.contains("::") && !rest[..begin].ends_with("::") {
                let path: Path =
                    word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
                if path.len() > 1 && path.iter().all(|part| !part.contains(':')) {
                    found.push((index + 1, path));
                }
            }
            rest = &rest[end..];
        }
    }
    found
}
