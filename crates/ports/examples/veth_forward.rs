//! Forwards Ethernet frames between two interfaces over AF_XDP, or loads two interfaces with
//! 64-byte frames and counts what comes back: the two halves of the speed measurement on veth
//! pairs that `bench/` describes.
//!
//! ```text
//! veth_forward forward p0 p1 CORE SECONDS
//! veth_forward generate g0 g1 CORE SECONDS MAC0 MAC1
//! ```
//! The generator prints one line: packets sent and received per second over the middle of the
//! run, in millions.

use std::time::{Duration, Instant};

use ebb_graph::{Batch, Pool, Region, Reserve};
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["forward", left, right, core, seconds] => {
            pin(core.parse().expect("CORE"));
            forward(left, right, Duration::from_secs(seconds.parse().expect("SECONDS")));
        }
        ["generate", left, right, core, seconds, mac0, mac1] => {
            pin(core.parse().expect("CORE"));
            let span = Duration::from_secs(seconds.parse().expect("SECONDS"));
            generate(left, right, span, [mac(mac0), mac(mac1)]);
        }
        _ => panic!("see the first lines of this program"),
    }
}

fn mac(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("MAC")).collect();
    bytes.try_into().expect("six bytes")
}

fn pin(core: usize) {
    // SAFETY: all zeroes are an empty set, the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
    }
}

fn open(left: &str, right: &str, workers: u32) -> (Vec<Interface>, Vec<AfXdpPort>, Pool) {
    let region = Region::new(32768);
    // SAFETY: the region is new, this is the only call.
    let pool = Pool::new(Reserve::new(unsafe { region.split() }));
    let umem = Umem::new(region);
    let mut interfaces = Vec::new();
    let mut ports = Vec::new();
    for name in [left, right] {
        let options = InterfaceOptions::new(name, workers, Form::Steer);
        let mut interface = Interface::open(&umem, &options).expect("an interface");
        eprintln!("{name}: {}", interface.mode());
        ports.append(&mut interface.take_ports());
        interfaces.push(interface);
    }
    (interfaces, ports, pool)
}

fn forward(left: &str, right: &str, span: Duration) {
    let (interfaces, mut ports, mut pool) = open(left, right, 1);
    let own: Vec<[u8; 6]> = interfaces.iter().map(Interface::mac).collect();
    let mut batch = Batch::new();
    let start = Instant::now();
    let (mut forwarded, mut dropped, mut rounds) = (0u64, 0u64, 0u64);
    while rounds % 1024 != 0 || start.elapsed() < span {
        rounds += 1;
        for from in 0..2 {
            if ports[from].receive(&mut pool, &mut batch, 64) == 0 {
                continue;
            }
            let to = 1 - from;
            for packet in batch.iter_mut() {
                let frame = packet.data_mut();
                frame.copy_within(6..12, 0);
                frame[6..12].copy_from_slice(&own[to]);
            }
            forwarded += ports[to].transmit(&mut pool, &mut batch) as u64;
            dropped += batch.len() as u64;
            pool.put_batch(&mut batch);
        }
        for port in &mut ports {
            port.flush().expect("the interface is up");
        }
    }
    let rate = forwarded as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("forwarded {rate:.3} Mpps, dropped {dropped}");
    for port in &mut ports {
        eprintln!("{}: {:?}", port.name().to_owned(), port.counters());
        port.close(&mut pool);
    }
}

fn frame(to: [u8; 6], flow: u16) -> [u8; 60] {
    let mut frame = [0u8; 60];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&[10, 1, (flow >> 8) as u8, flow as u8]);
    frame
}

fn generate(left: &str, right: &str, span: Duration, to: [[u8; 6]; 2]) {
    let (mut interfaces, mut ports, mut pool) = open(left, right, 1);
    // The forwarder answers to the frames' source; testpmd to its --eth-peer.
    for interface in &mut interfaces {
        let own = interface.mac();
        interface.set_macs(&[own, [2, 0, 0, 0, 0, 2]]).expect("MAC addresses");
    }
    let frames: Vec<Vec<[u8; 60]>> =
        to.iter().map(|to| (0..1024).map(|flow| frame(*to, flow)).collect()).collect();
    let mut batch = Batch::new();
    let start = Instant::now();
    let (mut sent, mut received, mut rounds, mut flow) = (0u64, 0u64, 0u64, 0usize);
    let mut middle = None;
    let mut end = start;
    while end - start < span {
        rounds += 1;
        if rounds % 64 == 0 {
            end = Instant::now();
            if middle.is_none() && end - start > span / 4 {
                middle = Some((end, sent, received));
            }
        }
        for (port, frames) in ports.iter_mut().zip(&frames) {
            received += port.receive(&mut pool, &mut batch, 256) as u64;
            pool.put_batch(&mut batch);
            for _ in 0..32 {
                let Some(free) = pool.get() else { break };
                batch.push(free.fill(&frames[flow % 1024]));
                flow += 1;
            }
            sent += port.transmit(&mut pool, &mut batch) as u64;
            pool.put_batch(&mut batch);
            port.flush().expect("the interface is up");
        }
    }
    let (since, sent0, received0) = middle.expect("a run of several rounds");
    let span = (end - since).as_secs_f64() * 1e6;
    let (sent, received) = ((sent - sent0) as f64 / span, (received - received0) as f64 / span);
    println!("sent {sent:.3} Mpps, received {received:.3} Mpps");
    for port in &mut ports {
        eprintln!("{}: {:?}", port.name().to_owned(), port.counters());
        port.close(&mut pool);
    }
}
