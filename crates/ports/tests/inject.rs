//! Packets that are handed back to the kernel, in a namespace of its own.

use crate::common;

use std::time::Duration;

use common::{Memory, Wires, options, run, udp};
use ebb_graph::Batch;
use ebb_ports::Port;
use ebb_ports::afxdp::{Interface, InterfaceOptions, KernelInjector, Mode};

/// The frame of a datagram to 10.1.0.1, port 9.
fn datagram_from(source: [u8; 4], mac: [u8; 6], seq: u32) -> Vec<u8> {
    let mut frame = udp(mac, 1, seq);
    frame[26..30].copy_from_slice(&source);
    frame[24..26].copy_from_slice(&[0, 0]);
    let sum: u32 = frame[14..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

#[test]
fn injected_packets_reach_the_kernel_as_from_their_interface() {
    for mode in [Mode::Native, Mode::Generic] {
        let Some(wires) = Wires::new(1, 1) else { return };
        let memory = Memory::new(4096);
        let options = InterfaceOptions { mode, ..options("p0", 1) };
        let mut interface = Interface::open(&memory.umem, &options).unwrap();
        let mut ports = interface.take_ports();
        let (mut pool, mut batch) = (memory.pool(), Batch::new());
        ports[0].receive(&mut pool, &mut batch, 64);
        // The filter that depends on where a packet comes from.
        let sysctl = "sysctl -qw net.ipv4.conf.p0.rp_filter=1 net.ipv4.conf.all.rp_filter=1";
        run(&format!("ip netns exec {} {sysctl}", wires.router));
        run(&format!("ip -n {} addr add 10.1.0.1/24 dev p0", wires.router));
        let listener = std::net::UdpSocket::bind("10.1.0.1:9").unwrap();
        listener.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut injector = KernelInjector::new().unwrap();
        let native = interface.mode().native;
        assert_eq!(native, mode == Mode::Native);
        for seq in 0..3 {
            for source in [[10, 9, 9, 9], [10, 1, 0, 5]] {
                let frame = datagram_from(source, interface.mac(), seq);
                injector.inject(interface.index(), native, &frame).unwrap();
            }
            let mut buffer = [0; 64];
            let (len, from) = listener.recv_from(&mut buffer).unwrap();
            assert_eq!((len, from.to_string().as_str()), (18, "10.1.0.5:1024"));
            assert_eq!(buffer[..4], seq.to_be_bytes());
        }
        assert!(injector.inject(9999, native, &[0; 60]).is_err());
        ports[0].receive(&mut pool, &mut batch, 64);
        assert!(batch.is_empty(), "a worker has what was the kernel's");
        ports[0].close(&mut pool);
        memory.close(ports, pool);
    }
}
