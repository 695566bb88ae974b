//! Settings that one verb has for as long as it runs: where the receive side of interfaces is processed, and what else it
//! asks for.

use super::contact::Contact;
use super::error::TuneError;
use super::journal::{Applied, Journal, JournalPlace, Session, Undone};
use super::knob::{Change, Knob, cpu_list, cpu_mask};

/// Settings of one verb, such as the receive side of interfaces kept on one CPU. Put back when dropped, or by the next verb if this process is killed.
#[derive(Debug)]
pub struct Steered {
    session: Session,
    /// What was set, with what is still pending.
    pub applied: Vec<Applied>,
    /// What was refused, such as an interrupt whose CPUs the kernel manages. The rest holds.
    pub refused: Vec<TuneError>,
}

impl Steered {
    /// Begins without any setting.
    ///
    /// # Errors
    /// [`TuneError::Busy`] while another process changes settings; [`TuneError::NotPermitted`] without privilege.
    pub fn begin(place: &JournalPlace, verb: &str) -> Result<Self, TuneError> {
        let session = Journal::open(place).session(verb)?;
        Ok(Self { session, applied: Vec::new(), refused: Vec::new() })
    }

    /// Sets one thing more.
    ///
    /// # Errors
    /// As [`Session::apply`].
    pub fn set(&mut self, change: &Change) -> Result<Applied, TuneError> {
        let done = self.session.apply(change)?;
        self.applied.push(done.clone());
        Ok(done)
    }

    /// What killed processes had left, and what became of it before anything was set.
    pub fn recovered(&self) -> &[Undone] {
        self.session.recovered()
    }

    /// Puts everything back and tells what became of each setting; what could not be put back stays in the journal.
    ///
    /// # Errors
    /// When the journal cannot be kept.
    pub fn put_back(self) -> Result<Vec<Undone>, TuneError> {
        self.session.revert()
    }
}

/// Keeps the receive side of `interfaces` on one CPU for as long as the answer lives.
///
/// # Errors
/// [`TuneError::Busy`] while another process changes settings; [`TuneError::NotPermitted`] without privilege; what was
/// refused last where nothing at all could be set of an interface. Then all is as it was.
pub fn steer(place: &JournalPlace, verb: &str, interfaces: &[&str], cpu: u16) -> Result<Steered, TuneError> {
    let mut steered = Steered::begin(place, verb)?;
    for interface in interfaces {
        steered.one(place.contact(), interface, cpu)?;
    }
    Ok(steered)
}

impl Steered {
    fn one(&mut self, contact: &dyn Contact, interface: &str, cpu: u16) -> Result<(), TuneError> {
        let (before, mut refused) = (self.applied.len(), Vec::new());
        for change in softirq_on(contact, interface, cpu) {
            match self.session.apply(&change) {
                Ok(done) => self.applied.push(done),
                Err(error) if self.session.is_broken() => return Err(error),
                Err(error) => refused.push(error),
            }
        }
        if self.applied.len() > before {
            self.refused.append(&mut refused);
            return Ok(());
        }
        Err(refused.pop().unwrap_or_else(|| TuneError::Vanished {
            knob: format!("receive side of {interface}"),
            reason: "the interface has neither receive queues nor interrupts".to_owned(),
        }))
    }
}

/// Changes that let the kernel process packets of `interface` on one CPU only, from the interrupt to the socket.
///
/// The device's interrupts go to `cpu`, and packets that still arrive elsewhere (or have no interrupt, as on a veth or the
/// loopback) are handed to it by receive packet steering. Interrupts of virtio devices bear the driver's name
/// (`virtio3-rx`), those of others the interface's (`eth0-rx-0`); both are looked for.
pub fn softirq_on(contact: &dyn Contact, interface: &str, cpu: u16) -> Vec<Change> {
    let root = contact.root();
    let mut changes: Vec<Change> = interrupts(contact, interface)
        .into_iter()
        .map(|irq| Change::new(Knob::Irq { irq }, cpu_list(&[cpu])))
        .collect();
    let queues = format!("/sys/class/net/{interface}/queues");
    for queue in root.names(&queues).iter().filter(|name| name.starts_with("rx-")) {
        changes.push(Change::new(Knob::file(format!("{queues}/{queue}/rps_cpus")), cpu_mask(&[cpu])));
    }
    changes
}

/// Interrupts of an interface's device, the receive side's and all others.
pub fn interrupts(contact: &dyn Contact, interface: &str) -> Vec<u32> {
    let root = contact.root();
    // A PCI device lists its message-signalled interrupts itself, whatever they are called.
    let device = format!("/sys/class/net/{interface}/device");
    let mut irqs: Vec<u32> = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .flat_map(|folder| root.names(folder))
        .filter_map(|name| name.parse().ok())
        .collect();
    for irq in root.names("/proc/irq").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let of_interface = |name: &String| {
            name.strip_prefix(interface).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if root.names(&format!("/proc/irq/{irq}")).iter().any(of_interface) {
            irqs.push(irq);
        }
    }
    irqs.sort_unstable();
    irqs.dedup();
    irqs.retain(|irq| root.exists(&format!("/proc/irq/{irq}/smp_affinity_list")));
    irqs
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeMachine;
    use super::*;

    #[test]
    fn the_devices_interrupts_and_every_receive_queue_go_to_one_cpu() {
        let machine = FakeMachine::new(&[
            ("sys/class/net/eth0/device/vendor", ""),
            // A virtio device's interrupts are those of the PCI device above it, and bear no interface's name.
            ("sys/class/net/eth0/device/../msi_irqs/38", "msix\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
            ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
            ("proc/irq/38/smp_affinity_list", "0-3\n"),
            ("proc/irq/39/smp_affinity_list", "0-3\n"),
            ("proc/irq/39/eth0-TxRx-0/spurious", ""),
            ("proc/irq/40/smp_affinity_list", "0-3\n"),
            ("proc/irq/40/eth01/spurious", ""),
        ]);
        let place = machine.place();
        let changes: Vec<(String, String)> = softirq_on(place.contact(), "eth0", 2)
            .into_iter()
            .map(|change| (change.knob.to_string(), change.value))
            .collect();
        let expected = [
            ("affinity of irq 38", "2"),
            ("affinity of irq 39", "2"),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "4"),
            ("/sys/class/net/eth0/queues/rx-1/rps_cpus", "4"),
        ];
        assert_eq!(changes, expected.map(|(knob, value)| (knob.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_receive_side_is_steered_for_as_long_as_it_is_asked_for() {
        let machine = FakeMachine::new(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000\n"),
            ("proc/irq/38/smp_affinity_list", "0-1\n"),
            ("proc/irq/38/effective_affinity_list", "0\n"),
            ("proc/irq/38/eth0-rx/spurious", ""),
            ("proc/irq/39/smp_affinity_list", "0\n"),
            ("proc/irq/39/eth0-tx/spurious", ""),
            ("proc/irq/39/managed", ""),
        ]);
        let before = machine.listing();
        let steered = steer(&machine.place(), "capture", &["eth0"], 1).expect("some of it takes");
        assert_eq!((steered.applied.len(), steered.refused.len()), (2, 1));
        assert!(steered.applied[0].pending.is_some(), "the interrupt has not moved yet");
        assert_eq!(machine.text("sys/class/net/eth0/queues/rx-0/rps_cpus"), "00000000,00000002\n");
        drop(steered);
        assert_eq!(machine.listing(), before);
        let steered = steer(&machine.place(), "capture", &["eth0"], 1).expect("some of it takes");
        let undone = steered.put_back().expect("the journal can be kept");
        assert!(undone.len() == 2 && undone.iter().all(|one| one.fate.is_final()), "{undone:?}");
        // What was set of one interface is put back where another has nothing to set.
        let nothing = steer(&machine.place(), "capture", &["eth0", "eth7"], 1).expect_err("there is none");
        assert_eq!(machine.listing(), before);
        let nothing = nothing.to_string();
        assert!(nothing.contains("neither receive queues nor interrupts"), "{nothing}");
    }

    #[test]
    fn an_interface_without_a_device_has_queues_only() {
        let machine = FakeMachine::new(&[("sys/class/net/lo/queues/rx-0/rps_cpus", "0\n")]);
        assert_eq!(softirq_on(machine.place().contact(), "lo", 0).len(), 1);
        assert!(softirq_on(machine.place().contact(), "nothing", 0).is_empty());
    }
}
