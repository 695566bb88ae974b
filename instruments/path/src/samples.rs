//! `samples.parquet` of a path measurement: received test packets.

use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_INVALID, FLAG_UNSTAMPED, Singleton};
use quaver_store::columns::TableReader;
use quaver_store::error::StoreError;
use quaver_store::table::{self, Column, Layout, Table};
use std::path::Path;

/// Packets of a path.
pub static TABLE: Table = Table {
    name: "path",
    file: "samples.parquet",
    rows: "A row per received test packet, flow by flow, in order of arrival.",
    columns: &[
        Column::required("flow", Layout::Few(8), "place of the flow in the manifest"),
        Column::required("tx_seq", Layout::U32, "sequence number as the packet carried it"),
        Column::required("sent_ns", Layout::I64, "CLOCK_REALTIME of the sender, as the packet carried it"),
        Column::required("received_ns", Layout::I64, "CLOCK_REALTIME of the receiver on arrival"),
        Column::required(
            "flags",
            Layout::Few(32),
            "as in a Jitlat log; a row with any flag stays out of the analysis",
        ),
        Column::names(
            "flag_names",
            ["flags", "flags"],
            flag_names,
            "names of the flags, joined by `+`: `duplicate`, `invalid`, `unstamped`; null: none of them is set",
        ),
    ],
    span: Some(["sent_ns", "received_ns"]),
};

fn flag_names(flags: u32, _: u32) -> Option<String> {
    let names = [(FLAG_DUPLICATE, "duplicate"), (FLAG_INVALID, "invalid"), (FLAG_UNSTAMPED, "unstamped")];
    table::flag_names(flags, &names.map(|(flag, name)| (flag.cast_unsigned(), name)))
}

/// Writes `samples.parquet`: the packets of each flow, in the order of the manifest's flows.
///
/// # Errors
/// The file cannot be written, or there are more than 256 flows.
pub fn write_path_samples(path: &Path, flows: &[&[Singleton]]) -> Result<(), StoreError> {
    if flows.len() > 256 {
        let reason = format!("{} flows do not fit their 8-bit number", flows.len());
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let mut table = TABLE.create(path)?.of_run();
    for (flow, packets) in flows.iter().enumerate() {
        table.rows(packets.len(), |group, range| {
            let packets = &packets[range];
            group.u32(packets.iter().map(|_| flow as u32))?;
            group.u32(packets.iter().map(|packet| packet.tx_seq.cast_unsigned()))?;
            group.i64(packets.iter().map(|packet| packet.tx_real_time_ns))?;
            group.i64(packets.iter().map(|packet| packet.rx_real_time_ns))?;
            group.u32(packets.iter().map(|packet| packet.flags.cast_unsigned()))?;
            group.names(packets.iter().map(|packet| (packet.flags.cast_unsigned(), 0)), flag_names)
        })?;
    }
    table.finish()
}

/// Reads `samples.parquet` of a run with so many flows.
///
/// # Errors
/// The file cannot be read, is of a later format, is no table of a path, or names a flow that the run has not.
pub fn read_path_samples(path: &Path, flows: usize) -> Result<Vec<Vec<Singleton>>, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let empty = Singleton { tx_real_time_ns: 0, tx_seq: 0, rx_real_time_ns: 0, flags: 0 };
    let mut packets: Vec<Singleton> = table.reserved();
    packets.resize(table.rows(), empty);
    table.u32("tx_seq", |row, seq| packets[row].tx_seq = seq.cast_signed())?;
    table.i64("sent_ns", |row, ns| packets[row].tx_real_time_ns = ns)?;
    table.i64("received_ns", |row, ns| packets[row].rx_real_time_ns = ns)?;
    table.u32("flags", |row, flags| packets[row].flags = flags.cast_signed())?;
    let mut by_flow = vec![Vec::new(); flows];
    let mut unknown = None;
    table.u32("flow", |row, flow| match by_flow.get_mut(flow as usize) {
        Some(of_flow) => of_flow.push(packets[row]),
        None => unknown = Some(flow),
    })?;
    match unknown {
        Some(flow) => Err(table.shape(format!("it has packets of flow {flow}, the run has {flows} flows"))),
        None => Ok(by_flow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: i32) -> Singleton {
        let at_ns = 1_246_650_331_413_984_400 + i64::from(seq);
        Singleton { tx_real_time_ns: at_ns, tx_seq: seq, rx_real_time_ns: at_ns - 7, flags: seq & 3 }
    }

    #[test]
    fn flows_come_back_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.parquet");
        let up: Vec<Singleton> = (0..1000).rev().map(packet).collect();
        let down: Vec<Singleton> = [i32::MAX, i32::MIN, -2].map(packet).to_vec();
        write_path_samples(&path, &[&up, &[], &down]).unwrap();
        assert_eq!(read_path_samples(&path, 3).unwrap(), [up, Vec::new(), down]);
        let (mut flags, table) = (Vec::new(), TableReader::open(&path, TABLE.name).unwrap());
        let owned = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        table.optional_text("flag_names", |_, names| flags.push(names.map(owned))).unwrap();
        let four = ["duplicate+invalid", "invalid", "duplicate"].map(|names| Some(names.to_owned()));
        assert_eq!(flags[..4], [four[0].clone(), four[1].clone(), four[2].clone(), None], "999 to 996");
        let error = read_path_samples(&path, 2).unwrap_err().to_string();
        assert!(error.contains("packets of flow 2, the run has 2 flows"), "{error}");
    }

    #[test]
    fn a_table_of_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gaps.parquet");
        quaver_store::gaps::write_gaps(&path, &Default::default()).unwrap();
        let error = read_path_samples(&path, 1).unwrap_err().to_string();
        assert!(error.contains("not a table of path"), "{error}");
    }
}
