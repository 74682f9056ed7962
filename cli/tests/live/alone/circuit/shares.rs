//! One host that sends more than circuits carry, beside another of its rack.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::router::{Running, running, said};
use super::*;

/// Packets that are sent at a time, a millisecond each: more than the link carries.
const BURST: u32 = 15;

/// Sends long packets to the other rack until told to stop, and how many.
fn flood(space: &Namespace, stop: &AtomicBool) -> u32 {
    let sent = space.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let (mut count, begun) = (0, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..BURST {
                count += u32::from(socket.send_to(&[0; 1400], "10.77.1.5:9").is_ok());
            }
            let due = begun + Duration::from_millis(u64::from(count / BURST));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        count
    });
    sent.expect("it ran")
}

/// Of 100 long pings of the other host, how many are answered.
fn answered(racks: &Racks) -> (u32, String) {
    let ping = ["ping", "-q", "-c", "100", "-i", "0.02", "-W", "2", "-s", "1372", "10.77.1.5"];
    let words = said(racks, "h2", &ping);
    let count = words.split(", ").find_map(|part| part.strip_suffix(" received"));
    (count.and_then(|count| count.parse().ok()).unwrap_or(0), words)
}

#[test]
fn a_host_that_fills_a_queue_takes_nothing_of_another() {
    if !permitted() {
        return;
    }
    let mut spaces = None;
    let Running { racks, programs: _programs } = running("shares", |racks| {
        spaces = Some(racks.lab.namespace("h2").expect("a namespace"));
        let host = racks.space("h2");
        racks.ip(
            "sw",
            &format!(
                "link add host2 type veth peer name eth0 netns {host}\nlink set host2 up\n\
                 address add 10.77.2.1/24 dev host2\n"
            ),
        );
        racks.ip(
            "h2",
            "link set lo up\nlink set eth0 up\naddress add 10.77.2.5/24 dev eth0\n\
             route add default via 10.77.2.1\n",
        );
        racks.ip("h1", "route add 10.77.2.0/24 via 10.77.1.1\n");
        let text = fs::read_to_string(racks.at("tor.toml")).expect("a configuration");
        let second = "[[rack.host]]\nname = \"host2\"\nprefixes = [\"10.77.2.0/24\"]\n\
                      own = [\"10.77.2.1\"]\n[[rack]]\nnumber = 1\n";
        let text = text.replace("[[rack]]\nnumber = 1\n", second);
        fs::write(racks.at("tor.toml"), text).expect("a configuration");
    });
    assert!(until(|| answered(&racks).0 == 100), "calm: {}", answered(&racks).1);
    let stop = AtomicBool::new(false);
    let (sent, (count, words)) = std::thread::scope(|scope| {
        let floods = scope.spawn(|| flood(&racks._spaces[1], &stop));
        std::thread::sleep(Duration::from_millis(500));
        let found = answered(&racks);
        stop.store(true, Ordering::Relaxed);
        (floods.join().expect("it ended"), found)
    });
    let dropped = number(&racks.status("tor")["racks"][0]["dropped_full"]);
    println!("{sent} packets of a flood, {dropped} dropped; {words}");
    assert!(dropped > 1000.0, "the queue was not full: {}", racks.status("tor"));
    assert!(count >= 97, "{count} of 100 pings answered beside a flood: {words}");
}
