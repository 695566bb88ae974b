//! `quaver lab doctor`: which labs this machine has.

use crate::args::LabDoctorArgs;
use clap::ValueEnum;
use quaver_chase::args::LabKind;
use quaver_host::netns;
use quaver_host::netns::LabError;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results::{self, Found};
use quaver_lab_guests::libraries;
use quaver_lab_guests::store::LabStore;
use quaver_view::{Document, Finding, Section, Text, Tone, text};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Name and version of the JSON form.
const SCHEMA: &str = "quaver-lab-doctor/1";

/// One thing that a lab needs.
#[derive(Debug, Serialize)]
struct Part {
    part: &'static str,
    there: bool,
    /// What was found.
    found: String,
    /// The command that mends it.
    remedy: Option<String>,
}

/// A lab.
#[derive(Debug, Serialize)]
struct Checked {
    lab: &'static str,
    usable: bool,
    what: &'static str,
    parts: Vec<Part>,
}

impl Part {
    fn of<T, E: ToString>(
        part: &'static str,
        looked: Result<T, E>,
        found: impl FnOnce(T) -> String,
        remedy: &str,
    ) -> Self {
        match looked {
            Ok(value) => Self { part, there: true, found: found(value), remedy: None },
            Err(error) => {
                Self { part, there: false, found: error.to_string(), remedy: Some(remedy.to_owned()) }
            }
        }
    }
}

/// Looks, and says what was found.
pub(super) fn run(args: &LabDoctorArgs) -> anyhow::Result<ExitCode> {
    let asked: Vec<LabKind> = args.lab.map_or_else(|| LabKind::value_variants().to_vec(), |lab| vec![lab]);
    let checked: Vec<Checked> = asked.into_iter().map(look).collect();
    let summary = json(&checked);
    let found = Found::new(&summary).ended(status(&checked));
    results::print(&found, || document(&checked), args.json, &[])
}

/// That of a host where no lab can be used.
fn status(checked: &[Checked]) -> Option<ExitCode> {
    (!checked.iter().any(|one| one.usable)).then_some(ExitCode::Unsupported)
}

fn look(lab: LabKind) -> Checked {
    let (name, what, parts) = match lab {
        LabKind::Loopback => ("loopback", "the loopback interface of this host", Vec::new()),
        LabKind::Netns => ("netns", "two network namespaces of this host and a veth pair", netns_parts()),
        LabKind::Qemu => ("qemu", "an emulated machine in virtual time, with a stock kernel", qemu_parts()),
    };
    Checked { lab: name, usable: parts.iter().all(|part| part.there), what, parts }
}

fn netns_parts() -> Vec<Part> {
    let made = netns::Lab::create();
    let remedy = match &made {
        Err(LabError::NotPermitted { .. }) => "sudo quaver study run   (CAP_SYS_ADMIN and CAP_NET_ADMIN)",
        _ => "sudo modprobe veth",
    };
    let found = |lab: netns::Lab| {
        format!("veth pair created and removed ({}, {})", lab.source.interface, lab.sink.interface)
    };
    vec![Part::of("namespaces and veth", made, found, remedy)]
}

fn qemu_parts() -> Vec<Part> {
    let store = LabStore::standard();
    let fetch = "quaver lab fetch";
    let mut parts = Vec::new();
    let machine = std::env::consts::ARCH;
    let fits = if machine == "x86_64" {
        Ok(())
    } else {
        Err(format!("this host is {machine}; the guest needs x86-64"))
    };
    parts.push(Part::of("processor", fits, |()| machine.to_owned(), "use a host with x86-64"));
    let found = |emulator: quaver_lab_guests::store::Emulator| {
        format!("QEMU {} ({})", emulator.version, emulator.program.display())
    };
    parts.push(Part::of("emulator", store.emulator(), found, fetch));
    let kernel = store.kernel("kernel");
    let modules = kernel.as_ref().ok().map(|kernel| kernel.load_order("e1000e"));
    let found = |kernel: quaver_lab_guests::store::Kernel| {
        format!("Linux {} ({})", kernel.release, kernel.image.display())
    };
    parts.push(Part::of("kernel", kernel, found, fetch));
    if let Some(modules) = modules {
        parts.push(Part::of("driver", modules, |files| format!("e1000e, {} to load", files.len()), fetch));
    }
    let own = [vec![libraries::SELF.into()], libraries::loaded()].concat();
    let unread = own.iter().find_map(|path: &std::path::PathBuf| {
        std::fs::File::open(path).err().map(|error| format!("{}: {error}", path.display()))
    });
    let readable = unread.map_or(Ok(own.len() - 1), Err);
    let found = |libraries| format!("guest image: {} and {libraries} libraries", exe());
    parts.push(Part::of("this program", readable, found, "make it readable"));
    parts
}

fn exe() -> String {
    let path = std::fs::read_link(libraries::SELF).unwrap_or_default();
    path.file_name().unwrap_or(Path::new("quaver").as_os_str()).to_string_lossy().into_owned()
}

fn json(checked: &[Checked]) -> Value {
    serde_json::json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "directory": LabStore::standard().directory(),
        "labs": checked,
    })
}

fn document(checked: &[Checked]) -> Document {
    let usable = checked.iter().filter(|lab| lab.usable).count();
    let mut document = Document::new("quaver lab doctor", format!("{usable} of {} usable", checked.len()));
    document.version = env!("CARGO_PKG_VERSION").into();
    document.verdict = Some(text!("{usable} of {} labs can be used here.", checked.len()));
    for lab in checked {
        let state = if lab.usable { "usable" } else { "missing" };
        let parts = lab.parts.iter().map(|part| {
            let (tone, label) = if part.there { (Tone::Good, "good") } else { (Tone::Caution, "missing") };
            let mut finding = Finding::new(tone, label, format!("{}: {}", part.part, part.found));
            finding.remedies.extend(part.remedy.iter().map(|remedy| Text::default().code(remedy)));
            finding
        });
        let section = Section::new(lab.lab, format!("{}: {state}", lab.lab)).note(lab.what);
        let parts: Vec<Finding> = parts.collect();
        document.section(if parts.is_empty() { section } else { section.with(parts) });
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(usable: bool) -> Checked {
        let remedy = (!usable).then(|| "quaver lab fetch".to_owned());
        let part = Part { part: "emulator", there: usable, found: "seen".to_owned(), remedy };
        Checked { lab: "qemu", usable, what: "an emulated machine", parts: vec![part] }
    }

    #[test]
    fn a_missing_part_stands_with_its_remedy_on_a_line_of_its_own() {
        let wanted = "\
quaver lab doctor · 1 of 2 usable

  1 of 2 labs can be used here.

qemu: missing  an emulated machine
  missing  emulator: seen
           quaver lab fetch

qemu: usable  an emulated machine
  good     emulator: seen
";
        let page = quaver_view::plain(&document(&[checked(false), checked(true)]));
        assert_eq!(page, wanted, "{page}");
        assert_eq!(json(&[checked(false)])["schema"], SCHEMA);
    }

    #[test]
    fn one_usable_lab_is_enough_where_none_is_named() {
        assert_eq!(status(&[checked(false), checked(true)]), None);
        assert_eq!(status(&[checked(false)]), Some(ExitCode::Unsupported));
    }

    #[test]
    fn loopback_is_always_there() {
        let found = [look(LabKind::Loopback)];
        assert!(found[0].usable);
        let page = quaver_view::plain(&document(&found));
        assert!(page.ends_with("\nloopback: usable  the loopback interface of this host\n"), "{page}");
    }
}
