//! `quaver doctor`: what this machine lets us measure, and what is set so that it hurts. Reads only.

pub mod args;

use crate::args::DoctorArgs;
use anyhow::Context;
use quaver_capture::compare::record::stamped_for_others;
use quaver_clock::ClockLook;
use quaver_host::bpf;
use quaver_host::capabilities::GRANTS;
use quaver_host::hazards::{Area, Checked, HostView, TierState, Verdict, examine};
use quaver_host::root::HostRoot;
use quaver_host::trace::{Tier, TraceError};
use quaver_host::tracefs;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results::{self, Found};
use quaver_instrument::tier;
use quaver_view::{Block, Document, Finding, Section, Table, Text, Tone, text};
use serde_json::Value;
use std::path::Path;

/// Name and version of the JSON form. The number grows when a field changes its meaning or goes.
const SCHEMA: &str = "quaver-doctor/1";

/// Prints what was found. Ends with 3 only where not even user space can measure.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if args.setcap {
        results::to_stdout(
            grant(&std::env::current_exe().context("finding this program's file")?).as_bytes(),
        )?;
        return Ok(ExitCode::Done);
    }
    let view = look();
    let checks = examine(&view);
    let summary = json(&view, &checks);
    let found = Found::new(&summary).ended(status(&checks));
    results::print(&found, || document(&view, &checks), args.json, &[])
}

/// The command that gives a file of this program its capabilities, after a comment for each: lines for a shell.
fn grant(program: &Path) -> String {
    let mut text =
        "# Whoever may start the program then has these rights. Let its mode and group say who.\n".to_owned();
    text.extend(GRANTS.iter().map(|(name, purpose)| format!("#   {name:<14} {purpose}\n")));
    text.push_str(
        "# Namespaces, tracefs and settings of the host stay root's. `setcap -r FILE` takes all back.\n",
    );
    let names: Vec<&str> = GRANTS.iter().map(|(name, _)| *name).collect();
    let file = program.display().to_string().replace('\'', "'\\''");
    format!("{text}sudo setcap {}+ep '{file}'\n", names.join(","))
}

/// The running machine, its tiers included.
fn look() -> HostView {
    let mut view = HostView::read(&HostRoot::system(), None);
    view.clock = Some(ClockLook::take(Path::new("/")));
    // By a datagram of ours to ourselves, which has the kernel stamp for a moment, too.
    view.stamped_for_others = stamped_for_others();
    view.counter_for_bpf = bpf::reads_cycle_counter();
    let trial = tier::trial();
    view.bpf_tier = state(&trial.bpf, || "its programs load".to_owned());
    view.tracefs_tier = state(&trial.tracefs, tracepoints);
    view.tier_reason = trial.reason;
    view
}

fn state(trial: &Result<Vec<String>, TraceError>, evidence: impl FnOnce() -> String) -> TierState {
    match trial {
        Ok(blind) => TierState::usable(evidence(), blind.clone()),
        Err(error) => TierState::refused(error),
    }
}

/// What an instance would record, and by which clock.
fn tracepoints() -> String {
    let Ok(survey) = tracefs::probe() else { return "a trace instance can be made".to_owned() };
    let clock = survey.clock.map_or("unknown", |clock| clock.name());
    format!("{} of our tracepoints, clock {clock}", survey.present.len())
}

/// That of a host where nothing at all can be measured.
fn status(checks: &[Checked]) -> Option<ExitCode> {
    let blind = checks.iter().any(|checked| checked.id == "user-space" && checked.verdict != Verdict::Good);
    blind.then_some(ExitCode::Unsupported)
}

fn json(view: &HostView, checks: &[Checked]) -> Value {
    serde_json::json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "best_tier": view.best_tier().name(),
        "tier_reason": view.tier_reason,
        "checks": checks,
        "host": view,
    })
}

fn document(view: &HostView, checks: &[Checked]) -> Document {
    let mut document = Document::new("quaver doctor", "reads only, changes nothing");
    document.version = env!("CARGO_PKG_VERSION").into();
    let tier = match view.best_tier() {
        Tier::Bpf => "BPF: every layer, every cause",
        Tier::Tracefs => {
            "tracefs: causes are named; of packets, only the stamps of user space and of the socket"
        }
        Tier::User => "user space only: lateness is measured without causes",
    };
    document.fact("host", host_line(view)).fact("tracing tier", tier);
    if let Some(reason) = &view.tier_reason {
        document.fact("", text!("no better tier: {reason}"));
    }
    let of = |area: Area| checks.iter().filter(move |checked| checked.area == area);
    let missing = of(Area::Ability).filter(|checked| checked.verdict == Verdict::Missing).count();
    let hurting = of(Area::Setting).filter(|checked| checked.verdict == Verdict::Hurts).count();
    document.verdict = Some(text!(
        "This host lacks {missing} of {} abilities to measure; settings that cause lateness: {hurting}.",
        of(Area::Ability).count()
    ));
    let title = format!("What can be measured here ({missing} missing)");
    document.section(section("abilities", title, of(Area::Ability)));
    let title = format!("Settings that cause lateness ({hurting} found)");
    document.section(section("settings", title, of(Area::Setting)));
    document
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
    parts.join(", ")
}

/// What is wrong first, in full; then what is good, a line each; then what does not exist here, in one line.
fn section<'a>(id: &str, title: String, checks: impl Iterator<Item = &'a Checked> + Clone) -> Section {
    let of = |verdict: Verdict| checks.clone().filter(move |checked| checked.verdict == verdict);
    let wrong = of(Verdict::Missing).chain(of(Verdict::Hurts)).map(|checked| {
        let mut finding = Finding::new(Tone::Caution, checked.verdict.name(), checked.title)
            .detail(format!("found: {}", checked.evidence))
            .detail(checked.why);
        finding.remedies.extend(checked.remedy.iter().map(|remedy| Text::default().code(remedy)));
        finding
    });
    let mut section = Section::new(id, title).with(wrong.collect::<Vec<_>>());
    let mut good = Table::bare(3);
    of(Verdict::Good).for_each(|checked| {
        good.row([checked.verdict.name(), checked.title, checked.evidence.as_str()]);
    });
    if !good.rows.is_empty() {
        section.push(good);
    }
    let absent: Vec<&str> = of(Verdict::NotApplicable).map(|checked| checked.title).collect();
    if !absent.is_empty() {
        section.push(Block::Note(format!("not on this machine: {}", absent.join(", ")).into()));
    }
    section
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
    fn the_page_shows_what_is_wrong_first() {
        let wanted = "\
quaver doctor · reads only, changes nothing
  host          processor unknown, 0 CPUs, Linux of unknown version, not as root
  tracing tier  user space only: lateness is measured without causes

  This host lacks 1 of 2 abilities to measure; settings that cause lateness: 1.

What can be measured here (1 missing)
  missing  bpf-tier
           found: seen bpf-tier
           because it takes the CPU away
           sudo quaver ...
  good  user-space  seen user-space

Settings that cause lateness (1 found)
  hurts    governor
           found: seen governor
           because it takes the CPU away
           echo performance | sudo tee x
  good  irqbalance  seen irqbalance

  not on this machine: idle-states
";
        let page = quaver_view::plain(&document(&HostView::default(), &some_checks()));
        assert_eq!(page, wanted, "{page}");
    }

    #[test]
    fn lines_fit_every_terminal_but_for_a_word_that_is_longer() {
        let mut checks = some_checks();
        let long = "since an ordinary thread waits for its CPU ".repeat(9);
        for checked in &mut checks {
            checked.evidence = long.clone();
            checked.remedy = checked.remedy.as_ref().map(|remedy| format!("{remedy}; or {long}"));
        }
        let mut view = HostView::default();
        view.facts.cpu.model = Some(long);
        let document = document(&view, &checks);
        for width in [80, 120, 200] {
            let mut out = Vec::new();
            let style = quaver_view::Style { width, ..quaver_view::Style::PLAIN };
            quaver_view::write_terminal(&mut out, &document, style).expect("memory");
            let page = String::from_utf8(out).expect("text");
            let longest = page.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!((width - 20..=width).contains(&longest), "{longest} of {width}:\n{page}");
        }
    }

    #[test]
    fn a_shell_reads_the_grant_as_one_command() {
        let script = grant(Path::new("/opt/it's/quaver")).replace("sudo setcap", "printf '%s|'");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
        let words = String::from_utf8(output.stdout).expect("text");
        let wanted =
            "cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep|/opt/it's/quaver|";
        assert_eq!(words, wanted);
    }

    #[test]
    fn json_has_a_schema_and_every_check() {
        let value = json(&HostView::default(), &some_checks());
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["best_tier"], "user");
        assert_eq!(value["checks"][2]["verdict"], "hurts");
        assert_eq!(value["checks"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn it_fails_only_where_nothing_can_be_measured() {
        let mut checks = some_checks();
        assert_eq!(status(&checks), None);
        checks[0].verdict = Verdict::Missing;
        assert_eq!(status(&checks), Some(ExitCode::Unsupported));
    }

    #[test]
    fn this_machine_gets_a_page() {
        let view = look();
        let checks = examine(&view);
        assert_eq!(status(&checks), None);
        assert!(quaver_view::plain(&document(&view, &checks)).contains("reads only"));
    }
}
