//! Where in the source a call stands, as the debug information of its file says.

use super::demangling::demangled;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use std::path::Path;

/// Directories of what comes with compilers. A lock is not asked for by the header that its type comes from.
const OF_TOOLS: [&str; 4] = ["/usr/include/", "/usr/lib/", "/usr/local/include/", "/rustc/"];

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Function, file and line.
    pub words: String,
    /// It is of the program's own source.
    pub is_own: bool,
}

/// A function, with the line that it is at.
struct Frame {
    function: String,
    /// Path of the file and number of the line; none where the debug information has none.
    place: Option<(String, u32)>,
}

impl Frame {
    fn is_own(&self) -> bool {
        self.place.as_ref().is_some_and(|(path, _)| !OF_TOOLS.iter().any(|tools| path.starts_with(tools)))
    }
}

/// Finds lines; what was read of a file is kept.
#[derive(Debug)]
pub struct Lines(Symbolizer);

impl Default for Lines {
    /// Names as the file has them: the library's own would make the C function `w` a `wchar_t`.
    fn default() -> Self {
        Self(Symbolizer::builder().enable_demangling(false).build())
    }
}

impl Lines {
    /// The code at an address of a file, as the file has it: `push (queue.c:12)`, or `push (queue.h:12) inlined in worker
    /// (main.c:40)`. None without debug information.
    pub fn of(&self, file: &Path, address: u64) -> Option<Line> {
        told(&self.frames(file, address)?)
    }

    /// Functions of libraries that stand there inside of the program's own, the innermost first. None without debug information.
    pub fn of_libraries(&self, file: &Path, address: u64) -> Option<Vec<String>> {
        let frames = self.frames(file, address)?;
        frames.iter().any(|frame| frame.place.is_some()).then(|| {
            let inner = frames.into_iter().rev().take_while(|frame| !frame.is_own());
            inner.map(|frame| frame.function).collect()
        })
    }

    /// The outermost first.
    fn frames(&self, file: &Path, address: u64) -> Option<Vec<Frame>> {
        let source = Source::Elf(Elf::new(file));
        let found = self.0.symbolize_single(&source, Input::VirtOffset(address)).ok()?;
        let Symbolized::Sym(symbol) = found else { return None };
        let outer = Frame { function: demangled(&symbol.name), place: place(symbol.code_info.as_deref()) };
        let inlined = symbol.inlined.iter();
        let inner =
            inlined.map(|one| Frame { function: demangled(&one.name), place: place(one.code_info.as_ref()) });
        Some(std::iter::once(outer).chain(inner).collect())
    }
}

fn place(code: Option<&CodeInfo<'_>>) -> Option<(String, u32)> {
    let code = code?;
    Some((code.to_path().to_string_lossy().into_owned(), code.line?))
}

/// The innermost function of the program's own source, and the one that it was put into. `frames`: the outermost first.
fn told(frames: &[Frame]) -> Option<Line> {
    let own = frames.iter().find(|frame| frame.is_own());
    let outer = own.or(frames.first())?;
    let shown = frames.iter().rev().find(|frame| frame.is_own()).unwrap_or(outer);
    let words = |frame: &Frame| {
        let (path, line) = frame.place.as_ref()?;
        let file = path.rsplit('/').next().unwrap_or_default();
        Some(format!("{} ({file}:{line})", without_parameters(&frame.function)))
    };
    let inner = words(shown)?;
    let words = match words(outer).filter(|_| !std::ptr::eq(shown, outer)) {
        Some(outer) => format!("{inner} inlined in {outer}"),
        None => inner,
    };
    Some(Line { words, is_own: own.is_some() })
}

/// `queue::push` for `queue::push(int) const`.
fn without_parameters(name: &str) -> &str {
    let plain = name.strip_suffix(" const").unwrap_or(name);
    if !plain.ends_with(')') {
        return plain;
    }
    let mut depth = 0;
    let opens = plain.rfind(|one: char| {
        depth += i32::from(one == ')') - i32::from(one == '(');
        depth == 0
    });
    let whole = |at: &usize| *at > 0 && !plain[..*at].ends_with("operator");
    opens.filter(whole).map_or(plain, |at| &plain[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, path: &str, line: u32) -> Frame {
        Frame { function: function.to_owned(), place: Some((path.to_owned(), line)) }
    }

    #[test]
    fn a_function_of_c_is_no_type_of_cpp() {
        let place = tempfile::tempdir().unwrap();
        let (source, program) = (place.path().join("short.c"), place.path().join("short"));
        std::fs::write(&source, "void w(void)\n{\n}\n").unwrap();
        let words = ["-g", "-O0", "-nostdlib", "-static", "-no-pie", "-Wl,-e,w", "-Wl,-Ttext=0x401000", "-o"];
        let built = std::process::Command::new("cc").args(words).arg(&program).arg(&source).status();
        assert!(built.unwrap().success());
        assert_eq!(Lines::default().of(&program, 0x40_1001).unwrap().words, "w (short.c:2)");
    }

    #[test]
    fn the_programs_own_source_is_named_and_not_the_header_of_a_lock() {
        let worker = || frame("worker(int)", "/src/main.cc", 40);
        let push = || frame("queue<int>::push", "/src/queue.h", 12);
        let guard = || frame("std::lock_guard", "/usr/include/c++/12/mutex", 229);
        let of = |frames: &[Frame]| told(frames).unwrap().words;
        assert_eq!(of(&[worker()]), "worker (main.cc:40)");
        assert_eq!(of(&[worker(), guard()]), "worker (main.cc:40)");
        assert_eq!(
            of(&[worker(), push(), guard()]),
            "queue<int>::push (queue.h:12) inlined in worker (main.cc:40)"
        );
        assert_eq!(of(&[guard()]), "std::lock_guard (mutex:229)");
        // What the standard library starts a thread by is nobody's own source.
        let start = frame("_M_run", "/usr/include/c++/12/bits/std_thread.h", 210);
        let lambda = frame("main::{lambda()#1}::operator()() const", "/src/main.cc", 7);
        assert_eq!(of(&[start, lambda]), "main::{lambda()#1}::operator() (main.cc:7)");
        assert_eq!(
            without_parameters("(anonymous namespace)::f(int, void (*)())"),
            "(anonymous namespace)::f"
        );
        assert_eq!(without_parameters("(odd)"), "(odd)");
        assert_eq!(without_parameters("operator()"), "operator()");
        assert_eq!(told(&[Frame { function: "main".into(), place: None }]), None);
    }
}
