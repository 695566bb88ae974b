//! The kernel's own description of its records: `events/*/*/format` and `events/header_page`.
//!
//! Offsets differ between kernels, so they are read at run time and never assumed
//! (Documentation/trace/events.rst, "Event formats").

/// Where one field of a record lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name without array brackets.
    pub name: String,
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
    /// Whether its top bit is a sign.
    pub signed: bool,
    /// Whether it is a `__data_loc` or `__rel_loc` word: offset in the low 16 bits, length in the high 16.
    pub location: Location,
}

/// How the bytes of a field are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In place.
    Inline,
    /// Elsewhere in the record, counted from its start (`__data_loc`).
    Absolute,
    /// Elsewhere in the record, counted from the end of this field (`__rel_loc`).
    Relative,
}

impl Field {
    /// The field as a number, sign-extended; none if the record is too short or the field too wide.
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        let octets = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let value = match octets {
            [a] => u64::from(*a),
            [a, b] => u64::from(u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            _ => u64::from_le_bytes(octets.try_into().ok()?),
        };
        if self.signed && self.size < 8 {
            let shift = 64 - 8 * self.size as u32;
            return Some(((value << shift) as i64 >> shift) as u64);
        }
        Some(value)
    }

    /// The bytes that the field holds or points to; none if they lie outside the record.
    pub fn octets<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let end = self.offset.checked_add(self.size)?;
        let inline = record.get(self.offset..end)?;
        let base = match self.location {
            Location::Inline => return Some(inline),
            Location::Absolute => 0,
            Location::Relative => end,
        };
        let word = u32::from_le_bytes(inline.try_into().ok()?);
        let from = base + (word & 0xffff) as usize;
        record.get(from..from + (word >> 16) as usize)
    }
}

/// The layout of one event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Event name without its group.
    pub name: String,
    /// What `common_type` holds in its records.
    pub id: u16,
    /// All fields, the common ones first.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// Reads a `format` file; none if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if let Some(field) = parse_field(line) {
                fields.push(field);
            }
        }
        Some(Self { name: name?, id: id?, fields })
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The layout of a page of `trace_pipe_raw`.
///
/// ```text
///  0            8         16                                       size
///  +------------+---------+------------------------------------------+
///  | time stamp | commit  | records                                  |
///  +------------+---------+------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the commit word.
    pub commit_offset: usize,
    /// Bytes of the commit word: 8 on 64-bit kernels, 4 on 32-bit ones.
    pub commit_size: usize,
    /// Offset of the first record.
    pub data_offset: usize,
    /// Bytes of the whole page.
    pub size: usize,
}

impl PageLayout {
    /// Reads `events/header_page`; none if a field is missing or cannot be right.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<Field> = text.lines().filter_map(parse_field).collect();
        let field = |name: &str| fields.iter().find(|field| field.name == name);
        let (stamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let layout = Self {
            commit_offset: commit.offset,
            commit_size: commit.size,
            data_offset: data.offset,
            size: data.offset.checked_add(data.size)?,
        };
        let plausible = stamp.offset == 0
            && stamp.size == 8
            && matches!(layout.commit_size, 4 | 8)
            && layout.commit_offset + layout.commit_size <= layout.data_offset
            && layout.size <= 1 << 24;
        plausible.then_some(layout)
    }
}

/// Reads a line such as `field:char comm[16]; offset:8; size:16; signed:0;`.
fn parse_field(line: &str) -> Option<Field> {
    let rest = line.trim().strip_prefix("field:")?;
    let mut parts = rest.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size, signed) = (value("offset:")?, value("size:")?, value("signed:")? != 0);
    let location = if declaration.starts_with("__data_loc") {
        Location::Absolute
    } else if declaration.starts_with("__rel_loc") {
        Location::Relative
    } else {
        Location::Inline
    };
    let word = declaration.split_whitespace().next_back()?;
    let name = word.split('[').next()?.trim_start_matches('*').to_owned();
    Some(Field { name, offset, size, signed, location })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"x\", REC->prev_state\n";

    #[test]
    fn reads_an_event_format() {
        let format = EventFormat::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        let names: Vec<&str> = format.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["common_type", "common_pid", "prev_comm", "prev_state", "name"]);
        assert_eq!(format.field("name").unwrap().location, Location::Absolute);
        assert_eq!(EventFormat::parse("nothing"), None);
    }

    #[test]
    fn reads_a_page_layout() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let layout = PageLayout { commit_offset: 8, commit_size: 8, data_offset: 16, size: 4096 };
        assert_eq!(PageLayout::parse(text), Some(layout));
        assert_eq!(PageLayout::parse(&text.replace("size:4080", "size:99999999999")), None);
    }

    #[test]
    fn numbers_extend_their_sign_and_stay_inside() {
        let field =
            |size, signed| Field { name: String::new(), offset: 1, size, signed, location: Location::Inline };
        let record = [0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(field(4, true).number(&record), Some(u64::MAX));
        assert_eq!(field(4, false).number(&record), Some(0xffff_ffff));
        assert_eq!(field(2, false).number(&record), Some(0xffff));
        assert_eq!(field(8, false).number(&record), None);
        assert_eq!(field(3, false).number(&record), None);
    }

    #[test]
    fn follows_data_locations() {
        let mut field =
            Field { name: String::new(), offset: 0, size: 4, signed: false, location: Location::Absolute };
        let record = [6, 0, 2, 0, 9, 9, b'l', b'o'];
        assert_eq!(field.octets(&record), Some(&b"lo"[..]));
        field.location = Location::Relative;
        assert_eq!(field.octets(&[2, 0, 2, 0, 9, 9, b'l', b'o']), Some(&b"lo"[..]));
        assert_eq!(field.octets(&record), None, "points past the record");
    }
}
