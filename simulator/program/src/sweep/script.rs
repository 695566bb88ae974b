//! The script of an array job of Slurm.

use std::fmt::Write as _;
use std::path::Path;

/// What the script is made of.
pub(super) struct Script<'a> {
    /// Name of the job.
    pub(super) name: &'a str,
    /// This program.
    pub(super) program: &'a Path,
    /// Directory of the sweep, as all nodes see it.
    pub(super) directory: &'a Path,
    /// Parts of the sweep.
    pub(super) parts: u32,
    /// Those of them with something to do, from 1, rising.
    pub(super) tasks: &'a [u32],
    /// CPUs of each task.
    pub(super) cpus: u32,
    /// Options of the user for sbatch.
    pub(super) options: &'a [String],
}

impl Script<'_> {
    /// The script. A sentence where a path cannot stand in one.
    pub(super) fn text(&self) -> Result<String, String> {
        let path = |path: &Path| match path.to_str() {
            Some(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
            _ => Err(format!("{}: this path cannot stand in a script", path.display())),
        };
        let (program, directory) = (path(self.program)?, path(self.directory)?);
        let log = format!("{}/slurm/%A_%a.log", directory.replace('%', "%%"));
        let mut out = String::from("#!/bin/bash\n");
        let _ = writeln!(out, "#SBATCH --job-name=sweep-{}", self.name);
        let _ = writeln!(out, "#SBATCH --array={}", ranges(self.tasks));
        let _ = writeln!(out, "#SBATCH --ntasks=1 --cpus-per-task={}", self.cpus);
        let _ = writeln!(out, "#SBATCH --requeue --open-mode=append");
        let _ = writeln!(out, "#SBATCH --output={}", option(&log));
        for line in lines(self.options)? {
            let _ = writeln!(out, "#SBATCH {line}");
        }
        out.push_str(
            "# Points that are done are skipped, so a task that is requeued goes on where it was.\n",
        );
        let _ = writeln!(
            out,
            "exec {} sweep run {} --shard auto/{} --jobs {}",
            word(&program),
            word(&directory),
            self.parts,
            self.cpus
        );
        Ok(out)
    }
}

/// `1-4,7` of 1, 2, 3, 4 and 7.
fn ranges(tasks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &task in tasks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == task => *last = task,
            _ => runs.push((task, task)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// A word of the shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A value of an option that sbatch reads.
fn option(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:,@%".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Options a line each; a word that is no option belongs to the one before.
fn lines(options: &[String]) -> Result<Vec<String>, String> {
    let mut lines: Vec<String> = Vec::new();
    for text in options {
        if text.contains(char::is_control) {
            return Err(format!("{text:?} is no option for sbatch"));
        }
        match lines.last_mut() {
            _ if text.starts_with('-') => lines.push(text.clone()),
            Some(line) => {
                line.push(' ');
                line.push_str(&option(text));
            }
            None => {
                return Err(format!(
                    "`{text}` is no option for sbatch: after -- write for example --partition=short"
                ));
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &str, options: &[&str]) -> Result<String, String> {
        let options: Vec<String> = options.iter().map(|text| (*text).to_owned()).collect();
        let script = Script {
            name: "l2",
            program: Path::new("/opt/quaver-sim"),
            directory: Path::new(directory),
            parts: 8,
            tasks: &[1, 2, 3, 5, 8],
            cpus: 2,
            options: &options,
        };
        script.text()
    }

    #[test]
    fn the_script_is_requeued_and_says_which_part_each_task_does() {
        let wanted = "#!/bin/bash\n\
            #SBATCH --job-name=sweep-l2\n\
            #SBATCH --array=1-3,5,8\n\
            #SBATCH --ntasks=1 --cpus-per-task=2\n\
            #SBATCH --requeue --open-mode=append\n\
            #SBATCH --output=/s/sweep-l2/slurm/%A_%a.log\n\
            #SBATCH --partition=short\n\
            #SBATCH -t 10\n\
            # Points that are done are skipped, so a task that is requeued goes on where it was.\n\
            exec /opt/quaver-sim sweep run /s/sweep-l2 --shard auto/8 --jobs 2\n";
        assert_eq!(script("/s/sweep-l2", &["--partition=short", "-t", "10"]).as_deref(), Ok(wanted));
    }

    #[test]
    fn odd_paths_are_quoted_and_impossible_ones_refused() {
        let said = script("/a b/it's 5%", &[]).unwrap();
        assert!(said.contains("--output=\"/a b/it's 5%%/slurm/%A_%a.log\"\n"), "{said}");
        assert!(said.contains("run '/a b/it'\\''s 5%' --shard"), "{said}");
        assert!(script("/a\nb", &[]).unwrap_err().contains("cannot stand in a script"));
        assert!(script("/a", &["short"]).unwrap_err().contains("write for example --partition"));
        assert!(script("/a", &["--x=\n#SBATCH"]).unwrap_err().contains("is no option"));
        assert_eq!(ranges(&[]), "");
    }
}
