//! Interfaces that go down or are removed while they are captured.

use crate::args::CaptureArgs;
use crate::record::Reading;
use quaver_view::Cell;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::collections::BTreeSet;
use std::time::Duration;

/// Interfaces of a capture, each by its first ring: all rings of an interface hear the same.
pub(super) struct Links<'a> {
    reading: &'a Reading,
    rings: usize,
    quiet: bool,
    /// Those that went down at some time. One that is removed goes down first.
    down: BTreeSet<usize>,
    /// Of those that were removed, what the summary says.
    notes: Vec<String>,
}

impl<'a> Links<'a> {
    pub(super) fn of(reading: &'a Reading, args: &CaptureArgs) -> Self {
        let rings = args.fanout.into();
        Self { reading, rings, quiet: args.quiet, down: BTreeSet::new(), notes: Vec::new() }
    }

    /// Tells of interfaces that went down or were removed since the last call; whether none is left.
    pub(super) fn all_gone(&mut self, elapsed: Duration) -> bool {
        let taps = self.reading.taps();
        let firsts = (0..taps.len()).step_by(self.rings);
        let all = firsts.clone().count();
        for number in firsts.filter(|number| taps[*number].interface().index != 0) {
            let interface = taps[number].interface();
            let went_down = self.reading.went_down(number);
            if went_down {
                self.down.insert(number);
            }
            if !self.down.contains(&number) {
                continue;
            }
            if is_there(interface.index) {
                if went_down && !self.quiet {
                    quaver_instrument::tell!(
                        "quaver: interface {} is down; capture resumes when it is up",
                        interface.name
                    );
                }
                continue;
            }
            self.down.remove(&number);
            self.removed(&interface.name, elapsed, all);
        }
        self.notes.len() == all
    }

    fn removed(&mut self, name: &str, elapsed: Duration, all: usize) {
        let after = Cell::Duration(elapsed.as_nanos().try_into().unwrap_or(i64::MAX));
        // The kernel tells a socket the same of both.
        let gone = format!("interface {name} was removed, or moved to another network namespace");
        self.notes.push(format!("{gone}, after {after}: its packets end there"));
        if self.notes.len() == all {
            quaver_instrument::tell!("quaver: {gone}; capture ended and kept");
        } else if !self.quiet {
            quaver_instrument::tell!("quaver: {gone}; the others are still captured");
        }
    }

    /// What the summary says of those that were removed.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes
    }
}

/// Whether an interface is there, whatever its name is now. Where the kernel cannot be asked, it is taken to be.
fn is_there(index: u32) -> bool {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.is_ok_and(|socket| netdevice::index_to_name(&socket, index) != Err(rustix::io::Errno::NODEV))
}
