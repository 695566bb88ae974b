//! What the page's first lines say.

use super::*;

#[test]
fn few_packets_have_the_largest_of_them_in_the_verdict() {
    for (sent, words) in [(20, "PDV max 5."), (200, "PDV p99 5.")] {
        let page = html(&both(sent));
        assert!(page.contains(words) && !page.contains("PDV p99 -"), "{sent}");
    }
}

#[test]
fn a_call_says_how_far_the_clocks_leave_its_rating_open() {
    let mut found = both(200);
    assert!(!html(&found).contains("clocks&#x27; bound") && !html(&found).contains("within the clocks"));
    let up = found.summary.up.as_mut().unwrap();
    up.figures.advice.voice[0].mos_interval = [3.1, 3.4];
    let page = html(&found);
    assert!(page.contains("3.10 to 3.40 within the clocks"), "the tile");
    assert!(plain(&found.document()).contains("3.10 to 3.40"), "the table");
}

#[test]
fn losses_of_an_unknown_way_are_no_ways() {
    // A reflector: of 200 packets 196 arrive there, and as many replies here.
    let said = |way_unknown: u64| {
        let flows = vec![flow_facts(Direction::Up, 200), flow_facts(Direction::Down, 200)];
        let of_reflector =
            PathFacts { protocol: "stamp".into(), way_unknown, answered: Some(196), ..facts(flows) };
        html(&digest(&of_reflector, &[packets(200), packets(200)], run()))
    };
    let all = said(4);
    assert!(
        all.contains("No reply to 4 packets (2.0 %); whether they were lost there or back is not known."),
        "{all}"
    );
    assert!(all.contains("Up: no known loss; PDV") && all.contains("Down: no known loss; PDV"), "{all}");
    let some = said(1);
    assert!(some.contains("of 1 it is not known whether they were lost there or back."));
    assert!(some.contains("Up: loss 1.5 %; PDV") && some.contains("Down: loss 2.0 %; PDV"));
    assert!(some.contains("Of 1 the way is not known, and they count as lost up."));
    assert!(said(0).contains("Up: loss 2.0 %; PDV") && !said(0).contains("not known whether"));
}

#[test]
fn packets_of_which_no_word_came_back_are_neither_lost_nor_arrived() {
    let mut flows = vec![flow_facts(Direction::Up, 200), flow_facts(Direction::Down, 200)];
    for flow in &mut flows {
        flow.cut_short = Some("192.0.2.2:2666 sent nothing for too long".into());
    }
    flows[0].received_stamped_by = "not known".into();
    let found = digest(&facts(flows.clone()), &[Vec::new(), packets(200)], run());
    assert!(found.summary.up.is_none() && found.summary.down.is_some() && !found.summary.complete);
    assert!(html(&found).contains("Up: the receiver did not say what arrived. Down: loss 2.0 %"));
    assert!(found.summary.warnings.iter().any(|said| said == "up: 192.0.2.2:2666 sent nothing for too long"));
    flows[0].received_stamped_by = "kernel".into();
    let told = html(&digest(&facts(flows), &[Vec::new(), packets(200)], run()));
    assert!(told.contains("Up: no packet arrived. Down: loss 2.0 %"), "a receiver that says so is believed");
}
