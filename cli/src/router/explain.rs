//! `ebb router explain`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_wire::{Template, ethertype};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Target;

/// Explain what a running router would do with a packet, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router explain eth1 --from 10.0.0.2 --to 198.51.100.1
  ebb router explain eth1 --from 10.0.0.2:5000 --to 198.51.100.1:53 --ttl 1
  ebb router explain eth1 --from 2001:db8::2 --to 2001:db8:1::2 --vlan 7 --length 1500
  ebb router explain eth1 --pcap lost.pcap --count 5

Nothing is sent. The programs in the kernel are asked themselves; what workers do with a packet that they get is told by
their table. Packets made here are UDP; of a capture, each frame is taken as one that is addressed to the port, and of one
that is longer than 1,514 bytes (several packets that a sender has left to its card) the first packet.")]
pub struct Explain {
    /// The router's port that would receive the packet
    port: String,
    /// Source address, with a UDP port if you like
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = endpoint, requires = "to")]
    from: Option<SocketAddr>,
    /// Destination address, with a UDP port if you like
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = endpoint, requires = "from")]
    to: Option<SocketAddr>,
    /// Time to live, or hop limit
    #[arg(long, default_value_t = 64)]
    ttl: u8,
    /// Length of the IP packet in bytes
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(28..))]
    length: u16,
    /// VLAN of the frame
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..4095))]
    vlan: Option<u16>,
    /// Explain packets of a capture file instead
    #[arg(long, value_name = "FILE", conflicts_with = "to", required_unless_present = "to")]
    pcap: Option<PathBuf>,
    /// Most packets of the file
    #[arg(long, default_value_t = 10, requires = "pcap")]
    count: usize,
    /// Print JSON, a line for each packet
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Longest frame of a link of 1,500 bytes.
const FRAME_MAX: usize = 1_514;

/// What the router answers.
#[derive(Deserialize)]
struct Answer {
    way: String,
    because: String,
    route: Option<String>,
    policy: Vec<String>,
}

/// An address, with a port or without.
fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 9));
    let either = text.parse().or(address);
    either.map_err(|_| {
        "expected an address such as 10.0.0.2, 10.0.0.2:53, 2001:db8::2 or [2001:db8::2]:53"
            .to_owned()
    })
}

impl Explain {
    /// Asks about one packet after the other.
    pub fn run(self) -> Result<ExitCode> {
        let frames = match &self.pcap {
            Some(path) => captured(path, self.count)?,
            None => vec![self.frame()?],
        };
        let mut client = self.target.connect()?;
        for (number, frame) in frames.iter().enumerate() {
            let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            let ask = json!({ "explain": { "port": self.port, "frame": hex } });
            let answer: Value = client.request(&ask)?;
            if self.json {
                println!("{answer}");
                continue;
            }
            if number > 0 {
                println!();
            }
            print!("{}", text(&self.port, frame, &serde_json::from_value(answer)?));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn frame(&self) -> Result<Vec<u8>> {
        let (Some(source), Some(destination)) = (self.from, self.to) else {
            anyhow::bail!("say --from and --to, or --pcap")
        };
        ensure!(
            source.is_ipv4() == destination.is_ipv4(),
            "--from and --to are of two families: give two IPv4 or two IPv6 addresses"
        );
        let template = Template {
            destination_mac: [0; 6],
            tag: self.vlan,
            ttl: self.ttl,
            ..Template::udp(source, destination)
        };
        let headers = if source.is_ipv4() { 28 } else { 48 };
        let payload = usize::from(self.length).checked_sub(headers);
        let payload = payload.with_context(|| {
            format!("--length: an IPv6 packet with UDP has at least {headers} bytes")
        })?;
        Ok(template.to_frame(&vec![0; payload]))
    }
}

/// The first packets of a capture, as frames to the port.
fn captured(path: &std::path::Path, count: usize) -> Result<Vec<Vec<u8>>> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| name.clone())?;
    let mut frames = Vec::new();
    for frame in ebb_capture::Reader::new(&name, &bytes[..])?.take(count) {
        let mut data = frame?.data.to_vec();
        ensure!(
            data.len() >= 14,
            "{name}: packet {} is shorter than a link header",
            frames.len() + 1
        );
        data[..6].fill(0);
        frames.push(first_packet(data));
    }
    ensure!(!frames.is_empty(), "{name} has no packets");
    Ok(frames)
}

/// The first of the packets that a super-frame stands for; other frames as they are.
fn first_packet(mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() <= FRAME_MAX {
        return frame;
    }
    frame.truncate(FRAME_MAX);
    let Some(link) = ebb_wire::link(&frame) else { return frame };
    let packet = &mut frame[link.payload..];
    let whole = packet.len() as u16;
    let header = match link.ethertype {
        ethertype::IPV4 => {
            let Some(header) = ebb_wire::Ipv4::new(packet).map(|ip| ip.header_len()) else {
                return frame;
            };
            packet[2..4].copy_from_slice(&whole.to_be_bytes());
            packet[10..12].fill(0);
            let sum = ebb_wire::checksum::of(&packet[..header.max(20)]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            header.max(20)
        }
        ethertype::IPV6 => {
            packet[4..6].copy_from_slice(&(whole - 40).to_be_bytes());
            40
        }
        _ => return frame,
    };
    let protocol = if header == 40 { packet[6] } else { packet[9] };
    if protocol == ebb_wire::protocol::UDP {
        packet[header + 4..header + 6].copy_from_slice(&(whole - header as u16).to_be_bytes());
    }
    frame
}

fn text(port: &str, frame: &[u8], answer: &Answer) -> String {
    let mut lines = vec![
        ("packet", format!("{port}: {}", summary(frame))),
        ("way", answer.way.clone()),
        ("because", answer.because.clone()),
    ];
    lines.extend(answer.route.iter().map(|route| ("route", route.clone())));
    lines.extend(answer.policy.iter().map(|object| ("policy", object.clone())));
    lines.iter().map(|(name, words)| format!("{name:<10} {words}\n")).collect()
}

/// A frame in a few words.
fn summary(frame: &[u8]) -> String {
    let Some(link) = ebb_wire::link(frame) else { return "a frame that is cut short".to_owned() };
    let packet = &frame[link.payload..];
    let vlan = link.tag.map_or_else(String::new, |tag| format!("VLAN {}, ", tag & 0xfff));
    let words = match link.ethertype {
        ethertype::IPV4 => ebb_wire::Ipv4::new(packet).map(|ip| {
            (ip.source().to_string(), ip.destination().to_string(), ip.protocol(), ip.ttl())
        }),
        ethertype::IPV6 => ebb_wire::Ipv6::new(packet).map(|ip| {
            (
                ip.source().to_string(),
                ip.destination().to_string(),
                ip.next_header(),
                ip.hop_limit(),
            )
        }),
        _ => None,
    };
    match words {
        Some((from, to, protocol, ttl)) => {
            format!("{vlan}{from} -> {to}, protocol {protocol}, TTL {ttl}, {} bytes", packet.len())
        }
        None => format!("{vlan}type {:#06x}, {} bytes", link.ethertype, packet.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_ports() {
        let of = |text: &str| endpoint(text).map(|one| one.to_string());
        assert_eq!(of("10.0.0.2").as_deref(), Ok("10.0.0.2:9"));
        assert_eq!(of("10.0.0.2:53").as_deref(), Ok("10.0.0.2:53"));
        assert_eq!(of("2001:db8::2").as_deref(), Ok("[2001:db8::2]:9"));
        assert_eq!(of("[2001:db8::2]:53").as_deref(), Ok("[2001:db8::2]:53"));
        assert!(of("eth0").is_err());
    }

    #[test]
    fn of_a_super_frame_the_first_packet_is_explained() {
        for text in [["10.0.0.2:1", "10.0.1.2:2"], ["[2001:db8::2]:1", "[2001:db8:1::2]:2"]] {
            let [from, to] = text.map(|text| text.parse().expect("an address"));
            let frame = |payload: usize| Template::udp(from, to).to_frame(&vec![0; payload]);
            let whole = frame(60_000);
            let first = first_packet(whole.clone());
            let headers = if from.is_ipv4() { 42 } else { 62 };
            // But for the checksum over what is not there any more.
            let sum = headers - 2..headers;
            let mut expected = frame(FRAME_MAX - headers);
            let mut seen = first.clone();
            expected[sum.clone()].fill(0);
            seen[sum].fill(0);
            assert_eq!(seen, expected);
            assert_eq!(first_packet(frame(100)), frame(100));
        }
        assert_eq!(first_packet(vec![8; 2000]).len(), FRAME_MAX, "no IP");
    }

    #[test]
    fn an_answer_is_a_few_lines() {
        let ends = ["10.0.0.2:1", "10.0.1.2:2"].map(|text| text.parse().expect("an address"));
        let frame = Template { tag: Some(7), ..Template::udp(ends[0], ends[1]) }.to_frame(&[0; 36]);
        let answer = Answer {
            way: "network stack".to_owned(),
            because: "its VLAN is none of the router's".to_owned(),
            route: None,
            policy: vec!["tc: htb".to_owned()],
        };
        assert_eq!(
            text("eth1", &frame, &answer),
            "packet     eth1: VLAN 7, 10.0.0.2 -> 10.0.1.2, protocol 17, TTL 64, 64 bytes\n\
             way        network stack\n\
             because    its VLAN is none of the router's\n\
             policy     tc: htb\n"
        );
    }
}
