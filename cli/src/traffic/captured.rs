//! The frames of a capture, for `ebb traffic send --pcap`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ebb_capture::{LINKTYPE_ETHERNET, Reader};
use ebb_traffic::Stream;

/// Bytes of an Ethernet header, and of the longest frame that links take, without check sequence.
const FRAME: std::ops::RangeInclusive<usize> = 14..=1514;
/// Most bytes of frames that are kept.
const BYTES_MAX: usize = 1 << 30;

/// What a capture holds.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// In their order.
    frames: Vec<Vec<u8>>,
    /// Packets left out: cut short in the file, or of a length that is not sent.
    left_out: u64,
}

impl Frames {
    /// Reads all of them.
    ///
    /// # Errors
    /// When the file cannot be read, holds other packets than Ethernet frames, none that can be sent, or more than 1 GiB.
    pub(super) fn read(path: &Path) -> Result<Frames> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let mut reader = Reader::new(&name, BufReader::new(file))?;
        let (mut found, mut bytes) = (Frames::default(), 0);
        while let Some(packet) = reader.next() {
            let packet = packet?;
            if packet.link_type != LINKTYPE_ETHERNET {
                bail!(reader.not_ethernet(packet.link_type));
            }
            let whole = packet.original_len as usize == packet.data.len();
            if !whole || !FRAME.contains(&packet.data.len()) {
                found.left_out += 1;
                continue;
            }
            bytes += packet.data.len();
            ensure!(
                bytes <= BYTES_MAX,
                "{name} holds more than 1 GiB of frames: send a part of it"
            );
            found.frames.push(packet.data);
        }
        ensure!(!found.frames.is_empty(), "{name} holds no packet that can be sent");
        Ok(found)
    }

    /// Mean length of a frame without its check sequence.
    pub(super) fn mean(&self) -> f64 {
        let bytes: usize = self.frames.iter().map(Vec::len).sum();
        bytes as f64 / self.frames.len() as f64
    }

    /// All of them, over and over, between two stations; says what was left out.
    pub(super) fn stream(self, from: [u8; 6], to: [u8; 6]) -> Stream {
        if self.left_out > 0 {
            let (out, all) = (self.left_out, self.left_out + self.frames.len() as u64);
            eprintln!(
                "ebb: {out} of {all} packets are not sent: cut short in the file, or no frame of 14 to 1,514 bytes"
            );
        }
        Stream::captured(self.frames, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_capture::Writer;
    use ebb_units::Time;

    fn written(frames: &[&[u8]]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = Writer::new("test", file.reopen().expect("opened")).expect("begun");
        frames.iter().for_each(|frame| writer.write(Time::ZERO, frame).expect("written"));
        writer.finish().expect("finished");
        file
    }

    #[test]
    fn whole_frames_are_kept_in_order() {
        let file = written(&[&[1; 60], &[2; 13], &[3; 1514], &[4; 1515]]);
        let found = Frames::read(file.path()).expect("read");
        assert_eq!(found.frames, [vec![1; 60], vec![3; 1514]]);
        assert_eq!(found.left_out, 2);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |path: &Path| format!("{:#}", Frames::read(path).expect_err("refused"));
        assert!(refused(written(&[&[0; 5]]).path()).contains("no packet that can be sent"));
        assert!(refused(Path::new("/nowhere.pcap")).contains("cannot open /nowhere.pcap"));
        let other = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(other.path(), "some text that is no capture").expect("written");
        assert!(refused(other.path()).contains("not a capture file"), "{}", refused(other.path()));
    }
}
