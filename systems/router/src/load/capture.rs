//! Packet arrivals out of a capture file: times, lengths and flows.

use std::collections::BTreeMap;

use ebb_capture::{CaptureError, LINKTYPE_ETHERNET, Reader};
use ebb_control::redirect::ENTRIES;
use ebb_scenario::ScenarioError;

use super::SizeTable;
use super::trace::Steps;
use crate::flows::Flows;
use crate::machine::{PER_NANO, PER_SECOND, Picos};
use crate::scenario::PcapChoice;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Since the first.
    pub(crate) at_ps: Picos,
    pub(crate) flow: u32,
    pub(crate) bytes: u16,
}

/// The packets of a capture in the order of their times.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) packets: Vec<Captured>,
    /// Redirect-table entry of each flow.
    entries: Vec<u8>,
    pub(crate) repeat: bool,
    /// From the first packet to where a repetition begins.
    pub(crate) period_ps: Picos,
}

/// Frame check sequence, which captures leave out.
const FCS: u32 = 4;

impl Capture {
    /// Reads pcap or pcapng; time passes `compress` times as fast.
    pub(super) fn read(
        choice: &PcapChoice,
        bytes: &[u8],
        compress: f64,
    ) -> Result<Capture, ScenarioError> {
        let fault = |message: String| ScenarioError {
            file: choice.file.clone(),
            line: None,
            field: Some("traffic.pcap".to_owned()),
            message,
            remedy: "use a capture of at least two packets, pcap or pcapng".to_owned(),
        };
        let frames = frames(&choice.file, bytes);
        let mut frames = frames.map_err(|error| fault(error.to_string()))?;
        frames.sort_by_key(|(nanos, _, _)| *nanos);
        let [(first, ..), .., (last, ..)] = frames[..] else {
            return Err(fault(format!("has {} packets", frames.len())));
        };
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut entries = Vec::new();
        let packets = frames.iter().map(|(nanos, hash, len)| {
            let flow = *known.entry(*hash).or_insert_with(|| {
                entries.push((*hash as usize % ENTRIES) as u8);
                entries.len() as u32 - 1
            });
            let at_ps = ((nanos - first) as f64 / compress * PER_NANO as f64) as Picos;
            Captured { at_ps, flow, bytes: len.saturating_add(FCS).clamp(64, 9018) as u16 }
        });
        let packets: Vec<Captured> = packets.collect();
        let span = ((last - first) as f64 / compress * PER_NANO as f64) as Picos;
        let period_ps = (span + span / (packets.len() as u64 - 1)).max(1);
        Ok(Capture { packets, entries, repeat: choice.repeat, period_ps })
    }

    pub(super) fn flows(&self) -> Flows {
        let mut packets = vec![0.0; self.entries.len()];
        self.packets.iter().for_each(|packet| packets[packet.flow as usize] += 1.0);
        Flows::known(self.entries.clone(), packets)
    }

    pub(super) fn sizes(&self) -> SizeTable {
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        self.packets.iter().for_each(|packet| *counts.entry(packet.bytes).or_default() += 1);
        SizeTable::new(&counts.into_iter().collect::<Vec<_>>())
    }

    /// Its rate in steps, for the slotted engine: a hundredth of its length each, at least a
    /// millisecond.
    pub(super) fn rates(&self) -> Steps {
        let seconds = self.period_ps as f64 / PER_SECOND;
        let step_s = (seconds / 100.0).max(1e-3).min(seconds);
        let count = (seconds / step_s).round().max(1.0) as usize;
        let step_s = seconds / count as f64;
        let mut pps = vec![0.0; count];
        for packet in &self.packets {
            let index = (packet.at_ps as f64 / PER_SECOND / step_s) as usize;
            pps[index.min(count - 1)] += 1.0 / step_s;
        }
        if self.repeat {
            pps = pps.iter().copied().cycle().take(count * 1000).collect();
        }
        Steps { step_s, pps, relative: false, notes: Vec::new() }
    }
}

/// Time in nanoseconds, flow hash and length of every frame.
fn frames(file: &str, bytes: &[u8]) -> Result<Vec<(u64, u32, u32)>, CaptureError> {
    let frame = |packet: ebb_capture::Captured| {
        let payload = match packet.link_type {
            LINKTYPE_ETHERNET => ebb_wire::link(&packet.data).map(|link| link.payload),
            _ => Some(0),
        };
        let hash = ebb_wire::flow_hash(packet.data.get(payload.unwrap_or(0)..).unwrap_or_default());
        (packet.time.as_nanos(), hash, packet.original_len)
    };
    Reader::new(file, bytes)?.map(|packet| packet.map(frame)).collect()
}
