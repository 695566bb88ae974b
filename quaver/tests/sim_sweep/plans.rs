//! Plans: what is refused, what is expanded, what becomes of points when a plan is changed.

use super::*;

#[test]
fn a_plan_that_is_extended_keeps_its_points_and_what_it_no_longer_has_is_put_aside() {
    let place = slow(3, 100);
    let directory = place.path().join("runs/sweep-slow");
    let write = |to: usize| {
        let plan = fs::read_to_string(place.path().join("slow.toml")).unwrap();
        let from = plan.find("to = ").unwrap();
        let end = from + plan[from..].find('\n').unwrap();
        fs::write(place.path().join("slow.toml"), format!("{}to = {to}{}", &plan[..from], &plan[end..]))
            .unwrap();
    };
    expect(&sweep(place.path(), &["run", "slow.toml", "-q"]), 0);
    let three = names(&directory.join("points"));
    write(5);
    let said = expect(&sweep(place.path(), &["run", "slow.toml"]), 0);
    assert!(
        said.contains("the plan was changed") && said.contains("3 of 5 points were done before"),
        "{said}"
    );
    let five = names(&directory.join("points"));
    assert!(five.len() == 5 && five.is_superset(&three));
    write(2);
    let said = expect(&sweep(place.path(), &["run", "slow.toml"]), 0);
    assert!(said.contains("3 points of it as it was are put aside"), "{said}");
    assert_eq!((names(&directory.join("points")).len(), names(&directory.join("earlier")).len()), (2, 3));
    write(5);
    expect(&sweep(place.path(), &["run", "slow.toml", "-q"]), 0);
    assert!(logged(&directory).values().all(|lines| *lines == ["begins", "ends"]), "each was done once");
    assert_eq!(json(&directory.join("summary.json"))["points"].as_array().unwrap().len(), 5);
}

#[test]
fn what_is_wrong_with_a_plan_is_said_in_a_sentence() {
    let place = grid();
    let refused = |plan: &str, said: &str| {
        fs::write(place.path().join("wrong.toml"), plan).unwrap();
        let heard = expect(&sweep(place.path(), &["expand", "wrong.toml"]), 5);
        assert!(heard.contains(said), "{said}: {heard}");
        assert!(!heard.contains("bug"), "{heard}");
    };
    refused("", "missing field `sweep`");
    refused("[sweep]\n", "missing field `traces`");
    refused("[sweep]\ntraces = []", "wrong.toml: traces: name at least one");
    refused("[sweep]\ntraces = ['nowhere.qtrace']", "open the trace nowhere.qtrace: No such file");
    refused("[sweep]\ntraces = ['grid.toml']", "grid.toml: this is no trace");
    refused("[sweep]\ntraces = ['baton.qtrace', 'baton.qtrace']", "traces: two are called baton");
    refused(
        "[sweep]\ntraces = ['baton.qtrace', {name='b', path='baton.qtrace'}]",
        "b and baton are the same, byte by byte",
    );
    refused("[sweep]\ntraces = ['baton.qtrace']\nseed = 3", "unknown field `seed`");
    refused("[sweep]\ntraces = ['baton.qtrace']\nseeds = 0", "seeds: give a number of them");
    refused("[sweep]\ntraces = ['baton.qtrace']\nname = 'a/b'", "becomes that of a directory");
    refused("[sweep]\ntraces = ['baton.qtrace']\nmachine = 'nowhere.toml'", "nowhere.toml: No such file");
    refused("[sweep]\ntraces = ['baton.qtrace']\nideal = 'best'", "unknown variant `best`");
    refused(
        "[sweep]\ntraces = ['baton.qtrace']\n[machine]\nl2.kib = 100",
        "l2.kib = 100: ways times line_octets",
    );
    refused("[sweep]\ntraces = ['baton.qtrace']\n[cure]\nlibrary = 'nowhere'", "nowhere: No such file");
    let axis = |axis: &str| format!("[sweep]\ntraces = ['baton.qtrace']\n{axis}");
    refused(
        &axis("[[axis]]\nkey = 'l2.kib'\nvalues = [128]"),
        "wrong.toml: axis l2.kib: l2.kib is no key: write machine.l2.kib",
    );
    refused(
        &axis("[[axis]]\nkey = 'machine.l2.kib'\nvalues = [128, 100]"),
        "sweep wrong with machine.l2.kib = 100: ",
    );
    refused(
        &axis("[[axis]]\nkey = 'machine.l2.kib'\nname = 'cpi'\nvalues = [128]"),
        "a column of the results has that name",
    );
    let both = "[[axis]]\nkey = 'machine.l2.kib'\nvalues = [128]\n[[axis]]\nname = 'x'\nkey = 'machine.l2.kib'\nvalues = [256]";
    refused(&axis(both), "axes machine.l2.kib and x both set machine.l2.kib");
    refused(
        &axis(
            "[[axis]]\nname='x'\n[[axis.point]]\nname='a'\n[[axis.point]]\nname='b'\nset={machine.l2.kib=256}",
        ),
        "one of the axes changes nothing there",
    );
    let heard = expect(&sweep(place.path(), &["expand", "nowhere.toml"]), 5);
    assert!(heard.contains("nowhere.toml: read the plan: No such file"), "{heard}");
}

#[test]
fn a_plan_is_expanded_before_anything_is_simulated() {
    let place = grid();
    let page = expect(&sweep(place.path(), &["expand", "grid.toml"]), 0);
    assert!(
        page.contains("grid\n  points    20 points: 2 traces × 2 of machine.l2.kib × 3 of scheme × 2 seeds"),
        "{page}"
    );
    let output = sweep(place.path(), &["expand", "grid.toml", "--json"]);
    expect(&output, 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), POINTS);
    assert_eq!(
        (&points[1]["values"]["scheme"], &points[1]["seed"]),
        (&Value::from("injected"), &Value::from(4))
    );
    let ids: BTreeSet<&str> = points.iter().map(|point| point["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), POINTS);
    assert!(!place.path().join("runs").exists(), "nothing is written");
    assert!(
        expect(&sweep(place.path(), &["status", "grid.toml"]), 5)
            .contains("nothing of this sweep was done yet")
    );
}
