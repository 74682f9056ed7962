//! Frames through a memory link and back on one thread: far end, receive, transmit, far end, with
//! one copy per packet. Prints millions of packets per second; the argument is the seconds to run.

use std::time::{Duration, Instant};

use ebb_graph::{Batch, Pool};
use ebb_ports::Port;
use ebb_ports::memory::{LinkOptions, link};

fn main() {
    let seconds = std::env::args().nth(1).map_or(1.0, |text| text.parse().expect("seconds"));
    let span = Duration::from_secs_f64(seconds);
    let options = LinkOptions { name: "mem0".into(), queues: 1, queue_len: 1024 };
    let mut link = link(&options).expect("a link");
    let mut pool = Pool::standalone(8192);
    let mut batch = Batch::new();
    let port = &mut link.ports[0];
    port.receive(&mut pool, &mut batch, 64);
    let frames: Vec<[u8; 60]> = (0..4096u32)
        .map(|flow| {
            let mut frame = [0u8; 60];
            frame[30..34].copy_from_slice(&flow.to_be_bytes());
            frame
        })
        .collect();
    let start = Instant::now();
    let (mut packets, mut bytes) = (0u64, 0u64);
    while start.elapsed() < span {
        for burst in frames.chunks(64) {
            link.far.send(burst.iter().map(|frame| frame.as_slice()));
            packets += port.receive(&mut pool, &mut batch, 64) as u64;
            port.transmit(&mut pool, &mut batch);
            link.far.receive(|frame| bytes += frame.len() as u64);
        }
    }
    assert_eq!(bytes, packets * 60);
    println!("{:.1} Mpps", packets as f64 / start.elapsed().as_secs_f64() / 1e6);
}
