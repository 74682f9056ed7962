//! AF_XDP ports on veth pairs in network namespaces: forwarding, steering, what stays with the
//! kernel, faults, and every frame found again.

use crate::common;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Memory, Wires, drain, flow_and_seq, opened, options, run, send, udp};
use ebb_graph::Batch;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpError, AfXdpPort, Form, Interface, InterfaceOptions, Mode};

fn readable(fd: RawFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
}

fn forward(mode: Mode) {
    let Some(wires) = Wires::new(2, 1) else { return };
    let memory = Memory::new(8192);
    let open = |name| {
        let options = InterfaceOptions { mode, ..options(name, 1) };
        Interface::open(&memory.umem, &options).unwrap()
    };
    let (mut left, mut right) = (open("p0"), open("p1"));
    assert_eq!(left.mode().native, mode != Mode::Generic);
    let (mut from, mut to) = (wires.far(0), wires.far(1));
    let mut ports = left.take_ports();
    ports.extend(right.take_ports());
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    for port in &mut ports {
        assert_eq!(port.receive(&mut pool, &mut batch, 64), 0);
    }
    let mut seen = Vec::new();
    let mut stamped = 0;
    let mac = left.mac();
    for round in 0..40u32 {
        let frames: Vec<_> = (0..50).map(|i| udp(mac, 7, round * 50 + i)).collect();
        send(&mut from, frames.iter().map(Vec::as_slice));
        let until = Instant::now() + Duration::from_secs(2);
        let mut left = 50;
        while left > 0 && Instant::now() < until {
            left -= ports[0].receive(&mut pool, &mut batch, 64);
            stamped += batch.iter().filter(|packet| packet.rx_time.as_nanos() > 0).count();
            let waiting = batch.len();
            assert_eq!(ports[1].transmit(&mut pool, &mut batch), waiting);
            ports[1].flush().unwrap();
            ports[1].receive(&mut pool, &mut batch, 64);
        }
        to.receive(|frame| seen.push(flow_and_seq(frame).1)).unwrap();
    }
    while to.receive(|frame| seen.push(flow_and_seq(frame).1)).unwrap() > 0 {}
    assert_eq!(seen, (0..2000).collect::<Vec<_>>());
    assert!((1..2000).contains(&stamped), "{stamped} of 2000 packets carried their time");
    assert_eq!(ports[0].counters().received, 2000);
    assert_eq!(ports[1].counters().transmitted, 2000);
    assert_eq!(ports[0].counters().receive_dropped, 0);
    assert_eq!(left.counters().unwrap().redirected, 2000);
    memory.close(ports, pool);
}

#[test]
fn packets_cross_in_order_native() {
    forward(Mode::Auto);
}

#[test]
fn packets_cross_in_order_generic() {
    forward(Mode::Generic);
}

/// Every worker gets what the table says; after a rewrite, only what the new table says.
#[test]
fn steering_is_balanced_and_fenced() {
    for workers in [2u8, 4] {
        let Some(wires) = Wires::new(1, 1) else { return };
        let memory = Memory::new(16384);
        let mut interface =
            Interface::open(&memory.umem, &options("p0", u32::from(workers))).unwrap();
        let mut table = interface.steer_table().unwrap();
        let mut far = wires.far(0);
        let mut ports = interface.take_ports();
        let (mut pool, mut batch) = (memory.pool(), Batch::new());
        for port in &mut ports {
            port.receive(&mut pool, &mut batch, 64);
        }
        let frames: Vec<_> = (0..1280).map(|flow| udp(interface.mac(), flow, 0)).collect();
        for shift in 0..3u8 {
            let entries: [u8; 128] = std::array::from_fn(|entry| (entry as u8 + shift) % workers);
            table.rewrite(&entries).unwrap();
            let mut expected = vec![0; usize::from(workers)];
            for frame in &frames {
                let entry = ebb_wire::redirect_hash(frame) as usize & 127;
                expected[usize::from(entries[entry])] += 1;
            }
            let mut received = vec![0; usize::from(workers)];
            for chunk in frames.chunks(128) {
                send(&mut far, chunk.iter().map(Vec::as_slice));
                for (port, count) in ports.iter_mut().zip(&mut received) {
                    *count += port.receive(&mut pool, &mut batch, 512);
                }
                pool.put_batch(&mut batch);
            }
            for (port, count) in ports.iter_mut().zip(&mut received) {
                *count += drain(port, &mut pool, &mut batch);
            }
            pool.put_batch(&mut batch);
            assert_eq!(received, expected);
            let fair = frames.len() / usize::from(workers);
            assert!(received.iter().all(|count| count.abs_diff(fair) < fair / 4), "{received:?}");
        }
        assert!(table.rewrite(&[workers; 128]).is_err(), "no such worker");
        memory.close(ports, pool);
    }
}

/// Ends the generator also when the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While traffic flows, entries move back and forth between two workers. After each rewrite the
/// old owner's queue is drained before the new owner's is touched: then no packet overtakes
/// another of its flow, and none is lost.
#[test]
fn rewrites_under_load_keep_flows_in_order() {
    const REWRITES: u32 = 200;
    let Some(wires) = Wires::new(1, 1) else { return };
    let memory = Memory::new(16384);
    let options = InterfaceOptions { ring_len: 4096, ..options("p0", 2) };
    let mut interface = Interface::open(&memory.umem, &options).unwrap();
    let mut table = interface.steer_table().unwrap();
    let mut far = wires.far(0);
    let mut ports = interface.take_ports();
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    for port in &mut ports {
        port.receive(&mut pool, &mut batch, 64);
    }
    let mac = interface.mac();
    let (stop, received) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut next = [0u32; 64];
    let entry_of: Vec<usize> =
        (0..64).map(|flow| ebb_wire::redirect_hash(&udp(mac, flow, 0)) as usize & 127).collect();
    let mut take = |port: &mut AfXdpPort, may_own: &dyn Fn(usize) -> bool| {
        let mut waiting = port.queue_len() as usize;
        while waiting > 0 {
            waiting -= port.receive(&mut pool, &mut batch, waiting.min(64));
            for packet in batch.drain(..) {
                let (flow, seq) = flow_and_seq(packet.data());
                let flow = usize::from(flow);
                assert_eq!(seq, next[flow], "flow {flow} out of order");
                assert!(may_own(entry_of[flow]), "flow {flow} came to its old worker too late");
                next[flow] += 1;
                received.fetch_add(1, Ordering::Relaxed);
                pool.put(packet.into_frame());
            }
        }
    };
    let sent = std::thread::scope(|scope| {
        let generator = scope.spawn(|| {
            let mut seq = 0;
            while !stop.load(Ordering::Relaxed) {
                let frames: Vec<_> = (0..64).map(|flow| udp(mac, flow, seq)).collect();
                send(&mut far, frames.iter().map(Vec::as_slice));
                seq += 1;
                // No more on the way than a veth's queue of 256 holds, however slow this machine.
                while seq * 64 - received.load(Ordering::Relaxed) > 128
                    && !stop.load(Ordering::Relaxed)
                {
                    std::thread::yield_now();
                }
            }
            seq
        });
        let end = StopAtEnd(&stop);
        let mut spent = Duration::ZERO;
        for round in 0..REWRITES {
            let old = round as usize % 2;
            let until = Instant::now() + Duration::from_secs(5);
            while ports[old].queue_len() < 15 {
                assert!(Instant::now() < until, "the generator sends no more");
                std::thread::yield_now();
            }
            let entries: [u8; 128] = std::array::from_fn(|entry| match entry % 3 {
                0 => (1 - old) as u8,
                _ => (entry % 2) as u8,
            });
            let start = Instant::now();
            table.rewrite(&entries).unwrap();
            spent += start.elapsed();
            take(&mut ports[old], &|_| true);
            for worker in [1 - old, old] {
                take(&mut ports[worker], &|entry| usize::from(entries[entry]) == worker);
            }
        }
        println!("rewrite with fence: {:?} each", spent / REWRITES);
        drop(end);
        let sent = generator.join().expect("the generator");
        std::thread::sleep(Duration::from_millis(20));
        ports.iter_mut().for_each(|port| take(port, &|_| true));
        sent
    });
    assert!(sent > REWRITES / 4, "only {sent} rounds of packets");
    assert_eq!(next, [sent; 64], "packets lost");
    memory.close(ports, pool);
}

fn changed(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn udp6(mac: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0u8; 74];
    frame[..6].copy_from_slice(&mac);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 0x86, 0xdd]);
    frame[14..24].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, 17, 64, 0x20, 1]);
    frame[38..40].copy_from_slice(&[0x20, 1]);
    frame[53] = 9;
    frame
}

#[test]
fn the_kernel_keeps_what_is_its_own() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let memory = Memory::new(4096);
    let mut interface = Interface::open(&memory.umem, &options("p0", 1)).unwrap();
    let own6 = "2001::9:1".parse().unwrap();
    let locals = ["192.0.2.9".parse().unwrap(), "10.1.0.77".parse().unwrap(), own6];
    interface.set_local_addresses(&[locals[1]]).unwrap();
    interface.set_local_addresses(&locals).unwrap();
    let mac = interface.mac();
    let plain = udp(mac, 1, 0);
    let plain6 = udp6(mac);
    let mut tagged = plain[..12].to_vec();
    tagged.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
    tagged.extend(&plain[12..]);
    let mut thrice = plain[..12].to_vec();
    // The first is a priority tag: frames of a VLAN do not show at the socket below.
    thrice.extend([0x81, 0, 0, 0, 0x81, 0, 0, 6, 0x81, 0, 0, 7]);
    thrice.extend(&plain[12..]);
    let ours6 = match own6 {
        std::net::IpAddr::V6(address) => address.octets(),
        std::net::IpAddr::V4(_) => unreachable!(),
    };
    let cases = [
        ("plain", true, plain.clone()),
        ("two tags", true, tagged),
        ("three tags", false, thrice),
        ("fragment", true, changed(plain.clone(), 20, &[0x20, 0])),
        ("IPv6", true, plain6.clone()),
        ("ARP", false, changed(plain.clone(), 12, &[8, 6])),
        ("options", false, changed(plain.clone(), 14, &[0x46])),
        ("version", false, changed(plain.clone(), 14, &[0x55])),
        ("broadcast MAC", false, changed(plain.clone(), 0, &[255; 6])),
        ("other MAC", false, changed(plain.clone(), 0, &[2, 9, 9, 9, 9, 9])),
        ("multicast", false, changed(plain.clone(), 30, &[224, 0, 0, 5])),
        ("broadcast", false, changed(plain.clone(), 30, &[255; 4])),
        ("own address", false, changed(plain.clone(), 30, &[10, 1, 0, 77])),
        ("too short", false, plain[..33].to_vec()),
        ("IPv6 own address", false, changed(plain6.clone(), 38, &ours6)),
        ("IPv6 hop-by-hop", false, changed(plain6.clone(), 20, &[0])),
        ("IPv6 multicast", false, changed(plain6.clone(), 38, &[0xff, 2])),
        ("IPv6 to link-local", false, changed(plain6.clone(), 38, &[0xfe, 0x80])),
        ("IPv6 from link-local", false, changed(plain6.clone(), 22, &[0xfe, 0xbf])),
        ("neighbour discovery", false, changed(changed(plain6.clone(), 20, &[58]), 54, &[135])),
        ("ICMPv6 echo", true, changed(changed(plain6, 20, &[58]), 54, &[128])),
    ];
    let mut far = wires.far(0);
    let mut kernel = ebb_ports::PacketSocket::open("p0").unwrap();
    let mut ports = interface.take_ports();
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    send(&mut far, [plain.as_slice()]);
    assert_eq!(interface.counters().unwrap().passed, 1, "before the port runs, the kernel's");
    ports[0].receive(&mut pool, &mut batch, 64);
    kernel.receive(|_| {}).unwrap();
    for (case, routed, frame) in cases {
        let before = interface.counters().unwrap();
        send(&mut far, [frame.as_slice()]);
        std::thread::sleep(Duration::from_millis(2));
        let after = interface.counters().unwrap();
        assert_eq!(after.redirected - before.redirected, u64::from(routed), "{case}");
        assert_eq!(after.passed - before.passed, u64::from(!routed), "{case}");
        assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), usize::from(routed), "{case}");
        if routed {
            assert_eq!(batch[0].data(), frame, "{case}");
        }
        let mut seen = 0;
        kernel.receive(|_| seen += 1).unwrap();
        assert_eq!(seen, usize::from(!routed), "{case} at the kernel");
        pool.put_batch(&mut batch);
    }
    interface.set_local_addresses(&[]).unwrap();
    send(&mut far, [changed(plain, 30, &[10, 1, 0, 77]).as_slice()]);
    assert_eq!(drain(&mut ports[0], &mut pool, &mut batch), 1, "no longer local");
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

fn first_fd(port: &AfXdpPort) -> i32 {
    let mut fds = Vec::new();
    port.wait_fds(&mut fds);
    fds[0]
}

#[test]
fn a_sleeping_worker_is_woken() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let (memory, interface, mut ports) = opened(&options("p0", 1));
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    let mut far = wires.far(0);
    ports[0].receive(&mut pool, &mut batch, 64);
    let fd = first_fd(&ports[0]);
    assert!(ports[0].prepare_wait());
    assert!(!readable(fd, 0));
    send(&mut far, [udp(interface.mac(), 1, 1).as_slice()]);
    assert!(readable(fd, 1000));
    assert!(!ports[0].prepare_wait());
    assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 1);
    assert!(ports[0].prepare_wait() && !readable(fd, 0));
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

#[test]
fn faults_have_names() {
    let Some(wires) = Wires::new(2, 1) else { return };
    let memory = Memory::new(4096);
    let open = |options: &InterfaceOptions| Interface::open(&memory.umem, options);
    let first = open(&options("p0", 1)).unwrap();
    let busy = open(&options("p0", 1)).unwrap_err();
    assert!(matches!(busy, AfXdpError::ProgramBusy { .. }), "{busy}");
    drop(first);
    let absent = open(&options("p9", 1)).unwrap_err();
    assert!(matches!(absent, AfXdpError::NoInterface { .. }), "{absent}");
    let rss = InterfaceOptions { form: Form::Rss, ..options("p1", 3) };
    let few = open(&rss).unwrap_err().to_string();
    assert!(few.contains("1 receive queues for 3 workers"), "{few}");
    run(&format!("ip -n {} link set p1 down", wires.router));
    let down = open(&options("p1", 1)).unwrap_err();
    assert!(matches!(down, AfXdpError::Down { .. }), "{down}");
    assert_eq!(memory.umem.in_kernel(), 0);
}

#[test]
fn a_full_transmit_ring_leaves_packets_in_the_batch() {
    let Some(_wires) = Wires::new(1, 1) else { return };
    let (memory, _interface, mut ports) =
        opened(&InterfaceOptions { ring_len: 64, ..options("p0", 1) });
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    for seq in 0..100 {
        batch.push(pool.get().unwrap().fill(&udp([2; 6], 1, seq)));
    }
    assert_eq!(ports[0].transmit(&mut pool, &mut batch), 64);
    assert_eq!((batch.len(), ports[0].transmit_pending()), (36, 64));
    assert_eq!(flow_and_seq(batch[0].data()).1, 64, "the first ones went, in order");
    ports[0].flush().unwrap();
    assert_eq!(ports[0].transmit_pending(), 0);
    assert_eq!(ports[0].transmit(&mut pool, &mut batch), 36);
    memory.close(ports, pool);
}

#[test]
fn a_deleted_interface_ends_quietly() {
    let Some(wires) = Wires::new(2, 1) else { return };
    let (memory, _interface, mut ports) = opened(&options("p0", 1));
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    ports[0].receive(&mut pool, &mut batch, 64);
    assert!(ports[0].prepare_wait());
    run(&format!("ip -n {} link del p0", wires.router));
    assert_eq!(ports[0].receive(&mut pool, &mut batch, 64), 0);
    assert!(ports[0].prepare_wait());
    assert!(!readable(first_fd(&ports[0]), 0), "no reason to spin");
    // A sleep asks for no errors; sending finds out.
    batch.push(pool.get().unwrap().fill(&[0; 60]));
    ports[0].transmit(&mut pool, &mut batch);
    assert!(ports[0].flush().is_err());
    batch.push(pool.get().unwrap().fill(&[0; 60]));
    assert_eq!(ports[0].transmit(&mut pool, &mut batch), 0, "known by now");
    assert!(ports[0].prepare_wait() && ports[0].flush().is_err());
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

#[test]
fn a_link_that_is_down_says_so_and_nobody_waits_for_it() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let (memory, _interface, mut ports) = opened(&options("p0", 1));
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    ports[0].receive(&mut pool, &mut batch, 64);
    run(&format!("ip -n {} link set p0 down", wires.router));
    batch.push(pool.get().unwrap().fill(&[0; 60]));
    ports[0].transmit(&mut pool, &mut batch);
    let error = ports[0].flush().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    assert!(ports[0].prepare_wait(), "no reason to spin");
    assert_eq!(ports[0].transmit_pending(), 0, "nobody is to wait for it");
    run(&format!("ip -n {} link set p0 up", wires.router));
    ports[0].flush().unwrap();
    assert_eq!(ports[0].transmit_pending(), 0);
    memory.close(ports, pool);
}

#[test]
fn what_a_link_that_is_down_has_not_taken_is_counted_when_it_is_closed() {
    let Some(wires) = Wires::new(1, 1) else { return };
    let (memory, interface, mut ports) = opened(&options("p0", 1));
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    ports[0].receive(&mut pool, &mut batch, 64);
    run(&format!("ip -n {} link set p0 down", wires.router));
    assert!(interface.is_set_down());
    for _ in 0..3 {
        batch.push(pool.get().unwrap().fill(&[0; 60]));
    }
    ports[0].transmit(&mut pool, &mut batch);
    ports[0].flush().unwrap_err();
    ports[0].close(&mut pool);
    let counters = ports[0].counters();
    assert_eq!((counters.transmitted, counters.transmit_dropped), (0, 3));
    memory.close(ports, pool);
}

#[test]
fn two_queues_two_workers() {
    let Some(wires) = Wires::new(1, 2) else { return };
    let memory = Memory::new(8192);
    let rss = InterfaceOptions { form: Form::Rss, ..options("p0", 2) };
    let mut interface = Interface::open(&memory.umem, &rss).unwrap();
    assert_eq!((interface.queues(), interface.unserved_queues()), (2, 0));
    assert!(!interface.queues_changed().unwrap());
    let mut ports = interface.take_ports();
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    for port in &mut ports {
        port.receive(&mut pool, &mut batch, 64);
    }
    let mut far = wires.far(0);
    let frames: Vec<_> = (0..200).map(|flow| udp(interface.mac(), flow, 0)).collect();
    send(&mut far, frames.iter().map(Vec::as_slice));
    let received: usize = ports.iter_mut().map(|port| drain(port, &mut pool, &mut batch)).sum();
    assert_eq!(received, 200);
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

/// Sends from a CPU: what leaves by a veth's queue i, chosen by CPU, comes in queue i.
fn send_from(cpu: usize, far: &mut ebb_ports::PacketSocket, frames: &[Vec<u8>]) {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            // SAFETY: all zeroes are an empty set, `CPU_SET` checks its bounds, and the call reads
            // the set for the calling thread.
            let pinned = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
            };
            assert_eq!(pinned, 0);
            send(far, frames.iter().map(Vec::as_slice));
        });
        sending.join().expect("the sender");
    });
}

/// One worker has two queues. What comes later in one must not pay for what waits in the other.
#[test]
fn what_waits_is_marked_by_queue() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: needs two CPUs");
        return;
    }
    let Some(wires) = Wires::new(1, 2) else { return };
    let (memory, interface, mut ports) = opened(&options("p0", 1));
    let port = &mut ports[0];
    assert_eq!(interface.queues(), 2);
    let (mut pool, mut batch) = (memory.pool(), Batch::new());
    port.receive(&mut pool, &mut batch, 64);
    let mut far = wires.far(0);
    let frames = |seq| -> Vec<Vec<u8>> { (0..60).map(|i| udp(interface.mac(), i, seq)).collect() };
    let arrive = |port: &AfXdpPort, count| {
        let until = Instant::now() + Duration::from_secs(5);
        while port.queue_len() < count {
            assert!(Instant::now() < until, "{} of {count} packets came", port.queue_len());
            std::thread::yield_now();
        }
    };
    send_from(1, &mut far, &frames(0));
    arrive(port, 60);
    port.mark();
    assert_eq!(port.marked(), 60);
    send_from(0, &mut far, &frames(1));
    arrive(port, 120);
    let (mut old, mut new, mut new_before) = (60, 0, 0);
    while old > 0 {
        assert_eq!(port.marked(), old);
        assert!(port.receive(&mut pool, &mut batch, 8) > 0);
        for packet in batch.drain(..) {
            match flow_and_seq(packet.data()).1 {
                0 => old -= 1,
                _ => new += 1,
            }
            pool.put(packet.into_frame());
        }
        if old > 0 {
            new_before = new;
        }
    }
    assert_eq!(port.marked(), 0);
    assert!(new_before > 0, "all came in one queue: nothing was shown");
    drain(port, &mut pool, &mut batch);
    pool.put_batch(&mut batch);
    memory.close(ports, pool);
}

const CHILD: &str = "EBB_PORTS_TEST_CHILD";

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_holds_the_interface() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (memory, _interface, mut ports) = opened(&options("p0", 1));
    let mut pool = memory.pool();
    ports[0].receive(&mut pool, &mut Batch::new(), 64);
    println!("ready");
    std::thread::sleep(Duration::from_secs(20));
}

#[test]
fn a_killed_process_leaves_no_program_behind() {
    use std::io::BufRead;
    let Some(wires) = Wires::new(1, 1) else { return };
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "afxdp::child_holds_the_interface", "--nocapture"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains("ready"));
    let show = || run(&format!("ip -n {} link show p0", wires.router));
    let attached = show().contains("xdp");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready && attached, "ready {ready}, attached {attached}");
    let until = Instant::now() + Duration::from_secs(2);
    while show().contains("xdp") && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!show().contains("xdp"), "{}", show());
}
