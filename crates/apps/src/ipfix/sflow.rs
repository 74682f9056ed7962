//! Builds the datagrams of sFlow version 5 (sflow.org, "sFlow Version 5", July 2004): samples of packets and counters
//! of interfaces, in their expanded forms, which hold any number of an interface.
//!
//! Room: samples to bytes; who gets them is the caller's affair.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_graph::PortId;

use super::message::Message;
use super::sample::Sample;
use super::{Counts, Format, Reading};

/// Formats of samples and records, all of enterprise 0.
const FLOW_SAMPLE_EXPANDED: u32 = 3;
const COUNTERS_SAMPLE_EXPANDED: u32 = 4;
const SAMPLED_HEADER: u32 = 1;
const EXTENDED_SWITCH: u32 = 1001;
const IF_COUNTERS: u32 = 1;

/// Ethernet, as a header's protocol and as an interface's type (ifType of RFC 2863).
const ETHERNET: u32 = 1;
const ETHERNET_CSMACD: u32 = 6;
/// Bytes of a frame's checksum, which its length counts and the header does not hold.
const CHECKSUM_LEN: u32 = 4;
/// The router itself, as an interface.
const INTERNAL: u32 = 0x3fff_ffff;
/// What is not counted.
const UNKNOWN: u32 = u32::MAX;

/// An interface from which samples come.
#[derive(Debug, Default)]
struct Source {
    samples: u32,
    counters: u32,
    /// Packets and lost samples of each worker, as last heard.
    workers: BTreeMap<usize, [u32; 2]>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Datagrams {
    agent: IpAddr,
    format: Format,
    /// Of the next datagram.
    sequence: u32,
    /// Samples of the one that is being written.
    count: u32,
    message: Message,
    sources: BTreeMap<PortId, Source>,
}

impl Datagrams {
    /// From the router with this address.
    pub(super) fn new(agent: IpAddr, format: Format) -> Datagrams {
        let message = Message::default();
        Datagrams { agent, format, sequence: 0, count: 0, message, sources: BTreeMap::new() }
    }

    /// Adds a sample; the datagram that was full before, if it was.
    pub(super) fn sample(&mut self, sample: &Sample, reading: &Reading) -> Option<Message> {
        let source = self.sources.entry(sample.output).or_default();
        source.samples = source.samples.wrapping_add(1);
        source.workers.insert(sample.worker, [sample.pool, sample.drops]);
        let sum = |which: usize| {
            source.workers.values().fold(0u32, |sum, worker| sum.wrapping_add(worker[which]))
        };
        let output = reading.interface(sample.output);
        let input = sample.input.map_or(INTERNAL, |port| reading.interface(port));
        let [came, left] = sample.vlans.map(u32::from);
        let records = 1 + u32::from(came | left != 0);
        let numbers = [
            source.samples,
            0, // An interface.
            output,
            self.format.sampling.max(1),
            sum(0),
            sum(1),
            0, // One interface, with its number.
            input,
            0,
            output,
            records,
        ];
        let mut body = words(&numbers);
        let mut header = words(&[
            ETHERNET,
            sample.frame_len as u32 + CHECKSUM_LEN,
            CHECKSUM_LEN,
            sample.header().len() as u32,
        ]);
        header.extend(sample.header());
        header.resize(header.len().next_multiple_of(4), 0);
        record(SAMPLED_HEADER, &header, &mut body);
        if records > 1 {
            // The priority with which it came is not kept.
            record(EXTENDED_SWITCH, &words(&[came, 0, left, 0]), &mut body);
        }
        let full = self.add(FLOW_SAMPLE_EXPANDED, &body, reading);
        self.message.carries.flows += 1;
        self.message.carries.packets += 1;
        self.message.carries.bytes += sample.bytes;
        full
    }

    /// Datagrams with the counters of all interfaces, behind what was being written.
    pub(super) fn counters(&mut self, reading: &Reading) -> Vec<Message> {
        let mut full = Vec::new();
        for (index, counts) in reading.counts.iter().enumerate() {
            let port = PortId(index as u8);
            let source = self.sources.entry(port).or_default();
            source.counters = source.counters.wrapping_add(1);
            let number = reading.interface(port);
            let mut body = words(&[source.counters, 0, number, 1]);
            record(IF_COUNTERS, &if_counters(number, counts), &mut body);
            full.extend(self.add(COUNTERS_SAMPLE_EXPANDED, &body, reading));
        }
        full.into_iter().chain(self.finish(reading)).collect()
    }

    fn add(&mut self, kind: u32, body: &[u8], reading: &Reading) -> Option<Message> {
        let len = self.message.bytes.len() + 8 + body.len();
        let full = if len > self.format.message_len { self.finish(reading) } else { None };
        if self.message.bytes.is_empty() {
            self.message.bytes.resize(self.header(reading).len(), 0);
        }
        record(kind, body, &mut self.message.bytes);
        self.count += 1;
        full
    }

    /// The datagram that was being written.
    pub(super) fn finish(&mut self, reading: &Reading) -> Option<Message> {
        if self.count == 0 {
            return None;
        }
        let header = self.header(reading);
        let mut message = std::mem::take(&mut self.message);
        message.bytes[..header.len()].copy_from_slice(&header);
        (self.sequence, self.count) = (self.sequence.wrapping_add(1), 0);
        Some(message)
    }

    fn header(&self, reading: &Reading) -> Vec<u8> {
        let (kind, address) = match self.agent {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let mut header = words(&[5, kind]);
        header.extend(address);
        header.extend(words(&[self.format.domain, self.sequence, reading.now_ms(), self.count]));
        header
    }
}

/// What the router does not count apart is unknown.
fn if_counters(number: u32, counts: &Counts) -> Vec<u8> {
    let mut body = words(&[number, ETHERNET_CSMACD]);
    // Neither its speed nor its direction is known. Status: set up in the lowest bit, can send in the next.
    let [set_up, can_send] = counts.up.map(u32::from);
    body.extend(0u64.to_be_bytes());
    body.extend(words(&[0, set_up | can_send << 1]));
    body.extend(counts.bytes[0].to_be_bytes());
    let [received, sent] = counts.packets.map(|packets| packets as u32);
    body.extend(words(&[received, UNKNOWN, UNKNOWN, counts.dropped[0] as u32, UNKNOWN, UNKNOWN]));
    body.extend(counts.bytes[1].to_be_bytes());
    body.extend(words(&[sent, UNKNOWN, UNKNOWN, counts.dropped[1] as u32, UNKNOWN, UNKNOWN]));
    body
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A format, a length, and what it is.
fn record(kind: u32, body: &[u8], out: &mut Vec<u8>) {
    out.extend(words(&[kind, body.len() as u32]));
    out.extend(body);
}
