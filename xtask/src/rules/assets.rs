//! Third-party files that are committed: their hashes, and that the registry's copy has the same bytes.

use super::Problem;
use crate::tree::Tree;
use anyhow::{Context, bail};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A package of which we carry files.
struct Carried {
    /// Folder with the files and their `SHA256SUMS`.
    folder: &'static str,
    /// Package and version as npm knows it.
    package: &'static str,
    /// Our file, and where it lies in the package.
    files: &'static [(&'static str, &'static str)],
}

const CARRIED: &[Carried] = &[Carried {
    folder: "core/view/assets/uplot",
    package: "uplot@1.6.32",
    files: &[
        ("uPlot.iife.min.js", "dist/uPlot.iife.min.js"),
        ("uPlot.min.css", "dist/uPlot.min.css"),
        ("LICENSE", "LICENSE"),
    ],
}];

/// Whether each committed file has the hash in `SHA256SUMS`, and no file lacks one.
pub(crate) fn sums(root: &Path, tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for carried in CARRIED {
        let folder = root.join(carried.folder);
        let Some(listed) = tree.text(&format!("{}/SHA256SUMS", carried.folder)) else {
            problems.push(Problem::new(carried.folder, "has no SHA256SUMS"));
            continue;
        };
        for (name, _) in carried.files {
            let sum = sha256(&folder.join(name))?;
            if !has_sum(listed, name, &sum) {
                let place = format!("{}/{name}", carried.folder);
                problems
                    .push(Problem::new(place, format!("has SHA-256 {sum}, which SHA256SUMS does not say")));
            }
        }
    }
    Ok(problems)
}

/// Whether a list as `sha256sum` writes it gives the file this hash.
fn has_sum(listed: &str, name: &str, sum: &str) -> bool {
    listed.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(sum) && words.next().is_some_and(|file| file.trim_start_matches('*') == name)
    })
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let printed = run(Command::new("sha256sum").arg("--").arg(path))?;
    let sum = printed.split_whitespace().next().context("sha256sum printed nothing")?;
    Ok(sum.to_owned())
}

/// Whether the registry's copy has the same bytes. Skipped, visibly, where npm or the registry is missing:
/// the hashes above still hold.
pub(crate) fn registry(root: &Path, tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for carried in CARRIED {
        let scratch = std::env::temp_dir().join(format!("quaver-registry-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
        let compared = compare(root, tree, carried, &scratch);
        std::fs::remove_dir_all(&scratch).with_context(|| format!("removing {}", scratch.display()))?;
        problems.extend(compared?);
    }
    Ok(problems)
}

fn compare(root: &Path, tree: &Tree, carried: &Carried, scratch: &Path) -> anyhow::Result<Vec<Problem>> {
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", carried.package]).current_dir(scratch);
    let archive = match run(&mut pack) {
        Ok(printed) => printed.lines().last().unwrap_or_default().trim().to_owned(),
        Err(error) => {
            let line = format!("bytes of {}: needs npm and its registry", carried.package);
            println!("SKIPPED: {line} ({error:#})");
            if let Some(path) = std::env::var_os("QUAVER_SKIPPED") {
                let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
                writeln!(file, "{line}")?;
            }
            return Ok(Vec::new());
        }
    };
    run(Command::new("tar").args(["-xzf", &archive]).current_dir(scratch))?;
    let mut problems = Vec::new();
    for (ours, theirs) in carried.files {
        let place = format!("{}/{ours}", carried.folder);
        let their_bytes = std::fs::read(scratch.join("package").join(theirs))
            .with_context(|| format!("{} holds no {theirs}", carried.package))?;
        let our_bytes = std::fs::read(root.join(&place)).with_context(|| format!("reading {place}"))?;
        if our_bytes != their_bytes || tree.text(&place).is_none() {
            problems.push(Problem::new(place, format!("differs from {theirs} of {}", carried.package)));
        }
    }
    Ok(problems)
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("running {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hashes() {
        let listed = "aa  uPlot.js\nbb *uPlot.css\n";
        assert!(has_sum(listed, "uPlot.js", "aa") && has_sum(listed, "uPlot.css", "bb"));
        assert!(!has_sum(listed, "uPlot.js", "bb") && !has_sum(listed, "LICENSE", "aa"));
    }

    #[test]
    fn the_hash_of_a_known_text() {
        // FIPS 180-4 example: SHA-256 of "abc".
        let path = std::env::temp_dir().join(format!("quaver-sha-{}", std::process::id()));
        std::fs::write(&path, "abc").expect("write");
        let sum = sha256(&path);
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(
            sum.expect("sha256sum runs"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
