//! An incident of a path: a run of packets to a reflector, and the way on which they were lost or held up.

use super::{Findings, Nothing};
use crate::frozen::PathWindow;
use crate::judge::{Reason, Trigger};
use quaver_path::probe::keep_stretch;
use quaver_path_record::stamp::{StampOutcome, StampPacket};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use serde_json::{Map, Value, json};
use std::path::Path;

const THERE: &str = "way-there";
const BACK: &str = "way-back";
const UNKNOWN: &str = "way-unknown";
/// Delays of both ways may come to so much more than that of the round trip before they do not belong to one clock: clocks
/// differ in rate, and the shortest delays of both ways need not be one packet's.
const APART_NS: i64 = 200_000;

/// Writes and analyses it.
pub(super) fn write(frozen: PathWindow, staging: &Path) -> anyhow::Result<(RunDir, Findings)> {
    let PathWindow { name, triggers, clocks, outcome, options } = frozen;
    let has_losses = triggers.iter().any(|trigger| trigger.reason == Reason::Losses);
    let leads = if has_losses { of_losses(&outcome) } else { of_delay(&outcome.packets) };
    let asked = json!({
        "command": quaver_instrument::recording::command_line(),
        "path": name,
        "trigger": Trigger::words(&triggers),
        "trigger_realtime_ns": triggers.first().map(|trigger| clocks.realtime_of(trigger.at_ns as i64)),
    });
    let asked = if let Value::Object(asked) = asked { asked } else { Map::new() };
    let run = keep_stretch(staging, &outcome, &options, asked)?;
    let found = Findings {
        borne_out: leads.is_some(),
        leads,
        causes: Vec::new(),
        unexplained_ns: 0,
        whole: "delay",
        nothing: Nothing::of("none", "no packet was lost or held up"),
    };
    Ok((run, found))
}

/// The way of most losses; none where nothing was lost.
fn of_losses(outcome: &StampOutcome) -> Option<Nothing> {
    let lost = outcome.lost();
    let packets = Cell::several(lost, "packet");
    let directions = &outcome.directions;
    let Some((there, back)) = directions.forward_lost.zip(directions.backward_lost).filter(|_| lost > 0)
    else {
        let words = format!(
            "{packets} without a reply, and the reflector's numbers do not tell which way was theirs"
        );
        return (lost > 0).then(|| Nothing::of(UNKNOWN, words));
    };
    let ways = [
        (there, THERE, "on the way there"),
        (back, BACK, "on the way back"),
        (directions.undecided, UNKNOWN, "on a way that is not known"),
    ];
    let cause = ways.iter().find(|(count, ..)| 2 * count > lost).map_or(UNKNOWN, |(_, cause, _)| cause);
    let found = ways.iter().filter(|(count, ..)| *count > 0);
    let found: Vec<String> =
        found.map(|(count, _, words)| format!("{} lost {words}", Cell::Count(*count))).collect();
    Some(Nothing::of(cause, format!("{packets} without a reply: {}", found.join(", "))))
}

/// The way on which the packet of the longest round trip was held up; none where no round trip was longer than another.
fn of_delay(packets: &[StampPacket]) -> Option<Nothing> {
    let delays = packets.iter().filter_map(|packet| {
        let reply = packet.reply?;
        Some([reply.round_trip_ns(packet.t1_ns), reply.t2_ns - packet.t1_ns, reply.backward_ns()])
    });
    let delays: Vec<[i64; 3]> = delays.filter(|[round_trip_ns, ..]| *round_trip_ns >= 0).collect();
    let longest = delays.iter().max_by_key(|[round_trip_ns, ..]| *round_trip_ns)?;
    let over = |which: usize| longest[which] - delays.iter().map(|delay| delay[which]).min().unwrap_or(0);
    let (round_trip_ns, there_ns, back_ns) = (over(0), over(1), over(2));
    let [round_trip, there, back] = [round_trip_ns, there_ns, back_ns].map(Cell::Duration);
    let all = format!("the longest round trip took {round_trip} more than the shortest");
    let found = if there_ns + back_ns - round_trip_ns > APART_NS.max(round_trip_ns / 4) {
        Nothing::of(UNKNOWN, format!("{all}, and the two clocks do not agree on the way"))
    } else {
        let cause = if there_ns > back_ns { THERE } else { BACK };
        Nothing::of(cause, format!("{all}: {there} on the way there, {back} on the way back"))
    };
    (round_trip_ns > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::some_packet;
    use quaver_path_record::stamp::{StampMemory, StampProgress};
    use std::net::SocketAddr;

    const MS: i64 = 1_000_000;

    /// A packet with a delay there, and one back; the reflector's clock is ahead by `ahead_ms`.
    fn packet(place: i64, there_ms: i64, back_ms: i64, ahead_ms: i64) -> StampPacket {
        let t1_ns = place * 100 * MS;
        let t2_ns = t1_ns + (there_ms + ahead_ms) * MS;
        let t4_ns = t1_ns + (there_ms + back_ms) * MS;
        some_packet(place as u64, [t1_ns, t2_ns, t2_ns, t4_ns])
    }

    fn told(delays: &[(i64, i64, i64)]) -> Option<(&'static str, String)> {
        let packets =
            (0..).zip(delays).map(|(place, (there, back, ahead))| packet(place, *there, *back, *ahead));
        of_delay(&packets.collect::<Vec<_>>()).map(|found| (found.cause, found.words))
    }

    /// The finding for packets with these numbers of the reflector; `None` is a lost packet.
    fn told_of_losses(first: u64, reflected: &[Option<u32>]) -> Option<(&'static str, String)> {
        let mut memory = StampMemory::default();
        let end = SocketAddr::from(([192, 0, 2, 1], 862));
        memory.hear(&StampProgress::Started { local: end, target: end, packet_bytes: 44 });
        for (sequence, reflected) in (first..).zip(reflected) {
            let mut packet = some_packet(sequence, [sequence as i64; 4]);
            packet.reply = packet.reply.filter(|_| reflected.is_some());
            packet.reply.iter_mut().for_each(|reply| reply.reflector_sequence = reflected.unwrap_or(0));
            memory.hear(&match reflected {
                None => StampProgress::Lost { packet: &packet },
                Some(_) => StampProgress::Answered { packet: &packet, reflected: 0, first: true },
            });
        }
        of_losses(&memory.stretch(0, i64::MAX)?).map(|found| (found.cause, found.words))
    }

    #[test]
    fn the_way_of_more_than_half_of_the_losses_leads() {
        let [there, back] = [[Some(3), None, None, Some(4)], [Some(3), None, None, Some(6)]];
        let words = |ways: &str| format!("2 packets without a reply: {ways}");
        assert_eq!(told_of_losses(9, &there), Some((THERE, words("2 lost on the way there"))));
        assert_eq!(told_of_losses(9, &back), Some((BACK, words("2 lost on the way back"))));
        let each = told_of_losses(9, &[Some(3), None, None, Some(5)]);
        assert_eq!(each, Some((UNKNOWN, words("1 lost on the way there, 1 lost on the way back"))));
        let last = told_of_losses(9, &[Some(3), Some(4), None, None]);
        assert_eq!(last, Some((UNKNOWN, words("2 lost on a way that is not known"))));
        let repeated = told_of_losses(9, &[Some(9), None, Some(11)]).unwrap();
        assert_eq!(repeated.0, UNKNOWN, "a reflector that repeats our numbers");
        assert_eq!(told_of_losses(9, &[Some(3), Some(4)]), None);
    }

    #[test]
    fn the_way_that_held_a_packet_up_is_told_whatever_the_clocks_differ_by() {
        let words = "the longest round trip took 20.0 ms more than the shortest: 20.0 ms on the way there, 0 ns on the way back";
        assert_eq!(told(&[(3, 4, 500), (23, 4, 500)]), Some((THERE, words.to_owned())));
        assert_eq!(told(&[(3, 4, -500), (3, 30, -500), (3, 4, -500)]).unwrap().0, BACK);
        assert_eq!(told(&[(3, 4, 0), (3, 4, 0)]), None);
        // The reflector's clock was set by 40 ms between the two.
        assert_eq!(told(&[(3, 4, 0), (3, 24, 40)]).unwrap().0, UNKNOWN);
        assert_eq!(told(&[]), None);
    }
}
