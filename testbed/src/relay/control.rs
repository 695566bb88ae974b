//! The one thing that the relay changes in a control connection of Quaver's extension: the server tells the client the
//! port of test packets (field COOKIE of ACCEPT), and where the relay has another port, the client must be told that.
//!
//! Jitlat's own messages are left alone, and so are messages with a code, which only the two ends can make: with a
//! key, the relay must stand on another address at the server's port.

/// The command of all messages of the extension.
const EXTEND: u32 = 8;
/// Bytes before a message's body.
const HEADER: usize = 40;
/// The kind of message that has the port.
const ACCEPT: u32 = 9;
/// The field that has it, in its last four bytes.
const COOKIE: u16 = 0x8008;
/// Bytes of a body at most; more is none of the extension.
const MOST_BODY: usize = 65_536;

/// Changes the port in what the server says.
#[derive(Debug)]
pub(super) struct Rewriter {
    server: u16,
    relay: u16,
    /// The start of a message whose rest has yet to come.
    pending: Vec<u8>,
    /// What is said is not of the extension.
    foreign: bool,
}

fn number(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

impl Rewriter {
    /// Changes the port `server` to `relay`.
    pub(super) fn new(server: u16, relay: u16) -> Self {
        Self { server, relay, pending: Vec::new(), foreign: server == relay }
    }

    /// What to pass on after these bytes came.
    pub(super) fn pass(&mut self, octets: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(octets);
        let mut whole = 0;
        while !self.foreign {
            let rest = &mut self.pending[whole..];
            if rest.len() < HEADER {
                break;
            }
            let body = number(rest, 8) as usize;
            if number(rest, 0) != EXTEND || body > MOST_BODY {
                self.foreign = true;
            } else if let Some(message) = rest.get_mut(..HEADER + body) {
                let (kind, flags) = (number(message, 12), number(message, 24));
                if (kind, flags) == (ACCEPT, 0) {
                    change_port(&mut message[HEADER..], self.server, self.relay);
                }
                whole += HEADER + body;
            } else {
                break;
            }
        }
        let ready = if self.foreign { self.pending.len() } else { whole };
        self.pending.drain(..ready).collect()
    }

    /// What is left at the end.
    pub(super) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

fn change_port(mut body: &mut [u8], server: u16, relay: u16) {
    while let Some((head, rest)) = body.split_at_mut_checked(4) {
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let Some((value, rest)) = rest.split_at_mut_checked(length) else { return };
        if let (COOKIE, Some(port)) = (kind, value.last_chunk_mut::<4>())
            && *port == u32::from(server).to_be_bytes()
        {
            *port = u32::from(relay).to_be_bytes();
        }
        body = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u32, flags: u32, body: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; HEADER];
        octets[..4].copy_from_slice(&EXTEND.to_be_bytes());
        octets[8..12].copy_from_slice(&(body.len() as u32).to_be_bytes());
        octets[12..16].copy_from_slice(&kind.to_be_bytes());
        octets[24..28].copy_from_slice(&flags.to_be_bytes());
        octets.extend_from_slice(body);
        octets
    }

    fn cookie(port: u32) -> Vec<u8> {
        let mut field = vec![0x80, 0x07, 0, 1, 9, 0x80, 0x08, 0, 28];
        field.extend([7; 24]);
        field.extend(port.to_be_bytes());
        field
    }

    #[test]
    fn the_port_is_changed_in_whatever_pieces_it_comes() {
        let said = [message(5, 0, &cookie(2667)), message(9, 0, &cookie(2667)), message(9, 1, &cookie(2667))]
            .concat();
        let wanted =
            [message(5, 0, &cookie(2667)), message(9, 0, &cookie(9000)), message(9, 1, &cookie(2667))]
                .concat();
        for step in [1, 7, 39, 40, 41, said.len()] {
            let mut rewriter = Rewriter::new(2667, 9000);
            let mut passed: Vec<u8> = said.chunks(step).flat_map(|piece| rewriter.pass(piece)).collect();
            passed.extend(rewriter.end());
            assert_eq!(passed, wanted, "in pieces of {step}");
        }
    }

    #[test]
    fn what_is_not_of_the_extension_passes_as_it_is() {
        let mut octets = message(9, 0, &cookie(2667));
        octets[3] = 5;
        let mut rewriter = Rewriter::new(2667, 9000);
        assert_eq!(rewriter.pass(&octets), octets);
        assert_eq!(rewriter.pass(b"more"), b"more");
        assert_eq!(Rewriter::new(2667, 9000).pass(b"short"), b"");
    }

    #[test]
    fn broken_fields_are_left_alone() {
        let broken = message(9, 0, &[0x80, 0x08, 0, 200, 1, 2]);
        assert_eq!(Rewriter::new(1, 2).pass(&broken), broken);
    }
}
