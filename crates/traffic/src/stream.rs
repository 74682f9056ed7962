//! An endless, repeatable sequence of frames: test frames over many flows, or those of a capture.

use ebb_units::Time;
use rand::SeedableRng;

use crate::{Content, Flow, FrameTemplate, Popularity, Random, SizeMix};

/// Packets drawn in advance; the sequence of flows and sizes repeats after them.
const PERIOD: usize = 1 << 16;

/// The frames of one sender.
#[derive(Clone, Debug)]
pub struct Stream {
    source: Source,
    position: usize,
    sent: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Drawn(Box<Drawn>),
    /// Frames as they are sent.
    Captured(Vec<Box<[u8]>>),
}

/// Which flow and which size next, numbered within each flow.
///
/// Flows and sizes are drawn once, so that a frame costs no random number.
#[derive(Clone, Debug)]
struct Drawn {
    templates: Vec<FrameTemplate>,
    sequences: Vec<u32>,
    order: Vec<(u32, u16)>,
    content: Option<Content>,
}

/// How a [`Stream`]'s frames are mixed.
#[derive(Clone, Copy, Debug)]
pub struct StreamSpec<'a> {
    /// Number of the first flow, so that several streams can share a tracker.
    pub first_flow: u32,
    /// Hardware address the frames come from.
    pub from: [u8; 6],
    /// Hardware address the frames go to.
    pub to: [u8; 6],
    /// Frame sizes.
    pub sizes: &'a SizeMix,
    /// Weight of the flows, see [`Popularity::new`].
    pub popularity: f64,
    /// Of the drawing.
    pub seed: u64,
}

impl Stream {
    /// A stream over `flows`.
    ///
    /// # Panics
    /// When there is no flow.
    pub fn new(flows: &[Flow], spec: &StreamSpec<'_>) -> Stream {
        let mut random = Random::seed_from_u64(spec.seed);
        let popularity = Popularity::new(flows.len() as u32, spec.popularity);
        let template = |(index, flow)| {
            FrameTemplate::new(flow, spec.first_flow + index as u32, spec.from, spec.to)
        };
        let drawn = Drawn {
            templates: flows.iter().enumerate().map(template).collect(),
            sequences: vec![0; flows.len()],
            order: (0..PERIOD)
                .map(|_| (popularity.draw(&mut random), spec.sizes.draw(&mut random)))
                .collect(),
            content: None,
        };
        Stream { source: Source::Drawn(Box::new(drawn)), position: 0, sent: 0, bytes: 0 }
    }

    /// The Ethernet frames of a capture in their order, over and over, from station `from` to station `to` and otherwise
    /// as they are. They carry no [`Probe`](crate::Probe): nobody can tell which of them arrived.
    ///
    /// # Panics
    /// When there is none, or one without a whole Ethernet header.
    pub fn captured(frames: Vec<Vec<u8>>, from: [u8; 6], to: [u8; 6]) -> Stream {
        assert!(!frames.is_empty(), "a capture without frames");
        let readdressed = |mut frame: Vec<u8>| {
            frame[0..6].copy_from_slice(&to);
            frame[6..12].copy_from_slice(&from);
            frame.into_boxed_slice()
        };
        let frames = frames.into_iter().map(readdressed).collect();
        Stream { source: Source::Captured(frames), position: 0, sent: 0, bytes: 0 }
    }

    /// With this in the test frames instead of zeroes, and sequence numbers of TCP that go on.
    pub fn with_content(mut self, content: Content) -> Stream {
        if let Source::Drawn(drawn) = &mut self.source {
            drawn.content = Some(content);
        }
        self
    }

    /// Writes the next frame, sent at `now`, and returns its length in memory.
    ///
    /// # Panics
    /// When `buffer` is shorter than the frame; 1514 bytes are always enough for a test frame.
    #[inline]
    pub fn write_next(&mut self, now: Time, buffer: &mut [u8]) -> usize {
        let (len, period) = match &mut self.source {
            Source::Drawn(drawn) => (drawn.write(self.position, now, buffer), PERIOD),
            Source::Captured(frames) => {
                let frame = &frames[self.position];
                buffer[..frame.len()].copy_from_slice(frame);
                (frame.len(), frames.len())
            }
        };
        self.position = (self.position + 1) % period;
        self.sent += 1;
        self.bytes += len as u64;
        len
    }

    /// Number of flows, as far as it is known: of a capture it is not.
    pub fn flows(&self) -> u32 {
        match &self.source {
            Source::Drawn(drawn) => drawn.templates.len() as u32,
            Source::Captured(_) => 0,
        }
    }

    /// Frames written so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes written so far, without check sequences.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drawn {
    #[inline]
    fn write(&mut self, position: usize, now: Time, buffer: &mut [u8]) -> usize {
        let (flow, size) = self.order[position];
        let flow = flow as usize;
        let len = self.templates[flow].write(size, self.sequences[flow], now, buffer);
        if let Some(content) = &mut self.content {
            let frame = &mut buffer[..len];
            self.templates[flow].fill(self.sequences[flow], frame, |rest| content.fill(rest));
        }
        self.sequences[flow] = self.sequences[flow].wrapping_add(1);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowSpec, Start, Tracker, draw_flows, read_probe};

    fn stream(seed: u64) -> Stream {
        let nets: Vec<ipnet::IpNet> =
            ["192.0.2.0/24", "2001:db8::/64"].map(|net| net.parse().expect("a prefix")).into();
        let spec = FlowSpec {
            count: 300,
            sources: &nets,
            destinations: &nets,
            ipv6_share: 0.3,
            tcp_share: 0.5,
        };
        let flows = draw_flows(&spec, seed);
        let sizes = SizeMix::imix();
        let (from, to) = ([2; 6], [4; 6]);
        let spec = StreamSpec { first_flow: 100, from, to, sizes: &sizes, popularity: 0.8, seed };
        Stream::new(&flows, &spec)
    }

    #[test]
    fn every_frame_of_a_stream_is_followed_to_the_end() {
        let mut stream = stream(5);
        let mut tracker = Tracker::new(400, Start::Zero);
        let mut buffer = [0; 1514];
        for at in 0..200_000 {
            let len = stream.write_next(Time::from_nanos(at), &mut buffer);
            let probe = read_probe(&buffer[..len]).expect("a probe");
            tracker.record(&probe, Time::from_nanos(at + 1000));
        }
        let summary = tracker.summary(None);
        assert_eq!(summary.sent, stream.sent());
        assert_eq!((summary.received, summary.lost), (200_000, 0));
        assert_eq!((summary.reordered, summary.duplicated, summary.strangers), (0, 0, 0));
        assert_eq!(summary.flows, 300);
    }

    /// The checksums of an end: over the pseudo-header, which comes last here.
    #[test]
    fn filled_frames_are_right_and_their_tcp_goes_on() {
        let mut stream = stream(3).with_content(Content::new(0.5, 3));
        let (mut buffer, mut last) = ([0; 1514], std::collections::BTreeMap::new());
        for at in 0..20_000 {
            let len = stream.write_next(Time::from_nanos(at), &mut buffer);
            let frame = &buffer[..len];
            let (l4, addresses, proto) = match frame[14] >> 4 {
                4 => (34, 26..34, frame[23]),
                _ => (54, 22..54, frame[20]),
            };
            let words = frame[l4..].chunks(2).chain(frame[addresses].chunks(2));
            let word = |pair: &[u8]| {
                u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u64::from(*byte))
            };
            let mut sum = words.map(word).sum::<u64>() + u64::from(proto) + (len - l4) as u64;
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            assert_eq!(sum, 0xffff, "the checksum of packet {at}");
            if proto == 6 {
                let sequence =
                    u32::from_be_bytes(*frame[l4 + 4..].first_chunk().expect("a header"));
                let flow = read_probe(frame).expect("a probe").flow;
                if let Some(before) = last.insert(flow, sequence) {
                    assert!(sequence >= before + 1460, "{before}, {sequence}");
                }
            }
        }
    }

    #[test]
    fn a_stream_follows_its_seed() {
        let frames = |seed| {
            let (mut stream, mut buffer) = (stream(seed), [0; 1514]);
            let frame = |_| {
                let len = stream.write_next(Time::ZERO, &mut buffer);
                buffer[..len].to_vec()
            };
            (0..1000).map(frame).collect::<Vec<_>>()
        };
        assert_eq!(frames(1), frames(1));
        assert_ne!(frames(1), frames(2));
    }

    #[test]
    fn a_capture_comes_in_its_order_and_again() {
        let frames = vec![vec![9; 60], (0..100).collect()];
        let mut stream = Stream::captured(frames, [2; 6], [4; 6]);
        let mut buffer = [0; 1514];
        let mut lens = Vec::new();
        for _ in 0..5 {
            let len = stream.write_next(Time::ZERO, &mut buffer);
            assert_eq!((&buffer[..6], &buffer[6..12]), ([4; 6].as_slice(), [2; 6].as_slice()));
            let first = if len == 60 { 9 } else { 12 };
            assert_eq!(buffer[12], first);
            lens.push(len);
        }
        assert_eq!(lens, [60, 100, 60, 100, 60]);
        assert_eq!((stream.sent(), stream.bytes(), stream.flows()), (5, 380, 0));
    }
}
