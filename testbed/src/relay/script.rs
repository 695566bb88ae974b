//! What is done to which packets: read from TOML, or made by a test. `example.toml` beside this file explains it all.

use super::packet::{Field, Protocol, WrongClock};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// A length of time of 0 or more, written with its unit in TOML, such as `"7.41us"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(u64);

impl Span {
    /// A span of so many nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let span = humantime::parse_duration(&text)
            .map_err(|error| format!("`{text}` is no length of time such as \"20ms\": {error}"))?;
        u64::try_from(span.as_nanos()).map(Self).map_err(|_| format!("`{text}` is longer than 584 years"))
    }
}

/// A difference of time, which may be written with a minus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Shift(i64);

impl Shift {
    /// A shift by so many nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }
}

impl TryFrom<String> for Shift {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (sign, rest) = text.strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
        let span = Span::try_from(rest.to_owned())?;
        i64::try_from(span.0).map(|ns| Self(sign * ns)).map_err(|_| format!("`{text}` is too long"))
    }
}

/// What becomes of the sentinels of Jitlat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sentinels {
    /// Everything on hold is let go, and the sentinel leaves after all that came before it.
    #[default]
    Last,
    /// They are test packets like all others, with an arrival number.
    Impaired,
    /// They pass at once and change nothing.
    Untouched,
}

/// All that a relay does to packets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Every random choice follows from it, the rule's place and the packet's arrival number.
    pub seed: u64,
    /// How datagrams are read.
    pub protocol: Protocol,
    /// What becomes of sentinels.
    pub sentinels: Sentinels,
    /// Packets on hold are let go when nothing has arrived in their direction for so long.
    pub release_after: Span,
    /// From the client to the server, rule by rule.
    pub up: Vec<Rule>,
    /// From the server to the client, rule by rule.
    pub down: Vec<Rule>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            seed: 0,
            protocol: Protocol::default(),
            sentinels: Sentinels::default(),
            release_after: Span::from_ns(500_000_000),
            up: Vec::new(),
            down: Vec::new(),
        }
    }
}

impl Script {
    /// Reads a script. The error says where and what.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// Which packets a rule is for.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Select {
    /// All.
    #[default]
    All,
    /// Each by itself with this probability.
    Probability(f64),
    /// By a Markov chain of two states.
    GilbertElliott(GilbertElliott),
    /// Those with these arrival numbers, from 0.
    Packets(Vec<RangeInclusive<u64>>),
}

/// A chain that starts in the good state and may change before each packet but the first.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability of going from good to bad.
    pub p: f64,
    /// Probability of going from bad to good.
    pub r: f64,
    /// Probability that a packet is selected in the good state.
    #[serde(default)]
    pub good: f64,
    /// Probability that a packet is selected in the bad state.
    #[serde(default = "certain")]
    pub bad: f64,
}

const fn certain() -> f64 {
    1.0
}

/// Further copies of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// How many beside the first.
    pub copies: u32,
    /// Time from each to the next.
    #[serde(default)]
    pub spacing: Span,
    /// Each waits until so many later packets have left.
    #[serde(default)]
    pub later: u32,
}

/// A packet held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// It leaves right after so many later packets have left.
    pub later: u32,
}

/// How long a packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Always the same.
    Constant(Span),
    /// Evenly between two lengths, both included.
    Uniform(Span, Span),
    /// As the queue at a busy link.
    Queue(Queue),
}

/// A queue that other traffic fills: before each packet a burst comes whose length in time has a Pareto distribution,
/// and from packet to packet `drain` of it is worked off. Waiting time by Lindley's recursion.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Time worked off between two packets: their period.
    pub drain: Span,
    /// Mean burst as a part of `drain`; under 1, or the queue grows to `most`.
    pub load: f64,
    /// Shape of the distribution, above 1; at 2 or below its variance is infinite.
    pub shape: f64,
    /// The queue is never longer.
    pub most: Span,
}

/// Flipped bits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Corrupt {
    /// Where.
    pub field: Field,
    /// Bits counted from the most significant bit of the field's first byte.
    pub bits: Vec<u32>,
    /// Beside them so many bits of the field, drawn from the seed; one drawn twice is flipped once.
    pub random: u32,
}

/// The sender's clock shown wrong, by writing over the time of sending. An emulation: no second clock is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// Parts per million that the clock gains.
    pub rate_ppm: f64,
    /// How far it is ahead at the first packet.
    pub offset: Shift,
    /// How far it jumps.
    pub step: Shift,
    /// Arrival number of the packet before which it jumps.
    pub step_at: u64,
}

impl From<Clock> for WrongClock {
    fn from(clock: Clock) -> Self {
        Self {
            rate_ppb: (clock.rate_ppm * 1e3).round() as i64,
            offset_ns: clock.offset.0,
            step_ns: clock.step.0,
            step_at: clock.step_at,
        }
    }
}

/// What is done to the packets that it selects. Rules are applied in their order; a dropped packet meets no more.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "RuleTable")]
pub struct Rule {
    /// Which packets.
    pub select: Select,
    /// They vanish.
    pub drop: bool,
    /// They are sent again.
    pub duplicate: Option<Duplicate>,
    /// They wait for later ones.
    pub hold: Option<Hold>,
    /// They take time.
    pub delay: Option<Delay>,
    /// The delays of this rule let no packet overtake another that it delayed.
    pub keep_order: bool,
    /// Bits of them are flipped, in all copies.
    pub corrupt: Option<Corrupt>,
    /// Their time of sending is written over.
    pub clock: Option<Clock>,
}

/// A rule as it stands in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    probability: Option<f64>,
    gilbert_elliott: Option<GilbertElliott>,
    packets: Option<Vec<Numbers>>,
    #[serde(default)]
    drop: bool,
    duplicate: Option<Duplicate>,
    hold: Option<Hold>,
    delay: Option<Delay>,
    keep_order: Option<bool>,
    corrupt: Option<Corrupt>,
    clock: Option<Clock>,
}

/// An arrival number, or a range of them with both ends as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(u64),
    Range(String),
}

impl Numbers {
    fn range(self) -> Result<RangeInclusive<u64>, String> {
        match self {
            Self::One(number) => Ok(number..=number),
            Self::Range(text) => text
                .split_once('-')
                .and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)))
                .filter(|(from, to): &(u64, u64)| from <= to)
                .map(|(from, to)| from..=to)
                .ok_or_else(|| format!("`{text}` is no range of packets such as \"10-20\"")),
        }
    }
}

fn probability(name: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} = {value} is no probability from 0 to 1"))
    }
}

impl RuleTable {
    fn select(&mut self) -> Result<Select, String> {
        match (self.probability, self.gilbert_elliott, self.packets.take()) {
            (None, None, None) => Ok(Select::All),
            (Some(chance), None, None) => {
                probability("probability", chance)?;
                Ok(Select::Probability(chance))
            }
            (None, Some(chain), None) => {
                for (name, value) in
                    [("p", chain.p), ("r", chain.r), ("good", chain.good), ("bad", chain.bad)]
                {
                    probability(name, value)?;
                }
                Ok(Select::GilbertElliott(chain))
            }
            (None, None, Some(numbers)) => {
                numbers.into_iter().map(Numbers::range).collect::<Result<_, _>>().map(Select::Packets)
            }
            _ => Err("a rule takes one of probability, gilbert_elliott and packets".into()),
        }
    }
}

impl TryFrom<RuleTable> for Rule {
    type Error = String;

    fn try_from(mut table: RuleTable) -> Result<Self, String> {
        let select = table.select()?;
        match table.delay {
            Some(Delay::Uniform(least, most)) if least > most => {
                return Err("delay.uniform needs the shorter length first".into());
            }
            Some(Delay::Queue(queue)) if !(queue.shape > 1.0 && queue.load >= 0.0) => {
                return Err("delay.queue needs a shape above 1 and a load of 0 or more".into());
            }
            _ => {}
        }
        // A queue is first in, first out unless one asks otherwise.
        let keep_order = table.keep_order.unwrap_or(matches!(table.delay, Some(Delay::Queue(_))));
        let rule = Self {
            select,
            drop: table.drop,
            duplicate: table.duplicate,
            hold: table.hold,
            delay: table.delay,
            keep_order,
            corrupt: table.corrupt,
            clock: table.clock,
        };
        if !rule.drop && rule == (Self { select: rule.select.clone(), keep_order, ..Self::default() }) {
            return Err("a rule needs one of drop, duplicate, hold, delay, corrupt and clock".into());
        }
        Ok(rule)
    }
}

impl Rule {
    /// A rule that does nothing yet to the packets selected.
    pub fn on(select: Select) -> Self {
        Self { select, ..Self::default() }
    }

    /// For each packet by itself with this probability.
    pub fn chance(probability: f64) -> Self {
        Self::on(Select::Probability(probability))
    }

    /// For the packets with these arrival numbers.
    pub fn packets(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self::on(Select::Packets(numbers.into_iter().map(|number| number..=number).collect()))
    }

    /// They vanish.
    #[must_use]
    pub fn dropped(self) -> Self {
        Self { drop: true, ..self }
    }

    /// They are followed at once by so many copies.
    #[must_use]
    pub fn copied(self, copies: u32) -> Self {
        Self { duplicate: Some(Duplicate { copies, spacing: Span::default(), later: 0 }), ..self }
    }

    /// They leave right after so many later packets have left.
    #[must_use]
    pub fn held(self, later: u32) -> Self {
        Self { hold: Some(Hold { later }), ..self }
    }

    /// They take time.
    #[must_use]
    pub fn delayed(self, delay: Delay) -> Self {
        Self { keep_order: matches!(delay, Delay::Queue(_)), delay: Some(delay), ..self }
    }

    /// So many random bits of the field are flipped.
    #[must_use]
    pub fn corrupted(self, field: Field, random: u32) -> Self {
        Self { corrupt: Some(Corrupt { field, bits: Vec::new(), random }), ..self }
    }

    /// Their time of sending is that of a wrong clock.
    #[must_use]
    pub fn misdated(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_reads_as_it_explains() {
        let script = Script::from_toml(include_str!("example.toml")).unwrap();
        assert_eq!((script.seed, script.release_after), (7, Span::from_ns(500_000_000)));
        assert_eq!((script.up.len(), script.down.len()), (6, 3));
        assert_eq!(script.up[0], Rule::chance(0.01).dropped());
        assert_eq!(script.up[2].select, Select::Packets(vec![3..=3, 10..=20]));
        assert!(script.down[0].keep_order);
        let clock = WrongClock { rate_ppb: 50_000, offset_ns: -2_000_000, step_ns: 5_000_000, step_at: 500 };
        assert_eq!(script.down[2].clock.map(WrongClock::from), Some(clock));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("[[up]]\nprobability = 1.5\ndrop = true", "no probability"),
            ("[[up]]\nprobability = 0.5\npackets = [1]\ndrop = true", "one of probability"),
            ("[[up]]\nprobability = 0.5", "needs one of drop"),
            ("[[up]]\npackets = [\"9-3\"]\ndrop = true", "no range"),
            ("[[up]]\ndelay = { constant = \"5\" }", "no length of time"),
            ("[[up]]\ndelay = { uniform = [\"5ms\", \"1ms\"] }", "shorter length first"),
            (
                "[[up]]\ndelay = { queue = { drain = \"1ms\", load = 0.5, shape = 1.0, most = \"1s\" } }",
                "shape",
            ),
            ("[[sideways]]\ndrop = true", "sideways"),
            ("[[up]]\ndropp = true", "dropp"),
        ] {
            let message = Script::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
