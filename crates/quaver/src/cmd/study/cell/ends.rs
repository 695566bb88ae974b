//! What an arm sets at the two ends of a stream. It goes with the ends.

use super::super::settings::Settings;
use crate::exit_code::{ExitCode, failure};
use quaver_measure::host::netns::{Lab, LabError};

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
pub(in crate::cmd) fn lab_failure(error: LabError) -> anyhow::Error {
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
