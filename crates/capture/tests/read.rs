//! Files of every kind that is met: byte orders, units of time, blocks out of use, damage.

mod written;

use std::path::{Path, PathBuf};

use ebb_capture::{CaptureError, Captured, LINKTYPE_ETHERNET, Reader, Writer};
use ebb_units::Time;
use proptest::prelude::*;

/// Bytes of a .pcapng in one byte order.
struct Blocks {
    big: bool,
    bytes: Vec<u8>,
}

impl Blocks {
    fn new(big: bool) -> Blocks {
        let mut blocks = Blocks { big, bytes: Vec::new() };
        let mut body = blocks.word(0x1a2b_3c4d);
        body.extend(blocks.halves(1, 0));
        body.extend([0xff; 8]);
        blocks.block(0x0a0d_0d0a, &body);
        blocks
    }
    fn word(&self, word: u32) -> Vec<u8> {
        if self.big { word.to_be_bytes() } else { word.to_le_bytes() }.to_vec()
    }
    fn halves(&self, one: u16, two: u16) -> Vec<u8> {
        let bytes = |half: u16| if self.big { half.to_be_bytes() } else { half.to_le_bytes() };
        [bytes(one), bytes(two)].concat()
    }
    fn block(&mut self, kind: u32, body: &[u8]) {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.word(body.len() as u32 + 12);
        self.bytes.extend([self.word(kind), len.clone(), body, len].concat());
    }
    /// An interface with the options' bytes as they are, ended by opt_endofopt or not.
    fn interface(&mut self, link: u16, options: &[u8]) {
        let body = [self.halves(link, 0), self.word(65535), options.to_vec()].concat();
        self.block(1, &body);
    }
    fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8], options: &[u8]) {
        let len = self.word(data.len() as u32);
        let mut padded = data.to_vec();
        padded.resize(padded.len().next_multiple_of(4), 0);
        let time = [self.word((ticks >> 32) as u32), self.word(ticks as u32)].concat();
        let body =
            [self.word(interface), time, len.clone(), len, padded, options.to_vec()].concat();
        self.block(6, &body);
    }
}

fn read(bytes: &[u8]) -> Vec<Captured> {
    let reader = Reader::new("test", bytes).expect("a capture");
    reader.map(|packet| packet.expect("a packet")).collect()
}

#[test]
fn pcapng_in_both_byte_orders_with_each_block_that_carries_packets() {
    for big in [false, true] {
        let mut blocks = Blocks::new(big);
        // if_tsresol 9, then if_tsoffset 100 s, without an end of options.
        let offset = if big { 100u64.to_be_bytes() } else { 100u64.to_le_bytes() };
        let resolution = [blocks.halves(9, 1), vec![9, 0, 0, 0]].concat();
        let options = [resolution, blocks.halves(14, 8), offset.to_vec()].concat();
        blocks.interface(1, &options);
        blocks.interface(101, &[]);
        blocks.block(0x0bad, b"a block that nobody knows");
        // A comment without an end of options, as some programs write it.
        let comment = [blocks.halves(1, 4), b"note".to_vec()].concat();
        blocks.enhanced(0, 7, &[1; 61], &comment);
        blocks.enhanced(1, (1 << 32) + 5, &[2; 20], &[]);
        let simple = [blocks.word(62), vec![3; 62]].concat();
        blocks.block(3, &simple);
        let time = [blocks.word(0), blocks.word(9)].concat();
        let lens = [blocks.word(4), blocks.word(90)].concat();
        let old = [blocks.halves(1, 3), time, lens, vec![4; 4]].concat();
        blocks.block(2, &old);

        let packets = read(&blocks.bytes);
        let seen: Vec<_> = packets
            .iter()
            .map(|p| (p.time.as_nanos(), p.link_type, p.original_len, p.data[0], p.data.len()))
            .collect();
        let expected = [
            (100_000_000_007, 1, 61, 1, 61),
            (((1 << 32) + 5) * 1000, 101, 20, 2, 20),
            (0, 1, 62, 3, 62),
            (9_000, 101, 90, 4, 4),
        ];
        assert_eq!(seen, expected, "big endian: {big}");
    }
}

#[test]
fn pcap_in_both_byte_orders_and_units() {
    for (magic, nanos) in [(0xa1b2_c3d4u32, 5_000), (0xa1b2_3c4d, 5)] {
        for big in [false, true] {
            let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
            let half = |h: u16| if big { h.to_be_bytes() } else { h.to_le_bytes() };
            let mut bytes = word(magic).to_vec();
            bytes.extend([half(2), half(4)].concat());
            // The upper bits of the link type state a frame check sequence of four bytes.
            [0, 0, 65535, 0x2400_0001].iter().for_each(|field| bytes.extend(word(*field)));
            [3, 5, 2, 60].iter().for_each(|field| bytes.extend(word(*field)));
            bytes.extend([8, 9]);
            let expected = Captured {
                time: Time::from_nanos(3_000_000_000 + nanos),
                link_type: LINKTYPE_ETHERNET,
                original_len: 60,
                data: vec![8, 9],
            };
            assert_eq!(read(&bytes), [expected], "{magic:x} {big}");
        }
    }
}

#[test]
fn a_packet_of_an_interface_that_nobody_described_is_an_error() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, &[]);
    blocks.enhanced(0, 7, &[1; 60], &[]);
    blocks.enhanced(3, 7, &[1; 60], &[]);
    let mut reader = Reader::new("some.pcapng", &blocks.bytes[..]).expect("a capture");
    assert!(reader.next().expect("first").is_ok());
    let error = reader.next().expect("second").expect_err("no interface").to_string();
    assert_eq!(error, "some.pcapng: packet 2: interface 3 has no description block");
    assert!(reader.next().is_none());
}

#[test]
fn a_block_longer_than_the_buffer_is_read() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, &[]);
    blocks.enhanced(0, 7, &vec![7; 300_000], &[]);
    blocks.enhanced(0, 8, &[8; 60], &[]);
    let lens: Vec<usize> = read(&blocks.bytes).iter().map(|packet| packet.data.len()).collect();
    assert_eq!(lens, [300_000, 60]);
}

#[test]
fn what_is_no_capture_is_said() {
    let error = |bytes: &[u8]| {
        let error = Reader::new("x", bytes).expect_err("no capture");
        assert!(matches!(error, CaptureError::NotACapture { .. }), "{error}");
        error.to_string()
    };
    assert!(error(b"").contains("the file is empty"));
    assert!(error(b"\xd4\xc3").contains("truncated"));
    assert!(error(b"GIF89a, or whatever else it may be").contains("first bytes"));
}

#[test]
fn a_sink_that_refuses_is_an_error_with_the_packet() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new("full.pcap", Full(150)).expect("room for the header");
    writer.write(Time::ZERO, &[0; 60]).expect("room for one");
    let error = writer.write(Time::ZERO, &[0; 60]).expect_err("full").to_string();
    assert!(error.starts_with("full.pcap: writing packet 2:"), "{error}");
    assert!(Writer::new("full.pcap", Full(10)).is_err());
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pcap");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        let absent = format!("no captures at {}", folder.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{absent}");
        eprintln!("skipped: {absent}");
        return Vec::new();
    };
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Only damaged files may end in an error, and only with what is damaged.
#[test]
fn every_capture_is_read_to_its_end() {
    let (mut packets, mut odd) = (0, Vec::new());
    let paths = captures();
    for path in &paths {
        let bytes = std::fs::read(path).expect("a capture");
        match Reader::new(&path.display().to_string(), &bytes[..]) {
            Err(error) => odd.push(error.to_string()),
            Ok(reader) => {
                for packet in reader {
                    match packet {
                        Ok(_) => packets += 1,
                        Err(error) => odd.push(error.to_string()),
                    }
                }
            }
        }
    }
    odd.iter().for_each(|odd| println!("{odd}"));
    println!("{} files, {packets} packets", paths.len());
    assert!(odd.iter().all(|odd| odd.ends_with("the file is truncated")), "{odd:?}");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec(
            (0u64..4_000_000_000_000_000_000, prop::collection::vec(any::<u8>(), 0..2000)), 0..20),
    ) {
        let mut file = Vec::new();
        let mut writer = Writer::new("m", &mut file).unwrap();
        for (nanos, frame) in &frames {
            writer.write(Time::from_nanos(*nanos), frame).unwrap();
        }
        writer.finish().unwrap();
        let back: Vec<_> = read(&file).into_iter().map(|p| (p.time.as_nanos(), p.data)).collect();
        prop_assert_eq!(back, frames);
    }

    #[test]
    fn no_bytes_do_harm(magic in 0usize..4, mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let begin: &[u8] = [
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a][..],
            &[0xd4, 0xc3, 0xb2, 0xa1],
            &[0xa1, 0xb2, 0x3c, 0x4d],
            &[],
        ][magic];
        bytes.splice(..0, begin.iter().copied());
        if let Ok(reader) = Reader::new("noise", &bytes[..]) {
            prop_assert!(reader.count() <= bytes.len());
        }
    }
}
