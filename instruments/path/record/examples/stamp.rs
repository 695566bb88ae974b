//! Both ends of STAMP for tests against other implementations (`scripts/interop/stamp.sh`).
//!
//! `stamp reflect ADDRESS:PORT [stateless] [key=HEX] [ptp]` prints where it listens and reflects until its standard
//! input ends, then prints what it did. `stamp send ADDRESS:PORT [count=N] [period_us=N] [bytes=N] [ssid=N]
//! [dscp=N] [key=HEX] [tlvs] [ptp]` prints one line of what was measured, `name=value` each.

use quaver_path_record::stamp::{
    DirectionCounts, Protection, ReflectorEvent, ReflectorOptions, Requests, SenderOptions, StampKey,
    StampOutcome, TimestampFormat, reflect, send_session,
};
use std::error::Error;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [verb, address, options @ ..] if verb == "reflect" => reflector(address, options),
        [verb, address, options @ ..] if verb == "send" => sender(address, options),
        _ => Err("usage: stamp reflect|send ADDRESS:PORT [OPTION...]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stamp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn key(hex: &str) -> Result<Protection, Box<dyn Error>> {
    let octet = |pair: &[u8]| Ok::<_, Box<dyn Error>>(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    let octets = hex.as_bytes().chunks(2).map(octet).collect::<Result<Vec<u8>, _>>()?;
    Ok(Protection::All(StampKey::new(&octets)?))
}

fn reflector(address: &str, options: &[String]) -> Result<(), Box<dyn Error>> {
    let mut reflector = ReflectorOptions { bind: address.parse()?, ..ReflectorOptions::default() };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("stateless", "") => reflector.stateful = false,
            ("ptp", "") => reflector.format = TimestampFormat::Ptp,
            ("key", hex) => reflector.protection = key(hex)?,
            _ => return Err(format!("{option}: no such option").into()),
        }
    }
    let stop = AtomicBool::new(false);
    let totals = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The end of standard input is the sign to stop.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stop.store(true, Ordering::Relaxed);
        });
        reflect(&reflector, &stop, &mut |event| {
            if let ReflectorEvent::Listening { address, .. } = event {
                println!("listening {address}");
                let _ = std::io::stdout().flush();
            } else {
                eprintln!("{event}");
            }
        })
    })?;
    let refused: u64 = totals.refused.iter().sum();
    println!("received={} reflected={} refused={refused}", totals.received, totals.reflected);
    Ok(())
}

fn sender(address: &str, options: &[String]) -> Result<(), Box<dyn Error>> {
    let target: SocketAddr = address.parse()?;
    let mut sender = SenderOptions {
        count: Some(20),
        period_ns: 10_000_000,
        loss_timeout_ns: 1_000_000_000,
        ..SenderOptions::new(target)
    };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("count", number) => sender.count = Some(number.parse()?),
            ("period_us", number) => sender.period_ns = number.parse::<u64>()? * 1000,
            ("bytes", number) => sender.packet_bytes = Some(number.parse()?),
            ("ssid", number) => sender.ssid = number.parse()?,
            ("dscp", number) => sender.dscp = number.parse()?,
            ("key", hex) => sender.protection = key(hex)?,
            ("ptp", "") => sender.format = TimestampFormat::Ptp,
            ("tlvs", "") => {
                sender.requests = Requests {
                    location: true,
                    timestamp_information: true,
                    class_of_service: Some(10),
                    direct_measurement: true,
                    follow_up: true,
                    access_report: Some((1, 1)),
                };
            }
            _ => return Err(format!("{option}: no such option").into()),
        }
    }
    print(&send_session(&sender, &AtomicBool::new(false), &mut |_| {})?);
    Ok(())
}

fn print(outcome: &StampOutcome) {
    let DirectionCounts { evidence, forward_lost, backward_lost, .. } = outcome.directions;
    let number = |number: Option<u64>| number.map_or("unknown".to_owned(), |number| number.to_string());
    let answered: Vec<_> =
        outcome.packets.iter().filter_map(|packet| packet.reply.map(|reply| (packet.t1_ns, reply))).collect();
    let ordered = answered.iter().all(|(t1, r)| [*t1, r.t2_ns, r.t3_ns, r.t4_ns].is_sorted());
    let least_ns = answered.iter().map(|(t1, reply)| reply.round_trip_ns(*t1)).min();
    println!(
        "sent={} answered={} evidence={evidence:?} forward_lost={} backward_lost={} foreign={} wrong_hmac={} \
         flagged={} zero_ssid={} ordered={ordered} least_round_trip_ns={}",
        outcome.packets.len(),
        answered.len(),
        number(forward_lost),
        number(backward_lost),
        outcome.foreign,
        outcome.wrong_hmac,
        outcome.flagged,
        outcome.zero_ssid,
        least_ns.map_or("none".to_owned(), |ns| ns.to_string()),
    );
    let Some((_, last)) = answered.last() else { return };
    println!(
        "reflector_sequence={} ttl={} backward_dscp={} class_of_service={} received={} transmitted={} \
         follow_up={} location={} method={}",
        last.reflector_sequence,
        last.forward_ttl,
        last.backward_dscp,
        last.class_of_service
            .map_or("none".to_owned(), |c| format!("{}/{}", c.received_dscp, c.reverse_path)),
        number(last.direct_measurement.map(|counters| counters.reflector_received.into())),
        number(last.direct_measurement.map(|counters| counters.reflector_transmitted.into())),
        number(last.follow_up.map(|follow_up| follow_up.sequence.into())),
        outcome.location.map_or("none".to_owned(), |located| format!("{:?}", located.source.0)),
        number(outcome.timestamp_information.map(|how| how.method_in.into())),
    );
}
