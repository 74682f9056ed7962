//! Every capture of the test data through the router, as it is and addressed to the router.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ebb_capture::Reader;

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
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let file = BufReader::new(File::open(path).expect("a capture"));
    let Ok(reader) = Reader::new(&path.display().to_string(), file) else { return Vec::new() };
    let mut packets: Vec<Vec<u8>> =
        reader.map_while(Result::ok).map(|packet| packet.data).collect();
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
