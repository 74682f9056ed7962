//! VLAN tags that travel beside frames, and far ends that go to longer frames.

use crate::common;

use common::{Wires, drain, opened, options, run, send, udp};
use ebb_graph::Batch;
use ebb_ports::afxdp::{InterfaceOptions, Mode};
use ebb_ports::{PacketSocket, Port};

/// A bridge takes tags out of frames and sends them on beside, as the interfaces of VLANs do.
fn behind_a_bridge(wires: &Wires) {
    wires.in_generator("ip link add name bridge0 type bridge");
    wires.in_generator("ip link add name in0 type veth peer name in1");
    for link in ["g0", "in1"] {
        wires.in_generator(&format!("ip link set {link} master bridge0"));
    }
    for link in ["bridge0", "in0", "in1"] {
        wires.in_generator(&format!("ip link set {link} up"));
    }
}

#[test]
fn frames_with_a_tag_beside_them_are_the_kernels() {
    let Some(wires) = Wires::new(1, 1) else { return };
    behind_a_bridge(&wires);
    let mut far = wires.far_by_name("in0");
    let (memory, interface, mut ports) = opened(&options("p0", 1));
    assert!(interface.sees_tags(), "the driver of veth tells them since Linux 6.8");
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
    let plain = udp(interface.mac(), 1, 1);
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    send(&mut far, [&tagged, &plain, &tagged].map(Vec::as_slice));
    assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 1);
    assert_eq!(batch[0].data(), plain);
    assert_eq!(interface.counters().unwrap().passed_beside, 2);
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
    let generic = InterfaceOptions { mode: Mode::Generic, ..options("p0", 1) };
    drop(interface);
    let (memory, interface, ports) = opened(&generic);
    assert!(!interface.sees_tags(), "there nobody can be asked");
    let pool = memory.pool();
    memory.close(ports, pool);
}

#[test]
fn a_packet_socket_shows_no_frames_of_a_vlan() {
    let Some(wires) = Wires::new(1, 1) else { return };
    behind_a_bridge(&wires);
    let mut far = wires.far_by_name("in0");
    let mut near = PacketSocket::open("p0").expect("a packet socket");
    let plain = udp([2, 0, 0, 0, 0, 1], 1, 1);
    let tagged = |tag: [u8; 4]| [&plain[..12], &tag, &plain[12..]].concat();
    // VLAN 7, VLAN 7 with a priority, a priority alone.
    let [vlan, both, priority] =
        [[0x81, 0, 0, 7], [0x81, 0, 0x60, 7], [0x81, 0, 0x60, 0]].map(tagged);
    send(&mut far, [&vlan, &both, &priority, &plain].map(Vec::as_slice));
    let mut seen = Vec::new();
    for _ in 0..200 {
        near.receive(|frame| seen.extend((frame[..6] == plain[..6]).then(|| frame.to_vec())))
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(seen, [plain.clone(), plain]);
}

#[test]
fn a_packet_socket_is_renewed_when_its_interface_is_made_again() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let near = PacketSocket::open("p0").expect("a packet socket");
    assert!(near.renewed().expect("it is there").is_none());
    run(&format!("ip -n {} link del p0", wires.router));
    assert!(near.renewed().expect("waited for").is_none());
    run(&format!("ip -n {} link add p0 type veth peer name p1", wires.router));
    assert!(near.renewed().expect("opened").is_some());
}

#[test]
fn a_far_end_goes_to_longer_frames_while_the_port_is_open() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let (memory, interface, ports) = opened(&options("p0", 1));
    assert!(interface.mode().native);
    wires.far_mtu(0, 9000);
    run(&format!("ip -n {} link set p0 mtu 9000", wires.router));
    let pool = memory.pool();
    memory.close(ports, pool);
}
