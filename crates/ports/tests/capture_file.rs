//! Capture files: what is written can be read again, and no file, however broken, stops the
//! program.

use std::path::{Path, PathBuf};

use ebb_graph::{Batch, Pool};
use ebb_ports::Port;
use ebb_ports::capture_file::{CaptureError, CapturePort, Interface, create, open};
use ebb_units::Time;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ebb-ports-{}-{name}", std::process::id()));
        Scratch(path)
    }
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn captures() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pcap");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        let absent = format!("no captures at {}", folder.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{absent}");
        eprintln!("skipped: {absent}");
        return None;
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    Some(paths)
}

#[test]
fn a_capture_survives_the_round_trip() {
    let (first, second) = (Scratch::new("first.pcap"), Scratch::new("second.pcap"));
    let frames: Vec<Vec<u8>> = (0..200u8).map(|i| vec![i; 60 + usize::from(i) * 8]).collect();
    let mut writer = create(first.path(), &Interface::default()).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        writer.write(Time::from_nanos(1_700_000_000_000_000_001 + index as u64), frame).unwrap();
    }
    writer.finish().unwrap();

    let reader = open(first.path()).unwrap();
    let writer = create(second.path(), &Interface::default()).unwrap();
    let mut port = CapturePort::new("cap", Some(reader), Some(writer));
    let mut pool = Pool::standalone(16);
    let mut batch = Batch::new();
    while let Some(time) = port.next_time() {
        port.set_time(time);
        assert_eq!(port.receive(&mut pool, &mut batch, 1), 1);
        assert_eq!(port.transmit(&mut pool, &mut batch), 1);
    }
    assert!(port.prepare_wait());
    assert_eq!((port.counters().received, port.counters().transmitted), (200, 200));
    port.finish().unwrap();
    let read = |path| open(path).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let copy = read(second.path());
    assert_eq!(copy, read(first.path()));
    assert_eq!(copy[199].time.as_nanos(), 1_700_000_000_000_000_200);
    assert!(copy.iter().zip(&frames).all(|(captured, frame)| captured.data == *frame));
}

#[test]
fn every_capture_can_be_read_to_its_end_or_its_error() {
    let Some(paths) = captures() else { return };
    let (mut packets, mut errors) = (0u64, 0u32);
    for path in &paths {
        match open(path) {
            Ok(reader) => {
                for packet in reader {
                    match packet {
                        Ok(_) => packets += 1,
                        Err(error) => {
                            errors += 1;
                            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                        }
                    }
                }
            }
            Err(error) => {
                errors += 1;
                assert!(matches!(error, CaptureError::NotACapture { .. }), "{error}");
            }
        }
    }
    println!("{} files, {packets} packets, {errors} errors", paths.len());
    assert!(packets > 5000, "only {packets} packets in {} files", paths.len());
}

/// Cut and mutated captures: every outcome but a panic or an endless loop.
#[test]
fn mutated_captures_do_no_harm() {
    let Some(paths) = captures() else { return };
    let scratch = Scratch::new("mutated");
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    for path in paths.iter().step_by(5) {
        let mut bytes = std::fs::read(path).unwrap();
        let start = if next() % 2 == 0 { 0 } else { 24 };
        for _ in 0..8 {
            let at = (start + next() % 200) % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(bytes.len() - next() % (bytes.len() / 2));
        std::fs::write(scratch.path(), &bytes).unwrap();
        let Ok(reader) = open(scratch.path()) else { continue };
        assert!(reader.count() <= bytes.len());
    }
}

#[test]
fn packets_of_other_links_are_counted_and_named() {
    let Some(paths) = captures() else { return };
    let hdlc = paths.iter().find(|path| path.ends_with("HDLC.pcap")).expect("HDLC.pcap");
    let reader = open(hdlc).unwrap();
    let packets = open(hdlc).unwrap().count() as u64;
    let port = CapturePort::new("cap", Some(reader), None);
    assert_eq!((port.foreign(), port.next_time()), (packets, None));
    let error = port.first_foreign().unwrap().to_string();
    assert!(error.contains("link type") && error.contains("Ethernet"), "{error}");
}

#[test]
fn long_frames_are_counted_and_skipped() {
    let scratch = Scratch::new("long.pcap");
    let mut writer = create(scratch.path(), &Interface::default()).unwrap();
    for len in [60, 1793, 1792] {
        writer.write(Time::ZERO, &vec![0; len]).unwrap();
    }
    writer.finish().unwrap();
    let reader = open(scratch.path()).unwrap();
    let mut port = CapturePort::new("cap", Some(reader), None);
    let (mut pool, mut batch) = (Pool::standalone(8), Batch::new());
    assert_eq!(port.receive(&mut pool, &mut batch, 64), 2);
    assert_eq!(port.oversized(), 1);
    pool.put_batch(&mut batch);
}

#[test]
fn a_truncated_file_names_the_packet() {
    let scratch = Scratch::new("cut.pcap");
    let mut writer = create(scratch.path(), &Interface::default()).unwrap();
    writer.write(Time::ZERO, &[0; 60]).unwrap();
    writer.write(Time::ZERO, &[0; 60]).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(scratch.path()).unwrap();
    std::fs::write(scratch.path(), &bytes[..bytes.len() - 1]).unwrap();
    let packets: Vec<_> = open(scratch.path()).unwrap().collect();
    assert!(packets[0].is_ok());
    let error = packets[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("packet 2: the file is truncated"), "{error}");
    assert_eq!(packets.len(), 2);
}
