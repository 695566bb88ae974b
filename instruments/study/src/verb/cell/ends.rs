//! What an arm sets at the two ends of a stream. It goes with the ends.

use super::super::settings::Settings;
use quaver_host::netns::{Lab, LabError};
use quaver_instrument::exit_code::{ExitCode, failure};

/// All of TSO: while any of it is on, the kernel keeps local UDP away from the NAPI of a veth.
const TSO: [&str; 4] = [
    "feature.tx-tcp-segmentation",
    "feature.tx-tcp6-segmentation",
    "feature.tx-tcp-ecn-segmentation",
    "feature.tx-tcp-mangleid-segmentation",
];
/// Polls that NAPI may skip its interrupts for: for good, at our rates.
const DEFERRALS: &str = "1000";

/// A lab that could not be had.
pub fn lab_failure(error: LabError) -> anyhow::Error {
    failure(ExitCode::Unsupported, error.to_string())
}

/// Sets what the arm sets of its interfaces.
pub(super) fn set(lab: &Lab, settings: &Settings) -> anyhow::Result<()> {
    let set = || -> Result<(), LabError> {
        let on_off = |on: bool| if on { "on" } else { "off" };
        if let Some(tso) = settings.tso.or(settings.throttle.map(|_| false)) {
            TSO.iter().try_for_each(|field| lab.source.set_driver(field, on_off(tso)))?;
        }
        if let Some(gro) = settings.gro.or(settings.throttle.map(|_| true)) {
            lab.sink.set_driver("feature.rx-gro", on_off(gro))?;
        }
        if let Some(throttle) = settings.throttle {
            lab.sink.set_attribute("napi_defer_hard_irqs", DEFERRALS)?;
            lab.sink.set_attribute("gro_flush_timeout", &throttle.as_nanos().to_string())?;
        }
        if let Some(adaptive) = settings.adaptive_rx {
            // A driver that has nothing adaptive refuses even to switch it off.
            match lab.sink.set_driver("coalesce.adaptive-rx", on_off(adaptive)) {
                Err(LabError::Os { .. }) if !adaptive => {}
                set => set?,
            }
        }
        if let Some(itr) = settings.itr {
            lab.sink.set_driver("coalesce.rx-usecs", &itr.as_micros().to_string())?;
        }
        if !settings.rps_cpus.is_empty() {
            lab.sink.steer_receive(&settings.rps_cpus)?;
        }
        Ok(())
    };
    set().map_err(lab_failure)
}

/// What an arm may set of the receiving interface's driver, in the order in which it is put back: the time between interrupts
/// means something only once nothing adapts it.
const SINK_FIELDS: [&str; 3] = ["feature.rx-gro", "coalesce.adaptive-rx", "coalesce.rx-usecs"];
/// What it may set of that interface besides.
const SINK_ATTRIBUTES: [&str; 3] = ["napi_defer_hard_irqs", "gro_flush_timeout", "queues/rx-0/rps_cpus"];

/// One thing that an arm may set.
#[derive(Clone, Copy)]
enum ArmKnob {
    SourceField(&'static str),
    SinkField(&'static str),
    SinkAttribute(&'static str),
}

impl ArmKnob {
    fn all() -> impl Iterator<Item = Self> {
        let source = TSO.into_iter().map(Self::SourceField);
        let sink = SINK_FIELDS.into_iter().map(Self::SinkField);
        source.chain(sink).chain(SINK_ATTRIBUTES.into_iter().map(Self::SinkAttribute))
    }

    fn read(self, lab: &Lab) -> Result<Option<String>, LabError> {
        match self {
            Self::SourceField(field) => lab.source.driver(field),
            Self::SinkField(field) => lab.sink.driver(field),
            Self::SinkAttribute(attribute) => lab.sink.attribute(attribute),
        }
    }

    fn write(self, lab: &Lab, value: &str) -> Result<(), LabError> {
        match self {
            Self::SourceField(field) => lab.source.set_driver(field, value),
            Self::SinkField(field) => lab.sink.set_driver(field, value),
            Self::SinkAttribute(attribute) => lab.sink.set_attribute(attribute, value),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::SourceField(name) | Self::SinkField(name) | Self::SinkAttribute(name) => name,
        }
    }
}

/// All that an arm may set of the ends, as it was found: for ends that stay from cell to cell.
pub struct AsFound(Vec<(ArmKnob, String)>);

impl AsFound {
    /// Reads it. What is not there cannot be set either.
    pub fn read(lab: &Lab) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for place in ArmKnob::all() {
            found.extend(place.read(lab).map_err(lab_failure)?.map(|value| (place, value)));
        }
        Ok(Self(found))
    }

    /// Puts back what is otherwise now, and looks whether it took.
    pub fn put_back(&self, lab: &Lab) -> anyhow::Result<()> {
        for (place, value) in &self.0 {
            let now = || place.read(lab).map(Option::unwrap_or_default).map_err(lab_failure);
            if now()? == *value {
                continue;
            }
            place.write(lab, value).map_err(lab_failure)?;
            let is = now()?;
            if is != *value {
                let message = format!(
                    "{} was put back to {value}, and is {is}: later cells would differ",
                    place.name()
                );
                return Err(failure(ExitCode::Unsupported, message));
            }
        }
        Ok(())
    }
}

/// Runs `body` at an end, or here where there are no ends.
pub(super) fn within<T: Send>(
    lab: Option<&Lab>,
    sink: bool,
    body: impl FnOnce() -> T + Send,
) -> anyhow::Result<T> {
    match lab {
        None => Ok(body()),
        Some(lab) if sink => Ok(lab.sink.within(body)?),
        Some(lab) => Ok(lab.source.within(body)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::settings::Keys;
    use quaver_testbed::privileged::privileged;

    #[test]
    fn all_that_an_arm_sets_of_its_ends_is_put_back() {
        if !privileged("all_that_an_arm_sets_of_its_ends_is_put_back") {
            return;
        }
        let lab = Lab::create().unwrap();
        let found = AsFound::read(&lab).unwrap();
        let values = |found: &AsFound| found.0.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        // A veth pair moderates no interrupts; a guest of QEMU has all of them.
        let names: Vec<&str> = found.0.iter().map(|(place, _)| place.name()).collect();
        let there = |name: &&str| !name.starts_with("coalesce.");
        assert_eq!(names, ArmKnob::all().map(ArmKnob::name).filter(there).collect::<Vec<_>>());
        for keys in ["throttle = '100us'\nrps-cpus = 'source'", "gro = true\ntso = false"] {
            let keys: Keys = toml::from_str(keys).unwrap();
            set(&lab, &Settings::of(&keys, &[0, 1]).unwrap()).unwrap();
            let changed = AsFound::read(&lab).unwrap();
            assert_ne!(values(&changed), values(&found));
            found.put_back(&lab).unwrap();
            assert_eq!(values(&AsFound::read(&lab).unwrap()), values(&found));
        }
    }
}
