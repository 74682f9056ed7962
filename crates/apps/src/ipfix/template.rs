//! What records of each kind consist of, and how each field is written: RFC 7011 with the IANA registry of
//! IPFIX information elements, and NetFlow version 9 (RFC 3954).
//!
//! Room: records to bytes; messages are built of them above (`message`).

use std::net::IpAddr;

use super::flow::Record;
use super::pair::Flow;
use super::{Reading, Version};

/// Enterprise number of reversed information elements (RFC 5103 section 6.1).
const REVERSE: u32 = 29305;

/// A field: number of its information element, bytes, whether it describes the reverse direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field(pub u16, pub u16, pub bool);

const START_MS: u16 = 152;
const END_MS: u16 = 153;
const PACKETS: u16 = 2;
const OCTETS: u16 = 1;
const SOURCE_V4: u16 = 8;
const DESTINATION_V4: u16 = 12;
const SOURCE_V6: u16 = 27;
const DESTINATION_V6: u16 = 28;
const SOURCE_PORT: u16 = 7;
const DESTINATION_PORT: u16 = 11;
const PROTOCOL: u16 = 4;
const CLASS: u16 = 5;
const TCP_FLAGS: u16 = 6;
const INGRESS: u16 = 10;
const EGRESS: u16 = 14;
const VLAN: u16 = 58;
const POST_VLAN: u16 = 59;
const END_REASON: u16 = 136;
const DIRECTION: u16 = 239;
/// Of NetFlow version 9: in milliseconds of the system's uptime.
const FIRST_SWITCHED: u16 = 22;
const LAST_SWITCHED: u16 = 21;

/// The kinds of data records; each has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) version: Version,
    pub(super) is_v6: bool,
    pub(super) is_biflow: bool,
}

impl Kind {
    /// The kind of a flow.
    pub(super) fn of(version: Version, flow: &Flow) -> Kind {
        Kind { version, is_v6: flow.forward.source().is_ipv6(), is_biflow: flow.reverse.is_some() }
    }

    /// All that an exporter may send.
    pub(super) fn all(version: Version, biflow: bool) -> Vec<Kind> {
        let kind = |is_biflow| [false, true].map(|is_v6| Kind { version, is_v6, is_biflow });
        let biflows = if biflow { kind(true).to_vec() } else { Vec::new() };
        [kind(false).to_vec(), biflows].concat()
    }

    /// Number of its template.
    pub(super) fn template(&self) -> u16 {
        256 + u16::from(self.is_v6) + 2 * u16::from(self.is_biflow)
    }

    /// Its fields in order.
    pub(super) fn fields(&self) -> Vec<Field> {
        let (first, last, time_len) = match self.version {
            Version::Ipfix => (START_MS, END_MS, 8),
            Version::Netflow9 => (FIRST_SWITCHED, LAST_SWITCHED, 4),
        };
        let (source, destination, len) = match self.is_v6 {
            true => (SOURCE_V6, DESTINATION_V6, 16),
            false => (SOURCE_V4, DESTINATION_V4, 4),
        };
        // RFC 7125: two bytes in IPFIX; one in RFC 3954.
        let flags_len = if self.version == Version::Ipfix { 2 } else { 1 };
        let mut fields = vec![
            (first, time_len),
            (last, time_len),
            (PACKETS, 8),
            (OCTETS, 8),
            (source, len),
            (destination, len),
            (SOURCE_PORT, 2),
            (DESTINATION_PORT, 2),
            (PROTOCOL, 1),
            (CLASS, 1),
            (TCP_FLAGS, flags_len),
            (INGRESS, 4),
            (EGRESS, 4),
            (VLAN, 2),
            (POST_VLAN, 2),
            (END_REASON, 1),
        ];
        if self.version == Version::Netflow9 {
            fields.pop();
        }
        let mut fields: Vec<Field> =
            fields.into_iter().map(|(element, len)| Field(element, len, false)).collect();
        if self.is_biflow {
            let back = [(START_MS, 8), (END_MS, 8), (PACKETS, 8), (OCTETS, 8), (TCP_FLAGS, 2)];
            fields.extend(back.map(|(element, len)| Field(element, len, true)));
            fields.push(Field(DIRECTION, 1, false));
        }
        fields
    }

    /// Bytes of a record.
    pub(super) fn len(&self) -> usize {
        self.fields().iter().map(|field| usize::from(field.1)).sum()
    }

    /// Writes a flow of this kind.
    pub(super) fn write(&self, flow: &Flow, reading: &Reading, out: &mut Vec<u8>) {
        let record = &flow.forward;
        times(self.version, record, reading, out);
        out.extend(record.packets().to_be_bytes());
        out.extend(record.bytes().to_be_bytes());
        for address in [record.source(), record.destination()] {
            match address {
                IpAddr::V4(address) => out.extend(address.octets()),
                IpAddr::V6(address) => out.extend(address.octets()),
            }
        }
        out.extend(record.ports().0.to_be_bytes());
        out.extend(record.ports().1.to_be_bytes());
        out.extend([record.protocol(), record.tos()]);
        if self.version == Version::Ipfix {
            out.push(0);
        }
        out.push(record.tcp_flags());
        out.extend(record.input().map_or(0, |port| reading.interface(port)).to_be_bytes());
        out.extend(reading.interface(record.output()).to_be_bytes());
        out.extend(record.vlan().to_be_bytes());
        out.extend(record.post_vlan().to_be_bytes());
        if self.version == Version::Ipfix {
            out.push(record.reason as u8);
        }
        if let Some(back) = &flow.reverse {
            times(self.version, back, reading, out);
            out.extend(back.packets().to_be_bytes());
            out.extend(back.bytes().to_be_bytes());
            // biflowDirection 1: the forward direction is the initiator's (RFC 5103 section 6.3).
            out.extend([0, back.tcp_flags(), 1]);
        }
    }
}

fn times(version: Version, record: &Record, reading: &Reading, out: &mut Vec<u8>) {
    for ms in [record.first_ms(), record.last_ms()] {
        match version {
            Version::Ipfix => out.extend(reading.unix_ms(ms).to_be_bytes()),
            Version::Netflow9 => out.extend(ms.to_be_bytes()),
        }
    }
}

/// Writes how a field is described in a template.
pub(super) fn describe(field: &Field, out: &mut Vec<u8>) {
    let Field(element, len, reverse) = *field;
    out.extend((element | if reverse { 0x8000 } else { 0 }).to_be_bytes());
    out.extend(len.to_be_bytes());
    if reverse {
        out.extend(REVERSE.to_be_bytes());
    }
}
