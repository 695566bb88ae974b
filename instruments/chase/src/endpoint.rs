//! Where a stream goes, as a person gives it.

use quaver_instrument::exit_code::{ExitCode, failure};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// A port of a host that may be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Its address, the first IPv4 one where a name has several: most streams are IPv4, and receivers listen there.
    ///
    /// # Errors
    /// The name has no address.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let found = (self.host.as_str(), self.port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        let address = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
        address.ok_or_else(|| {
            let message = format!("{}: no such host; give its address or a name that resolves", self.host);
            failure(ExitCode::Usage, message)
        })
    }
}

const PORTS: &str = "a port is a number up to 65535";

/// `HOST:PORT` or `[IPv6]:PORT`.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, String> {
    let (host, port) = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .ok_or("name a host and a port, HOST:PORT")?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if bare.is_none() && host.contains(':') {
        return Err("an IPv6 address with a port is [ADDRESS]:PORT".to_owned());
    }
    let port = port.parse().map_err(|_| PORTS)?;
    Ok(Endpoint { host: bare.unwrap_or(host).to_owned(), port })
}

/// The same, where something may listen.
pub(crate) fn destination(text: &str) -> Result<Endpoint, String> {
    let to = endpoint(text)?;
    if to.port == 0 {
        Err("nothing listens on port 0: give a port from 1 to 65535".to_owned())
    } else {
        Ok(to)
    }
}

/// `HOST:PORT` or `[IPv6]:PORT`, or a port alone: that of any IPv4 address of this host.
pub(crate) fn listening(text: &str) -> Result<Endpoint, String> {
    match text.strip_prefix(':').unwrap_or(text).parse() {
        Ok(port) => Ok(Endpoint { host: Ipv4Addr::UNSPECIFIED.to_string(), port }),
        Err(_) if text.bytes().all(|octet| octet.is_ascii_digit()) => Err(PORTS.to_owned()),
        Err(_) => endpoint(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_that_of_any_address() {
        for text in ["5004", ":5004", "0.0.0.0:5004"] {
            let address = listening(text).unwrap().address().unwrap();
            assert_eq!(address, (Ipv4Addr::UNSPECIFIED, 5004).into(), "{text}");
        }
        assert!(endpoint("5004").is_err() && endpoint(":5004").is_err(), "nothing is sent to any address");
        assert_eq!(listening("70000").unwrap_err(), "a port is a number up to 65535");
        assert_eq!(listening("0"), listening("0.0.0.0:0"), "the kernel chooses one");
        assert!(destination("host:0").unwrap_err().starts_with("nothing listens on port 0"));
        assert_eq!(destination("host:1"), endpoint("host:1"));
    }

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, address) in [
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("[2001:db8::1]:2", "[2001:db8::1]:2"),
            ("localhost:3", "127.0.0.1:3"),
        ] {
            assert_eq!(endpoint(text).unwrap().address().unwrap(), address.parse().unwrap());
            assert_eq!(listening(text), endpoint(text));
        }
        // No resolver is asked for a name with a zero in it.
        let error = endpoint("a\0b:1").unwrap().address().unwrap_err().to_string();
        assert!(error.starts_with("a\0b: no such host"), "{error}");
        for text in ["", "host", "host:", "host:65536", "host:x", "2001:db8::1:2", "é:é"] {
            assert!(endpoint(text).is_err() && listening(text).is_err(), "{text}");
        }
    }
}
