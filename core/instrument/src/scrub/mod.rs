//! `quaver scrub`: a copy of a run for people who may not know what else it holds.

mod copy;
mod fields;
mod pseudonyms;

use crate::exit_code::ExitCode;
use crate::interrupt::Interrupt;
use crate::registry::RunKind;
use crate::results;
use crate::rights;
use crate::stage::Stage;
use anyhow::Context;
use clap::Args;
use copy::Copied;
use quaver_store::run::RunDir;
use quaver_view::{Document, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// `quaver scrub`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver scrub last
  quaver scrub runs/chase-20261120T165800Z-7f3a --output /tmp/for-the-vendor
  quaver scrub last --json | jq .left_out

The copy is a run: report, analyze, compare, export and query take it. RUN itself is not changed.

Replaced: names of hosts, people, programs, threads, files and interfaces; functions of programs, and kernel functions that
not every kernel has; words of command lines; addresses. One name is one pseudonym in all files of the copy (name-7), an IP
address is one from 198.18.0.0/15 or 2001:db8::/32. Pseudonyms are counted; nothing can be computed back from them.

Kept: every number that was measured, when that was, numbers of threads and ports, processor, kernel version, and the names
of the kernel's own threads.

Left out: what cannot be scrubbed, such as raw records, memory maps, tags, exports, and files that Quaver did not
write. docs/formats.md lists what a run holds. Look at the copy before you send it.")]
pub(crate) struct ScrubArgs {
    /// Run directory
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The copy, a directory that does not exist [default: RUN-scrubbed, beside RUN]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print as JSON what was replaced and what was left out
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes the copy. `interface` is the text of `docs/interface.txt`.
pub(crate) fn run(
    args: &ScrubArgs,
    interface: &'static str,
    kind_of: impl Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<ExitCode> {
    let run = quaver_store::listing::open(&args.run)?;
    run.read_manifest()?;
    let real = run.path().canonicalize().with_context(|| format!("reading {}", run.path().display()))?;
    let run = RunDir::open(&real)?;
    let target =
        args.output.clone().unwrap_or_else(|| real.with_file_name(format!("{}-scrubbed", run.name())));
    // Where it cannot be made, the copy says so.
    let _ = std::fs::create_dir_all(rights::place_of(&target));
    rights::keep(&[&real], &[rights::place_of(&target)]);
    let interrupt = Interrupt::catch()?;
    let stage = Stage::beside(&target, &real)?;
    let copied = copy::run(&run, stage.copy(), interface, &interrupt, &kind_of)?;
    stage.put(&target)?;
    let found = summary(&run, &target, &copied);
    results::print(&results::Found::of_run(&found, &run), || page(&target, &copied), args.json, &[])
}

fn summary(run: &RunDir, target: &Path, copied: &Copied) -> Value {
    json!({
        "schema": "quaver.scrub/1",
        "run": run.path().display().to_string(),
        "copy": target.display().to_string(),
        "files": copied.files,
        "replaced": copied.replaced,
        "left_out": copy::as_json(&copied.left_out),
    })
}

fn page(target: &Path, copied: &Copied) -> Document {
    let mut document = Document::new("quaver scrub", target.display().to_string());
    let count = |what: &str| copied.replaced.get(what).copied().unwrap_or_default().to_string();
    document.verdict = Some(text!(
        "The copy has {} files. {} names and {} addresses were replaced.",
        copied.files.len().to_string(),
        count("names"),
        count("addresses")
    ));
    for (at, left) in copied.left_out.iter().enumerate() {
        document.fact(if at == 0 { "left out" } else { "" }, format!("{}: {}", left.file, left.why));
    }
    document
}
