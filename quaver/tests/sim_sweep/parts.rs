//! Parts of a sweep, and how they are brought together.

use super::*;

#[test]
fn parts_in_one_directory_or_in_several_make_what_one_process_makes() {
    let place = grid();
    expect(&sweep(place.path(), &["run", "grid.toml", "-q", "-o", "one", "-j", "1"]), 0);
    let mut merge = vec!["merge".to_owned()];
    for part in 1..=4 {
        let shard = format!("{part}/4");
        expect(&sweep(place.path(), &["run", "grid.toml", "-q", "-o", "shared", "--shard", &shard]), 0);
        let parent = format!("part{part}");
        let said = expect(
            &sweep(place.path(), &["run", "grid.toml", "-o", &parent, "--shard", &shard, "-j", "3"]),
            0,
        );
        assert!(said.contains(&format!("part {shard}: ")) && said.contains("sweep merge part"), "{said}");
        assert!(!place.path().join(&parent).join("sweep-grid/points.parquet").exists());
        merge.push(format!("{parent}/sweep-grid"));
    }
    expect(&sweep(place.path(), &["merge", "shared/sweep-grid"]), 0);
    same_results(&place.path().join("one/sweep-grid"), &place.path().join("shared/sweep-grid"));
    merge.extend(["-o".to_owned(), "all".to_owned(), "--json".to_owned()]);
    let args: Vec<&str> = merge.iter().map(String::as_str).collect();
    expect(&sweep(place.path(), &args), 0);
    same_results(&place.path().join("one/sweep-grid"), &place.path().join("all/sweep-grid"));
    expect(&quaver(place.path(), &["report", "all/sweep-grid"]).output().unwrap(), 0);
    // Once more, over what was made before.
    expect(&sweep(place.path(), &args), 0);
}

#[test]
fn the_part_of_an_array_task_is_read_from_the_environment() {
    let place = grid();
    let run = |parent: &str, shard: &str, variables: &[(&str, &str)]| {
        let args = ["sim", "sweep", "run", "grid.toml", "-q", "-o", parent, "--shard", shard];
        quaver(place.path(), &args).envs(variables.iter().copied()).output().unwrap()
    };
    let points = |parent: &str| names(&place.path().join(parent).join("sweep-grid/points"));
    expect(&run("told", "2/3", &[]), 0);
    expect(&run("kubernetes", "auto", &[("JOB_COMPLETION_INDEX", "1"), ("JOB_COMPLETIONS", "3")]), 0);
    expect(&run("counted", "auto/3", &[("JOB_COMPLETION_INDEX", "1")]), 0);
    let array =
        [("SLURM_ARRAY_TASK_ID", "11"), ("SLURM_ARRAY_TASK_MIN", "10"), ("SLURM_ARRAY_TASK_COUNT", "3")];
    expect(&run("slurm", "auto", &array), 0);
    assert!((2..POINTS / 2).contains(&points("told").len()));
    for parent in ["kubernetes", "counted", "slurm"] {
        assert_eq!(points(parent), points("told"), "{parent}");
    }
    let said = expect(&run("none", "auto", &[]), 2);
    assert!(said.contains("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX"), "{said}");
    let said = expect(&run("none", "auto", &[("JOB_COMPLETION_INDEX", "1")]), 2);
    assert!(said.contains("set JOB_COMPLETIONS"), "{said}");
    assert!(expect(&run("none", "4/3", &[]), 2).contains("is no part"));
    assert!(!place.path().join("none").exists(), "nothing is begun");
}

#[test]
fn merging_refuses_what_is_missing_foreign_or_doubled() {
    let place = slow(6, 100);
    let at = |name: &str| place.path().join(name);
    for (parent, shard) in [("a", "1/3"), ("b", "2/3"), ("c", "3/3"), ("twice", "2/3")] {
        expect(&sweep(place.path(), &["run", "slow.toml", "-q", "-o", parent, "--shard", shard]), 0);
    }
    let refused = |args: &[&str], said: &str| {
        let args: Vec<&str> = ["merge"].iter().chain(args).copied().collect();
        let heard = expect(&sweep(place.path(), &args), 5);
        assert!(heard.contains(said), "{said}: {heard}");
    };
    let [a, b, c] = ["a/sweep-slow", "b/sweep-slow", "c/sweep-slow"];
    refused(
        &[a, b, "-o", "m"],
        "2 of 6 points of slow are missing: spin, machine.chip.remote_cycles = 5; spin, ",
    );
    refused(&[a, b, c, "twice/sweep-slow", "-o", "m"], "parts must not overlap");
    refused(&["nowhere", "-o", "m"], "there is no sweep.json in it");
    assert!(expect(&sweep(place.path(), &["merge", a, b]), 2).contains("say by --output"));
    assert!(expect(&sweep(place.path(), &["merge", a, a, "-o", "m"]), 2).contains("is named twice"));
    assert!(!at("m").exists());
    let partial = expect(&sweep(place.path(), &["merge", a, c, "-o", "p", "--partial"]), 0);
    assert!(partial.contains("2 of 6 points are missing"), "{partial}");
    let summary = json(&at("p/sweep-slow/summary.json"));
    assert_eq!((summary["complete"].as_bool(), summary["missing"].as_u64()), (Some(false), Some(2)));
    let foreign = at(a).join("points/0123456789abcdef.json");
    let own = names(&at(a).join("points")).first().unwrap().clone();
    let own = at(a).join(format!("points/{own}.json"));
    fs::copy(&own, &foreign).unwrap();
    refused(&[a, b, c, "-o", "m"], "point 0123456789abcdef is none of the sweep slow's");
    fs::remove_file(&foreign).unwrap();
    let good = fs::read_to_string(&own).unwrap();
    for (wrong, said) in [
        (good.replace("\"version\": \"", "\"version\": \"9."), "was simulated by version"),
        (good.replace("\"cpi\"", "\"cpu\""), "is no figure of it"),
        (good.replace("\"cycles\": ", "\"cycles\": -"), "is no figure of it"),
        (good[..good.len() / 2].to_owned(), "this is no point of a sweep"),
        (good.replace("point/1", "point/7"), "it is of quaver.sim.sweep.point/7"),
    ] {
        assert_ne!(wrong, good);
        fs::write(&own, wrong).unwrap();
        refused(&[a, b, c, "-o", "m"], said);
    }
    fs::write(&own, good).unwrap();
    let plan = fs::read_to_string(at("slow.toml")).unwrap();
    fs::write(at("slow.toml"), plan.replace("from = 1", "from = 2")).unwrap();
    expect(&sweep(place.path(), &["run", "slow.toml", "-q", "-o", "other"]), 0);
    refused(&[a, b, c, "other/sweep-slow", "-o", "m"], "is of another plan than a/sweep-slow");
    assert!(
        expect(&sweep(place.path(), &["merge", a, b, c, "-o", "other"]), 6)
            .contains("holds points of its own")
    );
    expect(&sweep(place.path(), &["merge", a, b, c, "-o", "m"]), 0);
}
