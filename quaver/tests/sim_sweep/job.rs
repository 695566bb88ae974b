//! The array job of Slurm, without Slurm.

use super::*;

#[test]
fn a_job_is_written_measured_and_handed_to_slurm() {
    let place = slow(6, 2_000);
    let with_path = |path: &Path, args: &[&str]| {
        let args: Vec<&str> = ["sim", "sweep", "submit", "slow.toml"].iter().chain(args).copied().collect();
        quaver(place.path(), &args).env("PATH", path).output().unwrap()
    };
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(expect(&with_path(&empty, &[]), 3).contains("there is no sbatch here"));
    let dry = with_path(&empty, &["--dry-run", "--chunk", "1ms", "--cpus", "2", "--", "--partition=short"]);
    expect(&dry, 0);
    let script = text(&dry.stdout);
    let here = place.path().join("runs/sweep-slow");
    for line in [
        "#!/bin/bash",
        "#SBATCH --requeue --open-mode=append",
        "#SBATCH --partition=short",
        "#SBATCH --ntasks=1 --cpus-per-task=2",
    ] {
        assert!(script.lines().any(|found| found == line), "{line}: {script}");
    }
    assert!(script.contains(&format!("sim sweep run {} --shard auto/", here.display())), "{script}");
    assert!(!here.exists(), "a dry run leaves nothing");
    // One that answers as sbatch does, and one that refuses.
    let fake = |name: &str, body: &str| {
        let directory = place.path().join(name);
        fs::create_dir(&directory).unwrap();
        let file = directory.join("sbatch");
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n{body}\n");
        quaver_testbed::stand_in::stand_in(&file, &script);
        directory
    };
    let refuses = fake("refuses", "echo 'sbatch: error: invalid partition' >&2; exit 1");
    let said = expect(&with_path(&refuses, &[]), 4);
    assert!(said.contains("sbatch refused ") && said.contains("invalid partition"), "{said}");
    assert_eq!(names(&here.join("points")).len(), 1, "the point that was measured counts");
    let takes = fake("takes", "echo '1234;cluster'");
    let said = expect(&with_path(&takes, &["--tasks", "3"]), 0);
    assert!(said.contains("job 1234 of Slurm: 3 tasks") && said.contains("sweep merge"), "{said}");
    let kept = fs::read_to_string(here.join("slurm/job.sh")).unwrap();
    assert!(kept.contains("--array=1-3\n") && kept.contains("--shard auto/3 --jobs 1\n"), "{kept}");
    // What is done is not asked for again.
    expect(&sweep(place.path(), &["run", "runs/sweep-slow", "-q", "--shard", "2/3"]), 0);
    expect(&with_path(&takes, &["--tasks", "3"]), 0);
    assert!(fs::read_to_string(here.join("slurm/job.sh")).unwrap().contains("--array=1,3\n"));
    let status =
        quaver(place.path(), &["sim", "sweep", "status", "slow.toml"]).env("PATH", &empty).output().unwrap();
    assert!(expect(&status, 0).contains("job 1234 of Slurm, 2 tasks: squeue cannot be asked here"));
    expect(&sweep(place.path(), &["run", "slow.toml", "-q"]), 0);
    assert!(expect(&with_path(&takes, &["--tasks", "3"]), 0).contains("all 6 points are done"));
}
