//! What the journal says: one record a line, each with its checksum.
//!
//! ```text
//! 3f9a01c2 {"record":"intent","session":1,"change":1,"knob":{"kind":"file","path":"/proc/sys/..."},...}
//! ^        ^ JSON up to the line end
//! first 8 hexadecimal digits of SHA-256 over the JSON
//! ```

use super::super::hold::Holder;
use super::super::knob::Knob;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Version of the journal. Goes up when an old reader would misread a new journal.
pub const FORMAT: u32 = 1;

/// What a knob said, byte for byte: as text where it is text, else as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct SettingValue(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { hex: String },
}

impl From<SettingValue> for Written {
    fn from(said: SettingValue) -> Self {
        match String::from_utf8(said.0) {
            Ok(text) => Self::Text(text),
            Err(error) => {
                Self::Bytes { hex: error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect() }
            }
        }
    }
}

impl From<Written> for SettingValue {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Self(text.into_bytes()),
            Written::Bytes { hex } => {
                let digits: Vec<u8> =
                    hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
                Self(
                    digits
                        .chunks(2)
                        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
                        .collect(),
                )
            }
        }
    }
}

impl SettingValue {
    /// As a person reads it.
    pub fn shown(&self) -> String {
        super::super::knob::chosen(&String::from_utf8_lossy(&self.0)).replace('\t', " ")
    }
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The old value was written back and read again, byte for byte.
    Restored,
    /// The knob said its old value already.
    Unchanged,
    /// What it belonged to is gone, and its value with it.
    Vanished,
    /// A reboot took the value away.
    Rebooted,
    /// Somebody was asked, and let the present value stay.
    Forgotten,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// A verb begins to change settings.
    Begin {
        /// Version of the journal.
        format: u32,
        /// Number of the session, from 1.
        session: u64,
        /// Verb, such as `capture`.
        verb: String,
        /// Its process.
        pid: u32,
        /// The kernel's number of this boot: settings of another boot are gone.
        boot: String,
        /// When, CLOCK_REALTIME in nanoseconds. For people only.
        realtime_ns: i64,
    },
    /// A knob is about to be written.
    Intent {
        /// Session.
        session: u64,
        /// Number of the change, from 1, over all sessions.
        change: u64,
        /// The knob.
        knob: Knob,
        /// What tells its object from a later one of the same address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// Network namespace that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// What it says now.
        before: SettingValue,
        /// What will be written.
        want: SettingValue,
        /// Row of the catalogue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        row: Option<String>,
    },
    /// It was written, and says this.
    Done {
        /// The change.
        change: u64,
        /// As read back.
        after: SettingValue,
        /// Process that holds the device open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
    },
    /// What this session set stays when its process ends.
    Kept {
        /// Session.
        session: u64,
    },
    /// The change is no more.
    Undone {
        /// The change.
        change: u64,
        /// How it ended.
        how: Ending,
    },
}

/// The line of a record, with its line end.
pub(super) fn line(record: &Record) -> Vec<u8> {
    let json = serde_json::to_string(record).expect("a record is plain data, which JSON can hold");
    format!("{} {json}\n", checksum(json.as_bytes())).into_bytes()
}

/// The record of a line without its line end; none if it is torn or altered.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    let (sum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(b" ")?;
    (sum == checksum(json).as_bytes()).then_some(())?;
    serde_json::from_slice(json).ok()
}

fn checksum(json: &[u8]) -> String {
    Sha256::digest(json).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(before in proptest::collection::vec(any::<u8>(), 0..40)) {
            let record = Record::Done { change: 1, after: SettingValue(before), holder: None };
            let line = line(&record);
            prop_assert_eq!(parse(&line[..line.len() - 1]), Some(record));
        }
    }

    #[test]
    fn a_torn_or_altered_line_is_no_record() {
        let whole = line(&Record::Undone { change: 7, how: Ending::Restored });
        let whole = &whole[..whole.len() - 1];
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None);
        }
        let altered = String::from_utf8(whole.to_vec()).unwrap().replace('7', "8");
        assert_eq!(parse(altered.as_bytes()), None);
    }

    #[test]
    fn what_is_no_text_is_kept_too() {
        let json = serde_json::to_string(&SettingValue(vec![0xff, 0x00, 0x0a])).unwrap();
        assert_eq!(json, r#"{"hex":"ff000a"}"#);
        assert_eq!(
            serde_json::from_str::<SettingValue>(&json).unwrap(),
            SettingValue(vec![0xff, 0x00, 0x0a])
        );
    }
}
