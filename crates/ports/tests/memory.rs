//! Memory links: no packet is lost or doubled, flows keep their order, a rewritten redirect table
//! takes effect at once, and a sleeper is woken.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_graph::{Batch, Pool};
use ebb_ports::memory::{LinkOptions, MemoryPort, link};
use ebb_ports::{Port, RedirectTable};
use ebb_units::Time;
use proptest::prelude::*;

fn options(queues: usize, queue_len: usize) -> LinkOptions {
    LinkOptions { name: "mem0".into(), queues, queue_len }
}

fn frame(flow: u16, seq: u32) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[30..34].copy_from_slice(&[10, 1, (flow >> 8) as u8, flow as u8]);
    frame[42..46].copy_from_slice(&seq.to_be_bytes());
    frame
}

fn flow_and_seq(frame: &[u8]) -> (u16, u32) {
    let flow = u16::from_be_bytes(frame[32..34].try_into().unwrap());
    (flow, u32::from_be_bytes(frame[42..46].try_into().unwrap()))
}

fn prime(ports: &mut [MemoryPort], pool: &mut Pool) {
    for port in ports {
        assert_eq!(port.receive(pool, &mut Batch::new(), 64), 0);
    }
}

fn readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent, received, forwarded and left behind: the frames of the region are all
    /// there at the end, and every packet was delivered or counted as dropped.
    #[test]
    fn frames_and_packets_are_conserved(
        queues in 1usize..4,
        queue_len in 1usize..80,
        frames in 1u32..200,
        steps in prop::collection::vec((0u8..4, 1usize..100), 1..60),
    ) {
        let mut link = link(&options(queues, queue_len)).unwrap();
        let mut pool = Pool::standalone(frames);
        let table = std::array::from_fn(|entry| (entry % queues) as u8);
        link.redirect.rewrite(&table).unwrap();
        let mut batches: Vec<_> = (0..queues).map(|_| Batch::new()).collect();
        let (mut offered, mut sent, mut echoed) = (0, 0, 0);
        for (step, amount) in steps {
            match step {
                0 => {
                    let burst: Vec<_> = (0..amount as u32).map(|i| frame(i as u16, i)).collect();
                    sent += link.far.send(burst.iter().map(Vec::as_slice));
                    offered += amount;
                }
                1 => for (port, batch) in link.ports.iter_mut().zip(&mut batches) {
                    port.receive(&mut pool, batch, amount);
                },
                2 => for (port, batch) in link.ports.iter_mut().zip(&mut batches) {
                    port.transmit(&mut pool, batch);
                },
                _ => echoed += link.far.receive(|frame| assert_eq!(frame.len(), 60)),
            }
        }
        let counters: Vec<_> = link.ports.iter().map(|port| port.counters()).collect();
        let dropped: u64 = counters.iter().map(|counters| counters.receive_dropped).sum();
        let received: u64 = counters.iter().map(|counters| counters.received).sum();
        let waiting: u32 = link.ports.iter().map(|port| port.queue_len()).sum();
        let pending: u32 = link.ports.iter().map(|port| port.transmit_pending()).sum();
        let transmitted: u64 = counters.iter().map(|counters| counters.transmitted).sum();
        let held: usize = batches.iter().map(|batch| batch.len()).sum();
        prop_assert_eq!(offered, sent + dropped as usize);
        prop_assert_eq!(sent as u64, received + u64::from(waiting));
        prop_assert_eq!(received, transmitted + held as u64);
        prop_assert_eq!(transmitted, echoed as u64 + u64::from(pending));
        for (port, batch) in link.ports.iter_mut().zip(&mut batches) {
            pool.put_batch(batch);
            port.close(&mut pool);
        }
        prop_assert_eq!(pool.len() + pool.reserve().len(), frames as usize);
    }
}

#[test]
fn too_long_frames_are_counted() {
    let mut link = link(&options(1, 8)).unwrap();
    let mut pool = Pool::standalone(16);
    prime(&mut link.ports, &mut pool);
    assert_eq!(link.far.send([[0u8; 1793].as_slice(), &[0; 1792]]), 1);
    assert_eq!(link.ports[0].counters().receive_dropped, 1);
}

/// Two workers receive while the table changes many times: after each rewrite the old owner's
/// queue holds all of its packets, and draining it first keeps every flow in order.
#[test]
fn rewrites_keep_flows_in_order() {
    const REWRITES: u32 = 300;
    let mut link = link(&options(2, 512)).unwrap();
    let mut pool = Pool::standalone(8192);
    prime(&mut link.ports, &mut pool);
    let stop = AtomicBool::new(false);
    let (mut sender, _receiver) = link.far.split();
    let mut next = HashMap::<u16, u32>::new();
    let mut received = 0u64;
    let sent = std::thread::scope(|scope| {
        let generator = scope.spawn(|| {
            let mut sent = 0u64;
            let mut sequence = [0u32; 64];
            while !stop.load(Ordering::Relaxed) {
                let burst: Vec<_> =
                    (0..64u16).map(|flow| frame(flow, sequence[usize::from(flow)])).collect();
                for (flow, frame) in burst.iter().enumerate() {
                    if sender.send([frame.as_slice()]) == 1 {
                        sequence[flow] += 1;
                        sent += 1;
                    }
                }
            }
            sent
        });
        let mut batch = Batch::new();
        let mut drain = |port: &mut MemoryPort| {
            while port.queue_len() > 0 {
                port.receive(&mut pool, &mut batch, 64);
                for packet in batch.drain(..) {
                    let (flow, seq) = flow_and_seq(packet.data());
                    let expected = next.entry(flow).or_default();
                    assert_eq!(seq, *expected, "flow {flow} out of order");
                    *expected += 1;
                    received += 1;
                    pool.put(packet.into_frame());
                }
            }
            port.receive(&mut pool, &mut batch, 0);
        };
        for round in 0..REWRITES {
            let old = round as usize % 2;
            while link.ports.iter().map(|port| port.queue_len()).sum::<u32>() < 20 {
                std::thread::yield_now();
            }
            let table = std::array::from_fn(|entry| {
                if entry % 3 == 0 { (1 - old) as u8 } else { (entry % 2) as u8 }
            });
            link.redirect.rewrite(&table).unwrap();
            drain(&mut link.ports[old]);
            drain(&mut link.ports[1 - old]);
        }
        stop.store(true, Ordering::Relaxed);
        let sent = generator.join().expect("the generator");
        for port in &mut link.ports {
            drain(port);
        }
        sent
    });
    assert_eq!(received, sent);
    assert!(sent > 20 * u64::from(REWRITES));
}

#[test]
fn a_sleeper_is_woken_once() {
    let mut link = link(&options(1, 8)).unwrap();
    let mut pool = Pool::standalone(16);
    let mut batch = Batch::new();
    prime(&mut link.ports, &mut pool);
    let mut fds = Vec::new();
    link.ports[0].wait_fds(&mut fds);
    let fd = fds[0];
    link.far.send([[0u8; 60].as_slice()]);
    assert!(!readable(fd), "a polling worker is not rung");
    assert!(!link.ports[0].prepare_wait(), "a packet waits already");
    assert_eq!(link.ports[0].receive(&mut pool, &mut batch, 64), 1);
    assert!(link.ports[0].prepare_wait());
    assert!(!readable(fd));
    link.far.send([[0u8; 60].as_slice()]);
    assert!(readable(fd));
    assert_eq!(link.ports[0].receive(&mut pool, &mut batch, 64), 1);
    assert!(link.ports[0].prepare_wait());
    assert!(!readable(fd), "the bell was cleared");
    pool.put_batch(&mut batch);
}

#[test]
fn one_packet_per_millisecond_is_stamped() {
    let mut link = link(&options(1, 64)).unwrap();
    let mut pool = Pool::standalone(128);
    let mut batch = Batch::new();
    prime(&mut link.ports, &mut pool);
    for micros in 0..40u64 {
        let now = Time::from_nanos(5_000_000 + micros * 100_000);
        link.far.send_at(now, [[0u8; 60].as_slice()]);
    }
    link.ports[0].receive(&mut pool, &mut batch, 64);
    let stamped: Vec<_> =
        batch.iter().map(|p| p.rx_time.as_nanos()).filter(|nanos| *nanos > 0).collect();
    assert_eq!(stamped, [5_000_000, 6_000_000, 7_000_000, 8_000_000]);
    pool.put_batch(&mut batch);
}

#[test]
fn a_table_for_absent_workers_is_refused() {
    let mut link = link(&options(2, 8)).unwrap();
    let error = link.redirect.rewrite(&[2; 128]).unwrap_err();
    assert!(error.to_string().contains("worker 2"), "{error}");
}
