//! The truth run: injects interference of known kinds into running chases and judges what the chase named.
//!
//! `truth [--out DIR] [--for SECONDS] [--as-it-is] [CASE…]`, as root, with `quaver` and, for the cases that need it, the
//! preload beside this one (`make truth` builds all three). `--for` is the time of the shortest cases; kinds that inject little
//! take several times as long. `--as-it-is` leaves all other threads of the machine where they are, and takes a greater weight
//! than theirs instead. Ends with 1 if a kind was not named as it must be.
//!
//! `truth matrix` is about receivers of other makers (see `matrix`). Ends with 1 if data are missing.

mod case;
mod estimate;
mod judge;
mod matrix;
mod page;

use anyhow::{Context, bail};
use quaver_testbed::inject::schedule;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the run needs to know.
struct Setup {
    quaver: PathBuf,
    preload: PathBuf,
    out: PathBuf,
    seconds: u32,
    /// Whether the sink's CPU is kept free of other threads.
    quiet: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("truth: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let here = std::env::current_exe()?;
    let folder = here.parent().context("the program lies in a folder")?;
    if !rustix::process::geteuid().is_root() {
        bail!("injecting interference needs root");
    }
    if std::env::args().nth(1).is_some_and(|word| word == "matrix") {
        return matrix::run(existing(folder.join("quaver"))?, std::env::args().skip(2));
    }
    let mut out = PathBuf::from("target/truth");
    let mut seconds = 10;
    let mut quiet = true;
    let mut wanted = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => out = words.next().context("--out needs a directory")?.into(),
            "--for" => seconds = words.next().context("--for needs seconds")?.parse().context("--for")?,
            "--as-it-is" => quiet = false,
            case => wanted.push(case.to_owned()),
        }
    }
    let setup = Setup {
        quaver: existing(folder.join("quaver"))?,
        preload: folder.join("examples/libinject_preload.so"),
        out,
        seconds,
        quiet,
    };
    if !setup.quiet {
        schedule::before_others().context("raising the priority of the truth run")?;
    }
    std::fs::create_dir_all(&setup.out).with_context(|| format!("making {}", setup.out.display()))?;
    let mut verdicts = Vec::new();
    for case in
        case::ALL.iter().filter(|case| wanted.is_empty() || wanted.iter().any(|name| name == case.name))
    {
        eprintln!("truth: {} …", case.name);
        let verdict = case.judge(&setup).with_context(|| format!("case {}", case.name))?;
        eprintln!("truth: {}", verdict.line());
        std::fs::write(setup.out.join(case.name).join("stretches.csv"), page::stretches(&verdict))?;
        verdicts.push(verdict);
    }
    if verdicts.is_empty() {
        bail!("no such case; there are {}", case::ALL.map(|case| case.name).join(", "));
    }
    let text = page::matrix(&verdicts);
    print!("{text}");
    std::fs::write(setup.out.join("confusion.txt"), text)?;
    std::fs::write(setup.out.join("verdicts.json"), serde_json::to_string_pretty(&verdicts)?)?;
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

/// The path, of a file that is there.
fn existing(path: PathBuf) -> anyhow::Result<PathBuf> {
    if Path::exists(&path) {
        Ok(path)
    } else {
        bail!("{} is not there; `make truth` builds it", path.display())
    }
}
