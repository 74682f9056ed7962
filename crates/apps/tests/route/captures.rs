//! Every capture of the test data through the router, as it is and addressed to the router.

use std::fs::{self, File};
use std::path::PathBuf;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::harness::{IN, Router, own_mac};

fn captures() -> Option<Vec<PathBuf>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/pcap");
    let Ok(entries) = fs::read_dir(folder) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{folder} must be there in CI");
        eprintln!("skipped: {folder} is not there");
        return None;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    Some(paths)
}

/// The packets of a capture, as far as it can be read.
fn packets(path: &PathBuf) -> Vec<Vec<u8>> {
    let open = || File::open(path).expect("a capture");
    let mut packets = Vec::new();
    if let Ok(mut reader) = PcapReader::new(open()) {
        while let Some(Ok(packet)) = reader.next_raw_packet() {
            packets.push(packet.data.into_owned());
        }
    } else if let Ok(mut reader) = PcapNgReader::new(open()) {
        while let Some(Ok(block)) = reader.next_block() {
            match block {
                Block::EnhancedPacket(block) => packets.push(block.data.into_owned()),
                Block::SimplePacket(block) => packets.push(block.data.into_owned()),
                _ => {}
            }
        }
    }
    packets.iter_mut().for_each(|packet| packet.truncate(ebb_graph::FRAME_LEN - 256));
    packets
}

#[test]
fn captures_pass_without_loss() {
    let Some(paths) = captures() else { return };
    let mut router = Router::new();
    let mut count = 0;
    for path in paths {
        let packets = packets(&path);
        count += packets.len();
        for batch in packets.chunks(32) {
            router.send(batch);
            router.wait(1_000_000);
            let addressed: Vec<Vec<u8>> = batch
                .iter()
                .map(|packet| {
                    let mut packet = packet.clone();
                    if packet.len() >= 6 {
                        packet[..6].copy_from_slice(&own_mac(IN));
                    }
                    packet
                })
                .collect();
            router.send(&addressed);
            router.wait(1_000_000_000);
        }
    }
    assert!(count > 5_000, "only {count} packets could be read");
}
