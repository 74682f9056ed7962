//! Real captures: everything arrives as it was; what the link is spared is printed.

use std::path::Path;

use crate::harness::{IN, Left, SENDER_MAC, own_mac};
use crate::link::{Pair, without_hops};

#[test]
fn captures_arrive_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pcap");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return println!("skipped: {} is not there", folder.display());
    };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    for sampling in crate::ALL {
        let mut pair = Pair::new(sampling);
        let (mut packets, mut before, mut after) = (0, 0, 0);
        for file in &files {
            for frame in frames(file) {
                packets += 1;
                pair.talk();
                let router = &mut pair.near.routers[0];
                router.now = pair.now;
                let left = router.send(std::slice::from_ref(&frame));
                let [Left::Sent(1, on_link)] = &left[..] else { continue };
                // What the route's own gateway takes.
                if on_link[..6] != own_mac(IN) {
                    continue;
                }
                let came = pair.decoded(&on_link.clone());
                before += frame.len();
                after += on_link.len();
                for came in came {
                    let Left::Sent(_, came) = came else { continue };
                    assert_eq!(without_hops(&came), without_hops(&frame), "{}", file.display());
                }
            }
        }
        println!(
            "{sampling:?}: {packets} packets, {before} bytes of those that are forwarded, {after} on the link, {:.1} % less",
            100.0 * (1.0 - after as f64 / before as f64)
        );
        assert!(packets > 1000 && after < before);
        assert_eq!(pair.far.count("dropped_check") + pair.far.count("dropped_malformed"), 0);
    }
}

/// A capture's IPv4 packets, as if they had come from the test's sender and were to go over the link.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let Ok(opened) = std::fs::File::open(file) else { return Vec::new() };
    let Ok(reader) = ebb_capture::Reader::new("capture", std::io::BufReader::new(opened)) else {
        return Vec::new();
    };
    let mut frames = Vec::new();
    for packet in reader.map_while(Result::ok) {
        let mut frame = packet.data.to_vec();
        if frame.len() < 34 || frame.len() > 1514 || frame[12..14] != [8, 0] {
            continue;
        }
        frame[..6].copy_from_slice(&own_mac(IN));
        frame[6..12].copy_from_slice(&SENDER_MAC);
        frame[22] = frame[22].max(9);
        frame[26..34].copy_from_slice(&[192, 0, 2, 9, 203, 0, 113, 7]);
        crate::link::finish_v4(&mut frame);
        frames.push(frame);
    }
    frames
}
