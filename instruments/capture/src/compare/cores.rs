//! Which CPU does what in a comparison.

use crate::args::CoreChoice;
use crate::capture::cores::{check_allowed, check_threads};
use crate::pipeline::PipelineKind;
use quaver_capture_analysis::compare::Placement;
use quaver_instrument::exit_code::{ExitCode, failure};

/// CPUs by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus {
    /// The source's; none where it is at another host.
    pub(super) source: Option<u16>,
    /// Where the kernel receives what comes in: over a veth pair, that of the source unless the receiver's was asked for.
    /// None: where it does anyway.
    pub(super) softirq: Option<u16>,
    pub(super) capture: u16,
    pub(super) convert: Vec<u16>,
}

impl Cpus {
    /// `far`: the source is at another host.
    ///
    /// Softirqs share the receiver's CPU only where that was asked for, or where there is a single one. The source then
    /// goes to another: packets that it sends are moved.
    pub(super) fn choose(allowed: &[u16], asked: &CoreChoice, far: bool) -> anyhow::Result<Self> {
        let (Some(first), Some(last)) = (allowed.first().copied(), allowed.last().copied()) else {
            return Err(failure(ExitCode::Unsupported, "no CPU is allowed to this process"));
        };
        // A comparison has pipelines with converters and without.
        check_threads(asked, PipelineKind::Threaded { converters: u8::MAX }, allowed)?;
        if let Some(softirq) = asked.softirq.filter(|_| !far) {
            check_allowed("softirq", softirq, allowed)?;
        }
        let but = |taken: &[Option<u16>]| -> Vec<u16> {
            allowed.iter().copied().filter(|cpu| !taken.contains(&Some(*cpu))).collect()
        };
        let capture = asked.capture.or(but(&[asked.softirq]).last().copied()).unwrap_or(last);
        let near = asked.softirq.or(but(&[Some(capture)]).first().copied()).unwrap_or(first);
        if asked.convert.contains(&capture) {
            let message = format!("capture and convert share CPU {capture}: give them one each with --cores");
            return Err(failure(ExitCode::Usage, message));
        }
        let softirq = if far { asked.softirq } else { Some(near) };
        let others = but(&[Some(capture)]);
        let free = others.iter().find(|cpu| !asked.convert.contains(cpu)).or(others.first());
        let source = if near == capture { free.copied().unwrap_or(near) } else { near };
        let source = (!far).then_some(source);
        let choices = [asked.convert.clone(), but(&[source, softirq, Some(capture)]), others, vec![capture]];
        let convert = choices.into_iter().find(|choice| !choice.is_empty()).unwrap_or_default();
        Ok(Self { source, softirq, capture, convert })
    }

    /// Whether softirqs and the receiver share a CPU in all that is measured.
    fn together(&self) -> bool {
        self.softirq == Some(self.capture)
    }

    /// The CPU that packets have to be moved to, for they would be received on another one.
    pub(super) fn moved(&self) -> Option<u16> {
        self.softirq.filter(|_| self.softirq != self.source)
    }

    /// Placements that loss is measured in.
    pub(super) fn placements(&self) -> &'static [Placement] {
        if self.together() { &[Placement::Together] } else { &[Placement::Apart, Placement::Together] }
    }

    /// Who shared a CPU, in sentences.
    pub(super) fn shared(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.together() {
            said.push(format!(
                "Softirqs and receiver shared CPU {} throughout: the paper's overload case. Their effects \
                 cannot be separated.",
                self.capture
            ));
        }
        let source = self.source.filter(|cpu| self.convert.contains(cpu)).map(|cpu| (cpu, "the source"));
        let softirq = self.softirq.filter(|cpu| self.convert.contains(cpu)).map(|cpu| (cpu, "the softirqs"));
        let with: Vec<&str> = source.iter().chain(&softirq).map(|(_, who)| *who).collect();
        if let Some((cpu, _)) = source.or(softirq) {
            said.push(format!("The converter threads shared CPU {cpu} with {}.", with.join(" and ")));
        }
        said
    }

    pub(super) fn words(&self) -> String {
        let convert: Vec<String> = self.convert.iter().map(u16::to_string).collect();
        let softirq = match (self.source, self.softirq) {
            (Some(source), Some(softirq)) if softirq != source => {
                format!("source {source}, softirq {softirq}")
            }
            (Some(source), _) => format!("source and softirq {source}"),
            (None, Some(softirq)) => format!("source on another host, softirq {softirq}"),
            (None, None) => "source on another host, softirq on its default CPU".to_owned(),
        };
        format!("{softirq}, capture {}, converters {}", self.capture, convert.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(allowed: &[u16], asked: &CoreChoice) -> Result<Cpus, String> {
        Cpus::choose(allowed, asked, false).map_err(|error| error.to_string())
    }

    fn asked(softirq: Option<u16>, capture: Option<u16>, convert: &[u16]) -> CoreChoice {
        CoreChoice { softirq, capture, convert: convert.to_vec(), ..CoreChoice::default() }
    }

    #[test]
    fn cpus_differ_where_they_can() {
        let nothing = CoreChoice::default();
        let two = here(&[0, 1], &nothing).unwrap();
        assert_eq!((two.source, two.softirq, two.capture, &two.convert[..]), (Some(0), Some(0), 1, &[0][..]));
        assert_eq!((two.moved(), two.placements().len(), two.shared().len()), (None, 2, 1));
        let four = here(&[2, 3, 4, 5], &nothing).unwrap();
        assert_eq!((four.source, four.capture, &four.convert[..]), (Some(2), 5, &[3, 4][..]));
        assert!(four.shared().is_empty());
        // A role of which nothing was said makes room for the one that was asked for.
        let other = here(&[0, 1], &asked(Some(1), None, &[])).unwrap();
        assert_eq!((other.source, other.softirq, other.capture), (Some(1), Some(1), 0));
        let other = here(&[0, 1], &asked(None, Some(0), &[])).unwrap();
        assert_eq!((other.source, other.softirq, other.capture), (Some(1), Some(1), 0));
        let single = here(&[3], &nothing).unwrap();
        assert_eq!((&single.convert[..], single.moved()), (&[3][..], None), "a single CPU has to do");
        assert_eq!((single.placements(), single.shared().len()), (&[Placement::Together][..], 2));
    }

    #[test]
    fn softirqs_and_receiver_share_a_cpu_where_that_is_asked_for() {
        let overload = asked(Some(0), Some(0), &[1]);
        let two = here(&[0, 1], &overload).unwrap();
        assert_eq!(two, Cpus { source: Some(1), softirq: Some(0), capture: 0, convert: vec![1] });
        assert_eq!((two.moved(), two.placements()), (Some(0), &[Placement::Together][..]));
        let said = two.shared();
        assert!(said.len() == 2 && said[0].contains("the paper's overload case"), "{said:?}");
        assert!(said[1].contains("shared CPU 1 with the source."), "{said:?}");
        assert_eq!(two.words(), "source 1, softirq 0, capture 0, converters 1");
        // With more of them the source has its own.
        let three = here(&[0, 1, 2], &overload).unwrap();
        assert_eq!((three.source, three.shared().len()), (Some(2), 1));
        let three = here(&[0, 1, 2], &asked(Some(0), Some(0), &[])).unwrap();
        assert_eq!((three.source, &three.convert[..]), (Some(1), &[2][..]));
    }

    #[test]
    fn converters_never_share_and_cpus_have_to_be_there() {
        let why = |choice: &CoreChoice| here(&[0, 1], choice).unwrap_err();
        assert!(why(&asked(None, None, &[1])).contains("capture and convert share CPU 1"));
        assert!(why(&asked(Some(0), Some(0), &[0])).contains("a CPU of its own"));
        assert!(why(&asked(None, Some(0), &[1, 1])).contains("a CPU of its own"));
        for absent in [asked(Some(7), None, &[]), asked(None, Some(7), &[]), asked(None, None, &[7])] {
            assert!(why(&absent).contains("only CPUs [0, 1] are allowed"));
        }
        assert!(here(&[], &CoreChoice::default()).is_err());
    }

    #[test]
    fn softirqs_of_an_interface_stay_where_they_are_unless_asked() {
        let far = |allowed: &[u16], asked: &CoreChoice| Cpus::choose(allowed, asked, true).unwrap();
        let nothing = CoreChoice::default();
        let stay = far(&[0, 1, 2], &nothing);
        assert_eq!(
            (stay.source, stay.softirq, stay.capture, &stay.convert[..]),
            (None, None, 2, &[0, 1][..])
        );
        assert_eq!(stay.moved(), None);
        let moved = far(&[0, 1], &asked(Some(0), None, &[]));
        assert_eq!((moved.source, moved.softirq, moved.capture), (None, Some(0), 1));
        assert_eq!((&moved.convert[..], moved.moved()), (&[0][..], Some(0)));
        assert!(moved.words().contains("another host, softirq 0"));
        assert_eq!(far(&[3], &nothing).convert, [3]);
        // The kernel may process packets where this process may not run.
        assert_eq!(far(&[0, 1], &asked(Some(5), None, &[])).capture, 1);
        let overload = far(&[0, 1], &asked(Some(1), Some(1), &[]));
        assert_eq!((overload.moved(), overload.shared().len()), (Some(1), 1));
    }
}
