//! Packets longer than a frame of the workers' memory: they stay with the kernel, counted, or come in long frames.

use crate::common;

use common::{Tap, Wires, drain, opened, options, receive_long, run, send_long, udp};
use ebb_graph::Batch;
use ebb_ports::Port;
use ebb_ports::afxdp::{InterfaceOptions, Mode};

#[test]
fn long_packets_stay_with_the_kernel() {
    for mode in [Mode::Native, Mode::Generic] {
        let Some(wires) = Wires::new(1, 1) else { return };
        run(&format!("ip -n {} link set p0 mtu 9216", wires.router));
        let far = wires.far(0);
        wires.far_mtu(0, 9216);
        let (memory, interface, mut ports) = opened(&InterfaceOptions { mode, ..options("p0", 1) });
        assert_eq!(interface.mtu_served(), Some(1754));
        let (mut pool, mut batch) = (memory.pool(), Batch::new());
        assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
        let lengths = [60, 1514, 1776, 1777, 2000, 3500, 4096, 9000, 9230];
        let frames = lengths.map(|len| {
            let mut frame = udp(interface.mac(), 1, len as u32);
            frame.resize(len, 7);
            frame
        });
        frames.iter().for_each(|frame| send_long(&far, frame));
        let came = drain(&mut ports[0], &mut pool, &mut batch);
        let seen: Vec<usize> = batch.iter().map(|packet| packet.len()).collect();
        assert_eq!((came, &seen[..]), (3, &lengths[..3]), "{mode:?}");
        assert!(batch.iter().zip(&frames).all(|(packet, frame)| packet.data() == frame));
        assert_eq!(interface.counters().unwrap().passed_long, 6, "{mode:?}");
        assert_eq!(ports[0].counters().receive_dropped, 0);
        pool.put_batch(&mut batch);
        memory.close(ports, pool);
    }
}

/// What a guest leaves to be cut reaches the kernel in one piece, and its other packets a worker.
#[test]
fn super_frames_of_a_tap_stay_with_the_kernel() {
    let Some(_wires) = Wires::new(0, 1) else { return };
    let Some(mut tap) = Tap::new("t0") else { return };
    let (memory, interface, mut ports) = opened(&options("t0", 1));
    assert!(interface.unfinished(), "a guest leaves checksums as well");
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
    let mut segment = udp(interface.mac(), 1, 0);
    segment[23] = 6;
    segment[46] = 0x50;
    segment.resize(14 + 20 + 20 + 14_480, 7);
    // RFC 791: the total length, and what the header's checksum makes of it.
    segment[16..18].copy_from_slice(&14_520u16.to_be_bytes());
    segment[24..26].fill(0);
    let sum: u32 = segment[14..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    segment[24..26].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    tap.write(&segment, Some(1448));
    let short = udp(interface.mac(), 1, 1);
    tap.write(&short, None);
    assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 1);
    assert_eq!(batch[0].data(), short);
    let counters = interface.counters().unwrap();
    assert_eq!((counters.passed_long, ports[0].counters().receive_dropped), (1, 0));
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

/// Where they are asked for they come to workers, in one piece, and leave again as they are.
#[test]
fn long_packets_come_to_workers_that_ask_for_them() {
    for mode in [Mode::Native, Mode::Generic] {
        let Some(wires) = Wires::new(1, 1) else { return };
        run(&format!("ip -n {} link set p0 mtu 9216", wires.router));
        let far = wires.far(0);
        wires.far_mtu(0, 9216);
        let options = InterfaceOptions { mode, long: true, ..options("p0", 1) };
        let (memory, interface, mut ports) = opened(&options);
        assert_eq!(interface.mtu_served(), None);
        let (mut pool, mut batch) = (memory.pool().with_long(8), Batch::new());
        assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
        let lengths = [60, 1514, 1776, 1777, 1792, 1793, 3584, 3585, 9014, 9230];
        for (number, len) in lengths.iter().cycle().take(60).enumerate() {
            let mut frame = udp(interface.mac(), number as u16, *len as u32);
            frame.resize(*len, number as u8);
            send_long(&far, &frame);
            let came = drain(&mut ports[0], &mut pool, &mut batch);
            assert_eq!((came, batch[0].len()), (1, *len), "{mode:?}");
            assert_eq!(batch[0].data(), frame);
            assert_eq!(ports[0].transmit(&mut pool, &mut batch), 1);
            ports[0].flush().expect("an interface that is up");
            assert_eq!(receive_long(&far).as_deref(), Some(&frame[..]), "{mode:?}, {len}");
        }
        // More than there are long frames for are lost, and counted.
        for _ in 0..10 {
            let mut frame = udp(interface.mac(), 1, 1);
            frame.resize(9000, 1);
            send_long(&far, &frame);
        }
        assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 8);
        assert_eq!(ports[0].counters().receive_dropped, 2);
        pool.put_batch(&mut batch);
        assert_eq!(interface.counters().unwrap().passed_long, 0, "{mode:?}");
        memory.close(ports, pool);
    }
}
