//! The kernel's trace ring as a reader of cycles: a private instance with the clock `x86-tsc` that records nothing but
//! `netif_receive_skb`, in binary pages.

use super::pairing::{Pairing, Traced};
use quaver_host::trace::TraceError;
use quaver_host::tracefs::format::{EventFormat, Field, PageLayout};
use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::page::{Lost, PageEvent, decode};
use quaver_host::tracefs::rings::{Ring, make_instance, open_rings};
use quaver_host::tracefs::root::refused;

/// The clock that is the processor's counter, as it is read.
pub(super) const TRACE_CLOCK: &str = "x86-tsc";
const EVENT: &str = "events/net/netif_receive_skb";
/// Bytes of all rings together, and of one at most: those of a second at 150,000 packets a second.
const MOST_BYTES: u64 = 256 << 20;
const MOST_BYTES_OF_CPU: u64 = 8 << 20;

/// The rings of all CPUs. Dropping it removes the instance.
#[derive(Debug)]
pub(super) struct TraceRing {
    // Dropped in this order: the kernel keeps an instance as long as a file below it is open.
    rings: Vec<Ring>,
    _instance: Instance,
    layout: PageLayout,
    id: u16,
    packet: Field,
    length: Field,
    page: Vec<u8>,
    lost: u64,
}

impl TraceRing {
    /// Begins to record, what comes by interfaces of these names only, if there are any.
    pub(super) fn start(names: &[&str]) -> Result<Self, TraceError> {
        const WITHOUT: &str = "use --stamp kernel";
        let (_root, instance, layout) = make_instance(WITHOUT)?;
        let unsupported = |operation: &str, why: &str| TraceError::NotSupported {
            operation: operation.to_owned(),
            remedy: format!("{why}; {WITHOUT}"),
        };
        let clocks = instance.dir().read("trace_clock").map_err(|e| refused("reading trace_clock", e))?;
        if !clocks.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == TRACE_CLOCK) {
            return Err(unsupported(
                &format!("reading the processor's counter by the trace clock {TRACE_CLOCK}"),
                &format!("the kernel offers {}", clocks.trim()),
            ));
        }
        let operation = format!("reading tracefs {EVENT}/format");
        let text = instance.dir().read(&format!("{EVENT}/format")).map_err(|e| refused(&operation, e))?;
        let format = EventFormat::parse(&text);
        let fields = format.as_ref().and_then(|format| {
            Some((format.id, format.field("skbaddr")?.clone(), format.field("len")?.clone()))
        });
        let (id, packet, length) =
            fields.ok_or_else(|| unsupported(&operation, "this kernel's is not understood"))?;
        instance.set("trace_clock", TRACE_CLOCK)?;
        let rings = open_rings(instance.dir(), &[])?;
        let of_cpu = (MOST_BYTES / rings.len().max(1) as u64).min(MOST_BYTES_OF_CPU);
        instance.set("buffer_size_kb", &(of_cpu >> 10).max(64).to_string())?;
        // A name that the filter's language has no word for costs records of others, and no more.
        let filter: Vec<String> = names.iter().map(|name| format!("name == \"{name}\"")).collect();
        let _ = filter.is_empty() || instance.set(&format!("{EVENT}/filter"), &filter.join(" || ")).is_ok();
        instance.set(&format!("{EVENT}/enable"), "1")?;
        instance.set("tracing_on", "1")?;
        let page = vec![0; layout.size];
        Ok(Self { rings, _instance: instance, layout, id, packet, length, page, lost: 0 })
    }

    /// Hands over all that is there now. `monotonic_ns` converts cycles.
    pub(super) fn drain(&mut self, pairing: &mut Pairing, monotonic_ns: impl Fn(u64) -> i64) {
        let Self { rings, layout, id, packet, length, page, lost, .. } = self;
        for ring in rings {
            let cpu = usize::from(ring.cpu);
            // A ring that cannot be read leaves its packets without cycles, and they are counted.
            while ring.read_page(page).unwrap_or(false) {
                let outcome = decode(page, layout, |event| {
                    if let Some(traced) = traced(&event, (*id, packet, length), &monotonic_ns) {
                        pairing.put(cpu, traced);
                    }
                });
                *lost += match outcome {
                    Ok(Lost::Nothing) => 0,
                    Ok(Lost::Counted(count)) => count,
                    Ok(Lost::Uncounted) | Err(_) => 1,
                };
            }
        }
    }

    /// Records that the rings lost, as far as the kernel counts them; a page of unknown losses counts one.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

fn traced(
    event: &PageEvent<'_>,
    (id, packet, length): (u16, &Field, &Field),
    monotonic_ns: impl Fn(u64) -> i64,
) -> Option<Traced> {
    if event.id != id {
        return None;
    }
    Some(Traced {
        cycles: event.timestamp,
        monotonic_ns: monotonic_ns(event.timestamp),
        packet: packet.number(event.record)?,
        length: length.number(event.record)? as u32,
    })
}
