//! Stamping of interfaces, through the journal of settings: on for as long as a flow of this process wants it, then as it
//! was.
//!
//! Flows come and go beside each other, but only one session of the journal can be open. So all flows of the process share
//! one, and it ends with the last of them.

use quaver_host::settings::stamping;
use quaver_host::settings::stamping::Stamping;
use quaver_host::settings::steer::Steered;
use quaver_host::settings::{JournalPlace, TuneError};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// What the journal says has changed the setting, after "quaver".
const VERB: &str = "path test";

/// Which stamps a flow wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Of what it receives.
    Received,
    /// Of what it sends.
    Sent,
}

/// Interfaces as flows share them.
#[derive(Clone, Debug)]
pub(super) struct Interfaces {
    place: JournalPlace,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Flows that want what is set to stay.
    flows: usize,
    /// None while nothing had to be set.
    session: Option<Steered>,
}

/// One flow's wish. What was set goes back when the last is dropped.
#[derive(Debug)]
pub(super) struct Wish {
    interfaces: Interfaces,
}

impl Interfaces {
    /// Those of this machine.
    pub(super) fn system() -> Self {
        static SYSTEM: LazyLock<Interfaces> = LazyLock::new(|| Interfaces::at(JournalPlace::system()));
        SYSTEM.clone()
    }

    fn at(place: JournalPlace) -> Self {
        Self { place, shared: Arc::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the interface stamp all that it receives, and what it sends where a socket asks. For what is sent, an interface
    /// that cannot stamp all that it receives stamps what it sends alone.
    ///
    /// # Errors
    /// A sentence where it cannot be switched on so that it will be put back, or where the driver did not do it.
    pub(super) fn stamp(&self, interface: &str, way: Way) -> Result<Wish, String> {
        let now =
            self.switch_on(interface, way).map_err(|error| stamping::not_switched_on(interface, &error))?;
        // From here on it is put back, whatever the verdict.
        let wish = Wish { interfaces: self.clone() };
        match way {
            Way::Received => now.receives_all(interface)?,
            Way::Sent if now.transmit == Stamping::TRANSMIT_OFF => {
                return Err(format!("{interface} does not stamp what it sends, though it was asked to"));
            }
            Way::Sent => {}
        }
        Ok(wish)
    }

    /// Counts a flow in, unless it failed.
    fn switch_on(&self, interface: &str, way: Way) -> Result<Stamping, TuneError> {
        let mut shared = self.shared();
        // Read under the lock, so that no other flow puts it back in between.
        let said = self.place.contact().ethtool(interface, stamping::FIELD);
        let before: Stamping = said.ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let Some(change) = before.to_stamp_all(interface, true) else {
            shared.flows += 1;
            return Ok(before);
        };
        let session = match &mut shared.session {
            Some(session) => session,
            none => none.insert(Steered::begin(&self.place, VERB)?),
        };
        let set = match (session.set(&change), before.to_stamp_sent(interface)) {
            (Err(_), Some(less)) if way == Way::Sent => session.set(&less),
            (set, _) => set,
        };
        if set.is_err() && shared.flows == 0 {
            // Nobody would end it.
            shared.session = None;
        }
        let now = set?.now.parse().unwrap_or_default();
        shared.flows += 1;
        Ok(now)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let mut shared = self.interfaces.shared();
        shared.flows -= 1;
        if shared.flows == 0 {
            // What cannot be put back stays in the journal, where `quaver tune status` shows it.
            shared.session = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::settings::Journal;
    use quaver_host::settings::fake::FakeMachine;

    const DRIVER: &str = "drivers/eth0/stamping.config";
    const OFF: &str = "rx 0 tx 0 flags 0\n";
    const ON: &str = "rx 1 tx 1 flags 0\n";

    fn machine(driver: &str) -> (FakeMachine, Interfaces) {
        let machine = FakeMachine::new(&[(DRIVER, driver)]);
        let interfaces = Interfaces::at(machine.place());
        (machine, interfaces)
    }

    #[test]
    fn it_is_on_until_the_last_flow_has_ended_in_whatever_order() {
        let (machine, interfaces) = machine(OFF);
        let first = interfaces.stamp("eth0", Way::Received).unwrap();
        assert_eq!(machine.text(DRIVER), ON);
        let status = Journal::open(&machine.place()).status().unwrap();
        assert_eq!((status.changes.len(), status.changes[0].verb.as_str()), (1, VERB));
        let second = interfaces.clone().stamp("eth0", Way::Sent).unwrap();
        drop(first);
        assert_eq!(machine.text(DRIVER), ON, "somebody still wants it");
        let third = interfaces.stamp("eth0", Way::Received).unwrap();
        drop(second);
        std::thread::spawn(move || drop(third)).join().unwrap();
        assert_eq!(machine.text(DRIVER), OFF);
        // And again, with the lock free for others in between.
        drop(Steered::begin(&machine.place(), "tune").unwrap());
        drop(interfaces.stamp("eth0", Way::Received).unwrap());
        assert_eq!(machine.text(DRIVER), OFF);
        assert_eq!(Journal::open(&machine.place()).status().unwrap().changes, []);
    }

    #[test]
    fn what_stamps_already_is_left_alone_and_needs_no_journal() {
        let (machine, interfaces) = machine("rx 1 tx 2 flags 0\n");
        let (before, wish) = (machine.listing(), interfaces.stamp("eth0", Way::Sent).unwrap());
        assert!(machine.listing() == before && !machine.journal().exists());
        drop(wish);
        assert_eq!(machine.listing(), before);
    }

    #[test]
    fn a_killed_process_leaves_what_the_next_puts_back() {
        let (machine, interfaces) = machine(OFF);
        let wish = interfaces.stamp("eth0", Way::Received).unwrap();
        // All that a killed process leaves: the setting and the journal as they are now.
        let journal = std::fs::read_dir(machine.journal()).unwrap().map(|file| file.unwrap().path());
        let left: Vec<_> = journal
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        drop(wish);
        machine.file(DRIVER, ON);
        left.iter().for_each(|(path, octets)| std::fs::write(path, octets).unwrap());
        let next = Journal::open(&machine.place()).session("tune").unwrap();
        assert_eq!(next.recovered().len(), 1, "{:?}", next.recovered());
        assert_eq!(machine.text(DRIVER), OFF);
    }

    #[test]
    fn who_changes_settings_is_named_and_leaves_the_interface_as_it_is() {
        let (machine, interfaces) = machine(OFF);
        let other = Steered::begin(&machine.place(), "study").unwrap();
        let refused = interfaces.stamp("eth0", Way::Received).unwrap_err();
        assert!(refused.contains("quaver study") && refused.contains("hwstamp_ctl -i eth0"), "{refused}");
        assert_eq!(machine.text(DRIVER), OFF);
        drop(other);
        drop(interfaces.stamp("eth0", Way::Received).unwrap());
    }

    #[test]
    fn a_driver_that_does_less_is_told_and_put_back() {
        let driver = "drivers/deaf/stamping.config";
        let machine = FakeMachine::new(&[(driver, "rx 12 tx 1 flags 0\n")]);
        let interfaces = Interfaces::at(machine.place());
        let refused = interfaces.stamp("deaf", Way::Received).unwrap_err();
        assert!(refused.contains("packets of PTP only"), "{refused}");
        // What it sends it stamps nevertheless.
        drop(interfaces.stamp("deaf", Way::Sent).unwrap());
        machine.file(driver, "rx 1 tx 0 flags 0\n");
        let refused = interfaces.stamp("deaf", Way::Sent).unwrap_err();
        assert!(refused.contains("does not stamp what it sends"), "{refused}");
        assert!(interfaces.stamp("none", Way::Sent).is_err(), "there is no such driver");
        assert_eq!(Journal::open(&machine.place()).status().unwrap().changes, []);
        drop(Steered::begin(&machine.place(), "tune").expect("nobody has the lock"));
    }
}
