//! Settings of network drivers through the generic netlink family `ethtool` (Linux 5.6 and newer), but for stamping, which
//! has a request of its own.

use super::stamping;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
    NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use std::io::{self, Error};

/// Identifier of the family that knows the others (linux/genetlink.h).
const CONTROL: u16 = 16;
/// Flag of an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// What a field is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Attribute with a number of 32 bits.
    Number(u16),
    /// Attribute with one byte, 0 or 1.
    Switch(u16),
    /// One bit of a set of named ones.
    Feature,
}

/// A group of fields: name before the dot, request that asks, request that sets.
const GROUPS: [(&str, u8, u8); 5] =
    [("feature", 11, 12), ("channels", 17, 18), ("coalesce", 19, 20), ("pause", 21, 22), ("eee", 23, 24)];

/// Attributes by name (linux/ethtool_netlink.h). Any feature is a field of its own.
const FIELDS: [(&str, Shape); 15] = [
    ("coalesce.rx-usecs", Shape::Number(2)),
    ("coalesce.rx-frames", Shape::Number(3)),
    ("coalesce.tx-usecs", Shape::Number(6)),
    ("coalesce.tx-frames", Shape::Number(7)),
    ("coalesce.adaptive-rx", Shape::Switch(11)),
    ("coalesce.adaptive-tx", Shape::Switch(12)),
    ("coalesce.rx-usecs-high", Shape::Number(19)),
    ("coalesce.tx-usecs-high", Shape::Number(21)),
    ("pause.autoneg", Shape::Switch(2)),
    ("pause.rx", Shape::Switch(3)),
    ("pause.tx", Shape::Switch(4)),
    ("eee.enabled", Shape::Switch(5)),
    ("channels.rx", Shape::Number(6)),
    ("channels.tx", Shape::Number(7)),
    ("channels.combined", Shape::Number(9)),
];

/// Whether there is a field of this name.
pub fn is_field(field: &str) -> bool {
    field == stamping::FIELD || shape(field).is_some()
}

fn shape(field: &str) -> Option<(u8, u8, Shape)> {
    let (group, rest) = field.split_once('.')?;
    let &(_, get, set) = GROUPS.iter().find(|(name, ..)| *name == group)?;
    if group == "feature" {
        return (!rest.is_empty()).then_some((get, set, Shape::Feature));
    }
    FIELDS.iter().find(|(name, _)| *name == field).map(|&(_, shape)| (get, set, shape))
}

/// What the driver says: a number, or `on` and `off`.
///
/// # Errors
/// `NotFound` where the driver has no such field, `ENODEV` without the interface, `EOPNOTSUPP` where it has none of the group.
pub fn get(interface: &str, field: &str) -> io::Result<String> {
    if field == stamping::FIELD {
        return stamping::get(interface).map(|stamping| stamping.to_string());
    }
    let (get, _, shape) = shape(field).ok_or(io::ErrorKind::InvalidInput)?;
    let mut link = Link::open()?;
    let answer = link.ask(request(get, interface, None))?.ok_or(io::ErrorKind::NotFound)?;
    let value = |kind: u16| find(&attributes(&answer.0), kind);
    let text = match shape {
        Shape::Number(kind) => value(kind)
            .and_then(|octets| Some(u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?).to_string())),
        Shape::Switch(kind) => value(kind).and_then(|octets| Some(on_off(*octets.first()? != 0))),
        Shape::Feature => {
            let name = field.strip_prefix("feature.").unwrap_or(field);
            let known = bits(value(2).unwrap_or_default());
            known
                .contains(&name.to_owned())
                .then(|| on_off(bits(value(4).unwrap_or_default()).contains(&name.to_owned())))
        }
    };
    text.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Sets a field, and leaves all others as they are.
///
/// # Errors
/// As [`get`]; `EINVAL` or `EOPNOTSUPP` where the driver does not take it.
pub fn set(interface: &str, field: &str, value: &str) -> io::Result<()> {
    if field == stamping::FIELD {
        return stamping::set(interface, value.parse()?);
    }
    let (_, set, shape) = shape(field).ok_or(io::ErrorKind::InvalidInput)?;
    let attribute = match shape {
        Shape::Number(kind) => {
            let number: u32 = value.parse().map_err(|_| Error::from(io::ErrorKind::InvalidInput))?;
            DefaultNla::new(kind, number.to_ne_bytes().to_vec())
        }
        Shape::Switch(kind) => DefaultNla::new(kind, vec![u8::from(switch(value)?)]),
        Shape::Feature => {
            let name = field.strip_prefix("feature.").unwrap_or(field);
            let mut bit = vec![DefaultNla::new(2, terminated(name))];
            if switch(value)? {
                bit.push(DefaultNla::new(3, Vec::new()));
            }
            let bits = nested(3, &[nested(1, &bit)]);
            nested(3, &[bits])
        }
    };
    Link::open()?.ask(request(set, interface, Some(attribute))).map(|_| ())
}

fn switch(value: &str) -> io::Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Names of the bits of a set that are listed, and in a set with a mask those that exist.
fn bits(set: &[u8]) -> Vec<String> {
    let list = find(&attributes(set), 3).map(attributes).unwrap_or_default();
    let name = |bit: &(u16, &[u8])| {
        let octets = find(&attributes(bit.1), 2)?;
        Some(String::from_utf8_lossy(octets).trim_end_matches('\0').to_owned())
    };
    list.iter().filter_map(name).collect()
}

fn attributes(octets: &[u8]) -> Vec<(u16, &[u8])> {
    // A truncated attribute ends the list: what came before it is whole.
    let whole = |octets| NlasIterator::new(octets).map_while(Result::ok);
    let mut rest = octets;
    whole(octets)
        .map(|attribute| {
            let length = usize::from(attribute.length());
            let value = &rest[4..length];
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            (attribute.kind(), value)
        })
        .collect()
}

fn find<'a>(list: &[(u16, &'a [u8])], kind: u16) -> Option<&'a [u8]> {
    list.iter().find(|(found, _)| *found == kind).map(|&(_, octets)| octets)
}

fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn nested(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    let mut octets = vec![0; inner.buffer_len()];
    inner.emit(&mut octets);
    DefaultNla::new(kind | NESTED, octets)
}

fn request(command: u8, interface: &str, attribute: Option<DefaultNla>) -> Request {
    // Every request of the family begins with a header, attribute 1, with the name in attribute 2.
    let mut list = vec![nested(1, &[DefaultNla::new(2, terminated(interface))])];
    list.extend(attribute);
    Request { command, version: 1, list }
}

/// A message to a generic netlink family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    command: u8,
    version: u8,
    list: Vec<DefaultNla>,
}

impl GenlFamily for Request {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        self.version
    }
}

impl Emitable for Request {
    fn buffer_len(&self) -> usize {
        self.list.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.list.as_slice().emit(buffer);
    }
}

/// An answer: attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer(Vec<u8>);

impl ParseableParametrized<[u8], GenlHeader> for Answer {
    fn parse_with_param(octets: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self(octets.to_vec()))
    }
}

/// A socket in the namespace of this thread, and the family's number.
struct Link {
    socket: Socket,
    family: u16,
    sequence: u32,
}

impl Link {
    fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let mut link = Self { socket, family: CONTROL, sequence: 0 };
        // CTRL_CMD_GETFAMILY with the name in attribute 2 answers with the number in attribute 1.
        let name = DefaultNla::new(2, terminated(Request::family_name()));
        let answer = link.ask(Request { command: 3, version: 1, list: vec![name] }).map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound;
            if missing { Error::from_raw_os_error(libc::EOPNOTSUPP) } else { error }
        })?;
        let number = answer.as_ref().and_then(|answer| find(&attributes(&answer.0), 1)?.try_into().ok());
        link.family = number.map(u16::from_ne_bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(link)
    }

    /// Sends a request and waits for its acknowledgement; the answer that came before it, if any.
    fn ask(&mut self, request: Request) -> io::Result<Option<Answer>> {
        self.sequence += 1;
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.family);
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        let mut found = None;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<GenlMessage<Answer>>::deserialize(rest)
                    .map_err(|error| Error::other(format!("answer of generic netlink: {error}")))?;
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or(&[]);
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Error(outcome) => {
                        return outcome.code.map_or(Ok(found), |_| Err(outcome.to_io()));
                    }
                    NetlinkPayload::InnerMessage(inner) => found = Some(inner.payload),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_shapes_and_others_have_not() {
        assert_eq!(shape("coalesce.rx-usecs"), Some((19, 20, Shape::Number(2))));
        assert_eq!(shape("eee.enabled"), Some((23, 24, Shape::Switch(5))));
        assert_eq!(shape("feature.rx-gro"), Some((11, 12, Shape::Feature)));
        assert_eq!([shape("coalesce.rx"), shape("feature."), shape("rx-gro"), shape("")], [None; 4]);
    }

    /// A set of one bit, as the kernel lists it.
    #[test]
    fn a_set_of_bits_is_read_by_name() {
        let bit = |name: &str| {
            nested(1, &[DefaultNla::new(1, vec![9, 0, 0, 0]), DefaultNla::new(2, terminated(name))])
        };
        let list = nested(3, &[bit("rx-gro"), bit("tx-nocache-copy")]);
        let mut octets = vec![0; list.buffer_len()];
        list.emit(&mut octets);
        assert_eq!(bits(&octets), ["rx-gro", "tx-nocache-copy"]);
        for length in 0..octets.len() {
            assert!(bits(&octets[..length]).len() < 2, "{length}");
        }
    }

    #[test]
    fn the_loopback_answers() {
        match get("lo", "feature.rx-gro") {
            Ok(value) => assert!(["on", "off"].contains(&value.as_str())),
            // A kernel without CONFIG_ETHTOOL_NETLINK.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}"),
        }
        assert!(get("lo", "coalesce.rx-usecs").is_err());
        assert!(get("no-such-dev", "feature.rx-gro").is_err());
        assert!(get("lo", "feature.no-such-feature").is_err());
    }
}
