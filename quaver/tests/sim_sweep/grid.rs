//! A whole sweep: its table, page and report.

use super::*;
use quaver_sim_program::sweep::points::{SweepColumn, SweepValues, read_sweep};

fn column<'a>(columns: &'a [SweepColumn], name: &str) -> &'a SweepValues {
    &columns.iter().find(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}")).values
}

#[test]
fn a_grid_becomes_one_table_a_page_and_a_report() {
    let place = grid();
    let output = sweep(place.path(), &["run", "grid.toml", "-q"]);
    let page = expect(&output, 0);
    for said in [
        "quaver sim sweep · runs/sweep-grid",
        "20 points: 2 traces, 2 axes",
        "slow-down",
        "plain",
        "cured",
        "Report  runs/sweep-grid/report.html",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let kept = place.path().join("runs/sweep-grid");
    let columns = read_sweep(&kept.join("points.parquet")).unwrap();
    assert!(columns.iter().all(|column| column.values.rows() == POINTS));
    let SweepValues::I64(sizes) = column(&columns, "machine.l2.kib") else {
        panic!("sizes are whole numbers")
    };
    assert_eq!((sizes[0], sizes[5]), (Some(128), Some(256)));
    let SweepValues::U64(seeds) = column(&columns, "seed") else { panic!("seeds are whole numbers") };
    assert_eq!(&seeds[..5], [None, Some(4), Some(2), Some(4), Some(2)]);
    let SweepValues::Text(traces) = column(&columns, "trace") else { panic!("traces are names") };
    assert_eq!((traces[0].as_deref(), traces[POINTS - 1].as_deref()), (Some("baton"), Some("once")));
    let SweepValues::U64(injected) = column(&columns, "injected") else { panic!("counts") };
    assert!(injected[0].is_none() && injected[1] > Some(0), "{injected:?}");
    let SweepValues::F64(slower) = column(&columns, "slow_down") else { panic!("ratios") };
    assert!(slower[0].is_none() && slower[1] > Some(0.0), "{slower:?}");
    let SweepValues::F64(factors) = column(&columns, "mean_factor") else { panic!("ratios") };
    assert!(factors[1] == Some(1.0) && factors[3] > Some(1.0), "the controller runs faster: {factors:?}");
    let SweepValues::F64(rest) = column(&columns, "residency_1.0000") else { panic!("ratios") };
    assert_eq!((rest[0], rest[1]), (None, Some(1.0)));
    let SweepValues::U64(instructions) = column(&columns, "instructions") else { panic!("counts") };
    assert_eq!(instructions[0], Some(sim_made::BATON_INSTRUCTIONS));
    let html = fs::read_to_string(kept.join("report.html")).unwrap();
    assert_eq!(html.matches("<figure id=\"duration-fs-").count(), 2, "a map a trace");
    let maps = html.split("<script").next().unwrap_or_default();
    assert!(maps.contains("<title>machine.l2.kib 128, scheme cured: ") && !maps.contains("NaN"), "{maps}");
    // The same again: nothing is left to do, and the results are the same bytes.
    let before = fs::read(kept.join("points.parquet")).unwrap();
    let again = sweep(place.path(), &["run", "runs/sweep-grid", "--json"]);
    expect(&again, 0);
    assert_eq!(fs::read(kept.join("points.parquet")).unwrap(), before);
    assert!(logged(&kept).values().all(|lines| *lines == ["begins", "ends"]), "{:?}", logged(&kept));
    let document: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["points"].as_array().unwrap().len()),
        (Some("quaver.sim.sweep/1"), POINTS)
    );
    for (args, said) in
        [(["report", "runs/sweep-grid"], "written: "), (["analyze", "runs/sweep-grid"], "20 points")]
    {
        let said_again = expect(&quaver(place.path(), &args).output().unwrap(), 0);
        assert!(said_again.contains(said), "{said_again}");
    }
}

#[test]
fn a_point_is_what_sim_run_says() {
    let place = grid();
    expect(&sweep(place.path(), &["run", "grid.toml", "-q"]), 0);
    let summary = json(&place.path().join("runs/sweep-grid/summary.json"));
    let point = &summary["points"][5]["figures"];
    let args = [
        "sim",
        "run",
        "baton.qtrace",
        "--config",
        "machine.toml",
        "--set",
        "l2.kib=256",
        "--json",
        "-q",
        "-o",
        "alone",
    ];
    let output = quaver(place.path(), &args).output().unwrap();
    expect(&output, 0);
    let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["duration_fs", "instructions", "cycles", "cpi"] {
        assert_eq!(point[name], alone["chip"][name], "{name}");
    }
    assert_eq!(point["l2_missed"], alone["levels"][3]["misses"]);
    assert_eq!(point["memory_reads"], alone["traffic"]["memory_reads"]);
    let stack: f64 = point
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| name.starts_with("cpi_"))
        .map(|(_, part)| part.as_f64().unwrap())
        .sum();
    assert!((stack / point["cpi"].as_f64().unwrap() - 1.0).abs() < 1e-9, "the stack is the whole");
}
