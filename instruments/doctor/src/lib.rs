//! `quaver doctor`: what this machine lets us measure, and what is set so that it hurts. Reads only.

pub mod args;

use crate::args::DoctorArgs;
use quaver_capture::compare::record::stamped_for_others;
use quaver_clock::ClockLook;
use quaver_host::bpf;
use quaver_host::hazards::{Area, Checked, HostView, TierState, Verdict, examine};
use quaver_host::root::HostRoot;
use quaver_host::trace::Tier;
use quaver_host::tracefs;
use quaver_instrument::exit_code::ExitCode;
use quaver_page::table::{Style, printable, width, wrap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Name and version of the JSON form. The number grows when a field changes its meaning or goes.
const SCHEMA: &str = "quaver-doctor/1";

/// Columns of the page.
const PAGE_WIDTH: usize = 100;

/// Prints what was found. Ends with 3 only where not even user space can measure.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let view = look();
    let checks = examine(&view);
    let text = if args.json { json(&view, &checks)? } else { page(&view, &checks, Style::of_stdout()) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(status(&checks))
}

/// The running machine, its tiers included.
fn look() -> HostView {
    let mut view = HostView::read(&HostRoot::system(), None);
    view.clock = Some(ClockLook::take(Path::new("/")));
    // By a datagram of ours to ourselves, which has the kernel stamp for a moment, too.
    view.stamped_for_others = stamped_for_others();
    let support = bpf::probe();
    view.counter_for_bpf = support.reads_cycle_counter;
    view.bpf_tier = bpf_state(&support);
    view.tracefs_tier = tracefs_state();
    view
}

fn bpf_state(support: &bpf::BpfSupport) -> TierState {
    let needs = [&support.built, &support.kernel_types, &support.may_load];
    let lacking = needs.into_iter().find_map(|need| Some((need, need.lacking.as_ref()?)));
    if let Some((need, reason)) = lacking {
        return TierState {
            evidence: format!("{}: {reason}", need.subject),
            remedy: need.remedy.clone(),
            ..TierState::default()
        };
    }
    let blind = support
        .sees
        .iter()
        .filter_map(|sight| Some(format!("{} ({})", sight.subject, sight.lacking.as_ref()?)));
    TierState::usable("a trial program was loaded and let go", blind.collect())
}

fn tracefs_state() -> TierState {
    let survey = match tracefs::probe() {
        Ok(survey) => survey,
        Err(error) => return TierState::refused(&error),
    };
    let Some(clock) = survey.clock.filter(|_| survey.pages) else {
        return TierState {
            evidence: "tracefs offers neither clock x86-tsc nor mono, or does not describe its pages"
                .to_owned(),
            ..TierState::default()
        };
    };
    let evidence = format!("{} of our tracepoints, clock {}", survey.present.len(), clock.name());
    TierState::usable(evidence, survey.blind)
}

/// Done, unless nothing at all could be measured.
fn status(checks: &[Checked]) -> ExitCode {
    let blind = checks.iter().any(|checked| checked.id == "user-space" && checked.verdict != Verdict::Good);
    if blind { ExitCode::Unsupported } else { ExitCode::Done }
}

fn json(view: &HostView, checks: &[Checked]) -> anyhow::Result<String> {
    let document = serde_json::json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "best_tier": view.best_tier().name(),
        "checks": checks,
        "host": view,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn page(view: &HostView, checks: &[Checked], style: Style) -> String {
    let mut out = format!("{}\n", style.dim(&host_line(view)));
    let tier = match view.best_tier() {
        Tier::Bpf => "BPF: every layer, every cause",
        Tier::Tracefs => "tracefs: causes are named, packets are not stamped below the socket",
        Tier::User => "user space only: lateness is measured, its causes are not named",
    };
    let of = |area: Area| checks.iter().filter(move |checked| checked.area == area);
    let missing = of(Area::Ability).filter(|checked| checked.verdict == Verdict::Missing).count();
    let heading = format!("What this machine lets us measure ({missing} missing)");
    let _ = writeln!(out, "\n{}\n  Tracing here is by {tier}\n", style.bold(&heading));
    section(&mut out, of(Area::Ability), style);

    let hurting = of(Area::Setting).filter(|checked| checked.verdict == Verdict::Hurts).count();
    let heading = format!("Settings that make packets and threads late ({hurting} found)");
    let _ = writeln!(out, "\n{}\n", style.bold(&heading));
    section(&mut out, of(Area::Setting), style);
    let _ = writeln!(out, "\n{}", style.dim("Doctor only read; nothing was changed."));
    out
}

fn host_line(view: &HostView) -> String {
    let facts = &view.facts;
    let mut parts = vec![
        facts.cpu.model.clone().unwrap_or_else(|| "processor unknown".to_owned()),
        format!("{} CPUs", facts.cpu.online.len()),
        format!("Linux {}", facts.kernel.release.as_deref().unwrap_or("of unknown version")),
    ];
    if facts.hypervisor.present {
        parts.push(format!("virtual machine ({})", facts.hypervisor.name.as_deref().unwrap_or("unknown")));
    }
    parts.push(if view.rights.is_root() { "as root" } else { "not as root" }.to_owned());
    printable(&parts.join(", "))
}

/// What is wrong first, in full; then what is good, a line each; then what does not exist here, in one line.
fn section<'a>(out: &mut String, checks: impl Iterator<Item = &'a Checked> + Clone, style: Style) {
    let of = |verdict: Verdict| checks.clone().filter(move |checked| checked.verdict == verdict);
    for checked in of(Verdict::Missing).chain(of(Verdict::Hurts)) {
        let mark = style.caution(&format!("{:<8}", checked.verdict.name()));
        let _ = writeln!(out, "  {mark}{}", style.bold(checked.title));
        paragraph(out, "found: ", &checked.evidence, |line| line.to_owned());
        paragraph(out, "", checked.why, |line| line.to_owned());
        if let Some(remedy) = &checked.remedy {
            // Not wrapped: a command must be copied whole.
            let _ = writeln!(out, "          {}", style.remedy(&printable(remedy)));
        }
    }
    let titles = of(Verdict::Good).map(|checked| width(checked.title)).max().unwrap_or(0);
    for checked in of(Verdict::Good) {
        let indent = 10 + titles + 2;
        let lines = wrap(&printable(&checked.evidence), PAGE_WIDTH.saturating_sub(indent).max(30));
        let title = format!("{:<titles$}", checked.title);
        let _ =
            writeln!(out, "  {:<8}{title}  {}", "good", style.dim(lines.first().map_or("", String::as_str)));
        for line in lines.iter().skip(1) {
            let _ = writeln!(out, "{:indent$}{}", "", style.dim(line));
        }
    }
    let absent: Vec<&str> = of(Verdict::NotApplicable).map(|checked| checked.title).collect();
    if !absent.is_empty() {
        paragraph(out, "not on this machine: ", &absent.join(", "), |line| style.dim(line));
    }
}

fn paragraph(out: &mut String, label: &str, text: &str, colour: impl Fn(&str) -> String) {
    for line in wrap(&format!("{label}{}", printable(text)), PAGE_WIDTH - 10) {
        let _ = writeln!(out, "          {}", colour(&line));
    }
}

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument::of(&[verb!(
    "doctor",
    "Tell what this machine lets us measure, what is missing, and the command that mends it",
    args::DoctorArgs,
    run
)]);

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(id: &'static str, area: Area, verdict: Verdict, remedy: Option<&str>) -> Checked {
        Checked {
            id,
            area,
            title: id,
            verdict,
            evidence: format!("seen {id}"),
            why: "because it takes the CPU away",
            remedy: remedy.map(str::to_owned),
        }
    }

    fn some_checks() -> Vec<Checked> {
        vec![
            checked("user-space", Area::Ability, Verdict::Good, None),
            checked("bpf-tier", Area::Ability, Verdict::Missing, Some("sudo quaver ...")),
            checked("governor", Area::Setting, Verdict::Hurts, Some("echo performance | sudo tee x")),
            checked("irqbalance", Area::Setting, Verdict::Good, None),
            checked("idle-states", Area::Setting, Verdict::NotApplicable, None),
        ]
    }

    #[test]
    fn the_page_shows_what_is_wrong_first_and_each_remedy_whole() {
        let page = page(&HostView::default(), &some_checks(), Style::PLAIN);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text:?} is not in\n{page}"));
        assert!(at("bpf-tier") < at("user-space") && at("governor") < at("irqbalance"));
        assert!(page.lines().any(|line| line.trim() == "echo performance | sudo tee x"));
        assert!(page.contains("(1 missing)") && page.contains("(1 found)"));
        assert!(page.contains("not on this machine: idle-states"));
        assert!(page.lines().all(|line| width(line) <= PAGE_WIDTH), "{page}");
    }

    #[test]
    fn json_has_a_schema_and_every_check() {
        let text = json(&HostView::default(), &some_checks()).expect("serialises");
        let value: serde_json::Value = serde_json::from_str(&text).expect("parses");
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["best_tier"], "user");
        assert_eq!(value["checks"][2]["verdict"], "hurts");
        assert_eq!(value["checks"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn it_fails_only_where_nothing_can_be_measured() {
        let mut checks = some_checks();
        assert_eq!(status(&checks), ExitCode::Done);
        checks[0].verdict = Verdict::Missing;
        assert_eq!(status(&checks), ExitCode::Unsupported);
    }

    #[test]
    fn this_machine_gets_a_page() {
        let view = look();
        let checks = examine(&view);
        assert_eq!(status(&checks), ExitCode::Done);
        assert!(page(&view, &checks, Style::PLAIN).contains("Doctor only read"));
    }
}
