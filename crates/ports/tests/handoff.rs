//! An open interface goes from one owner to another, as from one process to the next: what waits in
//! its rings arrives, in order, and every frame is found again.

use crate::common;

use common::{Wires, drain, flow_and_seq, options, send, udp};
use ebb_graph::{Batch, Pool, Reserve};
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Interface, Umem};

const FRAMES: u32 = 4096;

fn sequences(batch: &Batch) -> Vec<u32> {
    batch.iter().map(|packet| flow_and_seq(packet.data()).1).collect()
}

/// Packets that wait on both sides: received ones, and ones to be sent.
#[test]
fn what_waits_in_the_rings_is_the_next_owners() {
    let Some(wires) = Wires::new(2, 2) else { return };
    let (umem, reserve) = Umem::allocate(FRAMES).unwrap();
    let names = ["p0", "p1"];
    let mut first: Vec<Interface> =
        names.iter().map(|name| Interface::open(&umem, &options(name, 2)).unwrap()).collect();
    let mut ports: Vec<AfXdpPort> = first.iter_mut().flat_map(Interface::take_ports).collect();
    let (mut pool, mut batch) = (Pool::new(reserve), Batch::new());
    for port in &mut ports {
        assert_eq!(port.receive(&mut pool, &mut batch, 64), 0);
    }
    let (mut from, mut to) = (wires.far(0), wires.far(1));
    let mac = first[0].mac();
    let frames =
        |range: std::ops::Range<u32>| range.map(|seq| udp(mac, 7, seq)).collect::<Vec<_>>();
    send(&mut from, frames(0..100).iter().map(Vec::as_slice));
    assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 100);
    // Queued and not yet shown to the kernel by a system call.
    assert_eq!(ports[2].transmit(&mut pool, &mut batch), 100);
    send(&mut from, frames(100..200).iter().map(Vec::as_slice));

    let file = umem.file().unwrap().try_clone_to_owned().unwrap();
    let (heir, inheritance) = Umem::inherit(file, FRAMES).unwrap();
    let mut second: Vec<Interface> = first
        .iter()
        .map(|interface| {
            let handoff = interface.hand_off().unwrap().expect("open ports");
            Interface::take(&heir, interface.options(), handoff).unwrap()
        })
        .collect();
    let mut table = [0; 128];
    table[64..].fill(1);
    for interface in &mut second {
        assert!(interface.is_inherited());
        interface.take_over(&table).unwrap();
        assert!(!interface.is_inherited());
    }
    // From here on the first owner touches nothing any more; a process would end.
    let mut heirs: Vec<AfXdpPort> = second.iter_mut().flat_map(Interface::take_ports).collect();
    let left = Reserve::new(inheritance.accept());
    assert!(left.len() < FRAMES as usize, "the kernel has some");
    let mut pool_of_heir = Pool::new(left.clone());
    assert_eq!(drain(&mut heirs[0], &mut pool_of_heir, &mut batch), 100);
    assert_eq!(sequences(&batch), (100..200).collect::<Vec<_>>());
    for port in &mut heirs[1..] {
        port.receive(&mut pool_of_heir, &mut Batch::new(), 64);
    }
    assert_eq!(heirs[2].transmit(&mut pool_of_heir, &mut batch), 100);
    heirs[2].flush().unwrap();
    let mut seen = Vec::new();
    while to.receive(|frame| seen.push(flow_and_seq(frame).1)).unwrap() > 0 {}
    assert_eq!(seen, (0..200).collect::<Vec<_>>());

    // The new program obeys the new owner's table, and only that.
    let other = (0..2000)
        .map(|flow| udp(mac, flow, 1000))
        .find(|frame| ebb_wire::redirect_hash(frame) & 127 >= 64)
        .unwrap();
    send(&mut from, [other.as_slice()]);
    assert_eq!(drain(&mut heirs[1], &mut pool_of_heir, &mut batch), 1);
    pool_of_heir.put_batch(&mut batch);

    // Both owners are in this process, and the kernel keeps a socket as long as one has it.
    std::mem::forget(pool);
    drop(ports);
    drop(first);
    for mut port in heirs {
        port.close(&mut pool_of_heir);
    }
    drop(pool_of_heir);
    assert_eq!((heir.in_kernel(), left.len()), (0, FRAMES as usize));
}

/// What another has offered and not given up stays his, also when it is dropped.
#[test]
fn an_offer_that_is_not_taken_changes_nothing() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let (umem, reserve) = Umem::allocate(FRAMES).unwrap();
    let mut first = Interface::open(&umem, &options("p0", 1)).unwrap();
    let mut ports = first.take_ports();
    let (mut pool, mut batch) = (Pool::new(reserve.clone()), Batch::new());
    assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
    let mut from = wires.far(0);
    for turn in 0..2 {
        let file = umem.file().unwrap().try_clone_to_owned().unwrap();
        let (heir, _inheritance) = Umem::inherit(file, FRAMES).unwrap();
        let handoff = first.hand_off().unwrap().expect("an open port");
        let mut second = Interface::take(&heir, first.options(), handoff).unwrap();
        let mut theirs = second.take_ports();
        if turn == 1 {
            second.take_over(&[0; 128]).unwrap();
            first.take_back().unwrap();
        }
        theirs[0].close(&mut Pool::new(Reserve::new(Vec::new())));
        drop((theirs, second));
        let frame = udp(first.mac(), 3, turn);
        send(&mut from, [frame.as_slice()]);
        assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 1, "turn {turn}");
        pool.put_batch(&mut batch);
    }
    ports[0].close(&mut pool);
    drop(pool);
    assert_eq!(reserve.len(), FRAMES as usize);
    assert!(first.hand_off().unwrap().is_none(), "a closed port is not handed off");
}
