//! The last ten seconds while a capture goes on.

use super::*;

/// Audio of 8 kHz, a packet each 20 ms, in the second `second`. Each tenth packet is 2 ms late in `late` seconds, and so many at its
/// start are missing.
fn second(second: i64, late: bool, lost: i64) -> impl Iterator<Item = (i64, FrameFacts)> {
    (50 * second + lost..50 * (second + 1)).map(move |n| {
        let late_ns = if late && n % 10 == 0 { 2 * MS } else { 0 };
        (20 * MS * n + late_ns, frame(6_000, rtp(n as u16, 160 * n as u32, 7)))
    })
}

#[test]
fn what_is_ten_seconds_old_is_forgotten() {
    let mut table = FlowTable::new(TableSettings::live("kernel"));
    let mut looks = Vec::new();
    for at in 0..16 {
        for (time_ns, frame) in second(at, at == 2, if at == 3 { 10 } else { 0 }) {
            table.packet(Some(START_NS + time_ns), &PacketStamps::default(), &frame);
        }
        looks.push(table.figures().flows[0].recent.unwrap());
    }
    let told: Vec<_> =
        looks.iter().map(|look| (look.packets, look.lost, look.worst_pdv_p99_ns.unwrap())).collect();
    let late_ns = 2 * MS as u64;
    assert_eq!(
        told[..5],
        [(50, 0, 0), (100, 0, 0), (150, 0, late_ns), (190, 10, late_ns), (240, 10, late_ns)]
    );
    assert_eq!(told[11..], [(490, 10, late_ns), (490, 10, 0), (500, 0, 0), (500, 0, 0), (500, 0, 0)]);
    // G.711 with concealment: R is 93.2 - 95 x 2 / (2 + 25.1) with 2 % lost, G.107 (B-4).
    let r = 93.2 - 95.0 * 2.0 / 27.1;
    let mos = 1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6;
    assert!((looks[12].mos.unwrap() - mos).abs() < 1e-9 && looks[15].mos.unwrap() > 4.4, "{looks:?}");
    assert!(looks[2].interarrival_ns > 0.0);
    assert!(table.finish().flows[0].recent.is_none());
}
