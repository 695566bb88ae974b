//! Limits of what a stream may suffer in ten seconds (`--breach`).

use quaver_instrument::quantity;

/// The limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BreachLimits {
    pub(crate) loss_share: Option<f64>,
    pub(crate) pdv_ns: Option<i64>,
    pub(crate) interarrival_ns: Option<i64>,
    pub(crate) least_mos: Option<f64>,
}

/// Limits such as `loss=1%,pdv=20ms`.
pub(crate) fn limits(text: &str) -> Result<BreachLimits, String> {
    let mut limits = BreachLimits::default();
    for part in text.split(',') {
        let wrong =
            |why: &str| format!("`{part}`: {why}, for example loss=1%,pdv=20ms,interarrival=5ms,mos=3.6");
        let (name, value) = part.trim().split_once('=').ok_or_else(|| wrong("expected NAME=LIMIT"))?;
        let number = |text: &str, most: f64| {
            text.parse()
                .ok()
                .filter(|number| (0.0..=most).contains(number))
                .ok_or_else(|| wrong("not a limit"))
        };
        let time_ns =
            || Ok::<_, String>(i64::try_from(quantity::duration(value)?.as_nanos()).unwrap_or(i64::MAX));
        match name.trim() {
            "loss" => {
                let percent = value.strip_suffix('%').ok_or_else(|| wrong("loss is in percent"))?;
                limits.loss_share = Some(number(percent, 100.0)? / 100.0);
            }
            "pdv" => limits.pdv_ns = Some(time_ns()?),
            "interarrival" => limits.interarrival_ns = Some(time_ns()?),
            "mos" => limits.least_mos = Some(number(value, 5.0)?),
            _ => return Err(wrong("unknown name")),
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_names_and_units() {
        let expected = BreachLimits {
            loss_share: Some(0.015),
            pdv_ns: Some(20_000_000),
            interarrival_ns: Some(500_000),
            least_mos: Some(3.6),
        };
        assert_eq!(limits("loss=1.5%, pdv=20ms,interarrival=500us,mos=3.6"), Ok(expected));
        for wrong in ["", "loss=1", "loss=101%", "pdv=20", "mos=6", "delay=1ms", "loss=NaN%"] {
            assert!(limits(wrong).is_err(), "{wrong}");
        }
    }
}
