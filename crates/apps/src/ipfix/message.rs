//! Builds messages: RFC 7011 section 3, or the packets of NetFlow version 9 (RFC 3954 section 5).
//!
//! Room: flows to bytes, templates and options among them; who gets them is the caller's affair.

use super::lane::Traffic;
use super::pair::Flow;
use super::template::{Field, Kind, describe};
use super::{Account, Format, Reading, Version};

/// Templates of options: how packets were sampled, and what the router knows of itself.
const SAMPLING: u16 = 300;
const ACCOUNT: u16 = 301;

/// A message for the collector.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is lost with it: records, and their packets and bytes of both directions.
    pub carries: Traffic,
    /// Data records, those of options among them: what sequence numbers count in IPFIX.
    records: u32,
    /// Records and templates, which the header of version 9 counts.
    entries: u16,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Encoder {
    format: Format,
    /// Of the next message.
    sequence: u32,
    message: Message,
    /// Kind and first byte of the set that is being written.
    set: Option<(Kind, usize)>,
}

impl Encoder {
    pub(super) fn new(format: Format) -> Encoder {
        Encoder { format, sequence: 0, message: Message::default(), set: None }
    }

    fn header_len(&self) -> usize {
        match self.format.version {
            Version::Ipfix => 16,
            Version::Netflow9 => 20,
        }
    }

    /// Adds a flow; the message that was full before, if it was.
    pub(super) fn flow(&mut self, flow: &Flow, reading: &Reading) -> Option<Message> {
        let kind = Kind::of(self.format.version, flow);
        let same_set = self.set.is_some_and(|(other, _)| other == kind);
        let needed = kind.len() + if same_set { 0 } else { 4 };
        // Up to three bytes of padding at the end of a set in version 9.
        let full = self.message.bytes.len() + needed + 3 > self.format.message_len;
        let sent = if full { self.finish(reading) } else { None };
        self.open();
        if self.set.is_none_or(|(other, _)| other != kind) {
            self.close_set();
            self.set = Some((kind, self.message.bytes.len()));
            self.message.bytes.extend(kind.template().to_be_bytes());
            self.message.bytes.extend([0; 2]);
        }
        kind.write(flow, reading, &mut self.message.bytes);
        self.message.records += 1;
        self.message.entries += 1;
        self.message.carries.flows += 1;
        for record in [Some(&flow.forward), flow.reverse.as_ref()].into_iter().flatten() {
            self.message.carries.packets += record.packets();
            self.message.carries.bytes += record.bytes();
        }
        sent
    }

    /// A message with all templates and what options say.
    pub(super) fn templates(&mut self, account: &Account, reading: &Reading) -> Vec<Message> {
        let before = self.finish(reading);
        self.open();
        self.data_templates();
        match self.format.version {
            Version::Ipfix => self.ipfix_options(account),
            Version::Netflow9 => self.netflow_options(),
        }
        before.into_iter().chain(self.finish(reading)).collect()
    }

    fn data_templates(&mut self) {
        let id = if self.format.version == Version::Ipfix { 2u16 } else { 0 };
        self.set_of(id, |format, out, entries| {
            for kind in Kind::all(format.version, format.biflow) {
                let fields = kind.fields();
                out.extend(kind.template().to_be_bytes());
                out.extend((fields.len() as u16).to_be_bytes());
                fields.iter().for_each(|field| describe(field, out));
                *entries += 1;
            }
        });
    }

    /// Sampling as RFC 5476 names it: systematic, by count (IANA psamp-parameters 1), one packet, then so many
    /// not. And the accounts of RFC 7011 sections 4.1 to 4.3.
    fn ipfix_options(&mut self, account: &Account) {
        // The scope first: selectorId, and observationDomainId.
        let sampling = [(302, 8), (304, 2), (305, 4), (306, 4)];
        let of_account = [(149, 4), (41, 8), (42, 8), (164, 8), (166, 8), (167, 8), (168, 8)];
        let templates: [(u16, &[(u16, u16)]); 2] = [(SAMPLING, &sampling), (ACCOUNT, &of_account)];
        for (id, fields) in templates {
            // A set for each: pmacct reads no second one in a set.
            self.set_of(3, |_, out, entries| {
                out.extend(id.to_be_bytes());
                out.extend((fields.len() as u16).to_be_bytes());
                out.extend(1u16.to_be_bytes());
                fields
                    .iter()
                    .for_each(|(element, len)| describe(&Field(*element, *len, false), out));
                *entries += 1;
            });
        }
        self.set_of(SAMPLING, |format, out, _| {
            out.extend(1u64.to_be_bytes());
            out.extend(1u16.to_be_bytes());
            out.extend(1u32.to_be_bytes());
            out.extend((format.sampling.max(1) - 1).to_be_bytes());
        });
        let numbers = [
            account.messages,
            account.sent.flows,
            account.other_packets,
            account.unsent.flows,
            account.unsent.packets,
            account.unsent.bytes,
        ];
        self.set_of(ACCOUNT, |format, out, _| {
            out.extend(format.domain.to_be_bytes());
            numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
        });
        self.message.records += 2;
    }

    /// SAMPLING_INTERVAL and SAMPLING_ALGORITHM (1: deterministic), of the whole system (RFC 3954 section 6.1).
    fn netflow_options(&mut self) {
        self.set_of(1, |_, out, entries| {
            for word in [SAMPLING, 4, 8, 1, 4, 34, 4, 35, 1] {
                out.extend(word.to_be_bytes());
            }
            *entries += 1;
        });
        self.set_of(SAMPLING, |format, out, entries| {
            out.extend(format.domain.to_be_bytes());
            out.extend(format.sampling.max(1).to_be_bytes());
            out.push(1);
            *entries += 1;
        });
    }

    fn set_of(&mut self, id: u16, write: impl FnOnce(&Format, &mut Vec<u8>, &mut u16)) {
        self.close_set();
        let start = self.message.bytes.len();
        self.message.bytes.extend(id.to_be_bytes());
        self.message.bytes.extend([0; 2]);
        write(&self.format, &mut self.message.bytes, &mut self.message.entries);
        self.end_set(start);
    }

    fn open(&mut self) {
        if self.message.bytes.is_empty() {
            self.message.bytes.resize(self.header_len(), 0);
        }
    }

    fn close_set(&mut self) {
        if let Some((_, start)) = self.set.take() {
            self.end_set(start);
        }
    }

    fn end_set(&mut self, start: usize) {
        let bytes = &mut self.message.bytes;
        if self.format.version == Version::Netflow9 {
            bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
        }
        let len = (bytes.len() - start) as u16;
        bytes[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// The message as far as it got.
    pub(super) fn finish(&mut self, reading: &Reading) -> Option<Message> {
        self.close_set();
        if self.message.bytes.is_empty() {
            return None;
        }
        let mut message = std::mem::take(&mut self.message);
        let seconds = (reading.unix.as_secs() as u32).to_be_bytes();
        let domain = self.format.domain.to_be_bytes();
        let len = message.bytes.len() as u16;
        let header = match self.format.version {
            Version::Ipfix => {
                let lead = [10u16.to_be_bytes(), len.to_be_bytes()].concat();
                [&lead[..], &seconds, &self.sequence.to_be_bytes(), &domain].concat()
            }
            Version::Netflow9 => {
                let lead = [9u16.to_be_bytes(), message.entries.to_be_bytes()].concat();
                let uptime = reading.now_ms().to_be_bytes();
                [&lead[..], &uptime, &seconds, &self.sequence.to_be_bytes(), &domain].concat()
            }
        };
        message.bytes[..header.len()].copy_from_slice(&header);
        let counted = match self.format.version {
            Version::Ipfix => message.records,
            Version::Netflow9 => 1,
        };
        self.sequence = self.sequence.wrapping_add(counted);
        Some(message)
    }
}
