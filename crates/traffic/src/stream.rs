//! An endless, repeatable sequence of test frames over many flows.

use ebb_units::Time;
use rand::SeedableRng;

use crate::{Flow, FrameTemplate, Popularity, Random, SizeMix};

/// Packets drawn in advance; the sequence of flows and sizes repeats after them.
const PERIOD: usize = 1 << 16;

/// The frames of one sender: which flow and which size next, numbered within each flow.
///
/// Flows and sizes are drawn once, so that a frame costs no random number.
#[derive(Clone, Debug)]
pub struct Stream {
    templates: Vec<FrameTemplate>,
    sequences: Vec<u32>,
    order: Vec<(u32, u16)>,
    position: usize,
    sent: u64,
    bytes: u64,
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
        Stream {
            templates: flows.iter().enumerate().map(template).collect(),
            sequences: vec![0; flows.len()],
            order: (0..PERIOD)
                .map(|_| (popularity.draw(&mut random), spec.sizes.draw(&mut random)))
                .collect(),
            position: 0,
            sent: 0,
            bytes: 0,
        }
    }

    /// Writes the next frame, sent at `now`, and returns its length in memory.
    ///
    /// # Panics
    /// When `buffer` is shorter than the frame; 1514 bytes are always enough.
    #[inline]
    pub fn write_next(&mut self, now: Time, buffer: &mut [u8]) -> usize {
        let (flow, size) = self.order[self.position];
        self.position = (self.position + 1) % PERIOD;
        let flow = flow as usize;
        let len = self.templates[flow].write(size, self.sequences[flow], now, buffer);
        self.sequences[flow] = self.sequences[flow].wrapping_add(1);
        self.sent += 1;
        self.bytes += len as u64;
        len
    }

    /// Number of flows.
    pub fn flows(&self) -> u32 {
        self.templates.len() as u32
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
}
