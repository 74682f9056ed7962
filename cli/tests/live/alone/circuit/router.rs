//! The top-of-rack switch as the router that it is: neighbours, its own addresses, ICMP errors, fragments, options,
//! interfaces that are made again.

use super::*;

/// What a program in a namespace says.
pub(super) fn said(racks: &Racks, role: &str, line: &[&str]) -> String {
    let space = racks.space(role);
    let output = run("ip", &[&["netns", "exec", &space], line].concat());
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// How many of 10 pings are answered.
fn answered(racks: &Racks, role: &str, arguments: &[&str]) -> u32 {
    let ping = ["ping", "-q", "-c", "10", "-i", "0.2", "-W", "2"];
    let words = said(racks, role, &[&ping[..], arguments].concat());
    let count = words.split(", ").find_map(|part| part.strip_suffix(" received"));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn all_but_few(racks: &Racks, role: &str, arguments: &[&str]) {
    let count = answered(racks, role, arguments);
    assert!(count >= 8, "{role} {arguments:?}: {count} of 10: {}", racks.status("tor"));
}

/// Racks with long days whose programs run, and until they reach each other.
pub(super) struct Running {
    pub(super) racks: Racks,
    pub(super) programs: [Program; 3],
}

pub(super) fn running(test: &str, change: impl FnOnce(&Racks)) -> Running {
    let racks = Racks::build(test);
    racks.configure(&Settings { packets: false, link_mbps: 100, queue_kb: 400 });
    change(&racks);
    let programs = [racks.control(), racks.ocs(), racks.tor()];
    racks.follow("controller", &programs.iter().collect::<Vec<_>>());
    Running { racks, programs }
}

#[test]
fn hosts_are_found_by_both_families_and_move() {
    if !permitted() {
        return;
    }
    let Running { racks, programs: _programs } = running("neighbours", |racks| {
        for rack in 0..2 {
            racks.ip("sw", &format!("address add fd77:0:0:{rack}::1/64 dev host{rack} nodad\n"));
            racks.ip(
                &format!("h{rack}"),
                &format!(
                    "address add fd77:0:0:{rack}::5/64 dev eth0 nodad\n\
                     route add ::/0 via fd77:0:0:{rack}::1\n"
                ),
            );
        }
        let text = fs::read_to_string(racks.at("tor.toml")).expect("a configuration");
        let text = [0, 1].iter().fold(text, |text, rack| {
            let four = format!("[\"10.77.{rack}.0/24\"]");
            let both = format!("[\"10.77.{rack}.0/24\", \"fd77:0:0:{rack}::/64\"]");
            text.replace(&four, &both)
        });
        fs::write(racks.at("tor.toml"), text).expect("a configuration");
    });
    // It has said nothing yet.
    all_but_few(&racks, "h0", &["fd77:0:0:1::5"]);
    all_but_few(&racks, "h0", &["10.77.1.5"]);
    // Another card, which announces itself as interfaces do with `arp_notify`.
    said(&racks, "h1", &["sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1"]);
    racks.ip("h1", "link set eth0 address 02:00:00:00:77:05\n");
    all_but_few(&racks, "h0", &["10.77.1.5"]);
}

#[test]
fn packets_that_cannot_go_on_are_answered_for_and_others_go_on() {
    if !permitted() {
        return;
    }
    let Running { racks, programs: _programs } = running("errors", |racks| {
        for rack in 0..2 {
            racks.ip("sw", &format!("link set host{rack} mtu 1700\n"));
            racks.ip(&format!("h{rack}"), "link set eth0 mtu 1700\n");
        }
    });
    let ping = |arguments: &[&str]| {
        let line = ["ping", "-c", "5", "-i", "0.5", "-W", "5"];
        said(&racks, "h0", &[&line[..], arguments].concat())
    };
    for (arguments, word) in [
        (&["-t", "1", "10.77.1.5"][..], "Time to live exceeded"),
        (&["192.0.2.1"], "Destination Net Unreachable"),
        (&["10.77.1.99"], "Destination Host Unreachable"),
        (&["-M", "do", "-s", "1600", "10.77.1.5"], "mtu = 1500"),
    ] {
        let words = ping(arguments);
        assert!(words.contains(word) || words.contains("mtu=1500"), "{arguments:?}: {words}");
    }
    // Fragments, options, and the other rack's own address of the switch.
    all_but_few(&racks, "h0", &["-M", "dont", "-s", "1600", "10.77.1.5"]);
    all_but_few(&racks, "h0", &["-R", "10.77.1.5"]);
    all_but_few(&racks, "h0", &["10.77.1.1"]);
    let status = racks.status("tor");
    assert!(number(&status["racks"][0]["icmp_sent"]) >= 2.0, "{status}");
}

#[test]
fn interfaces_that_are_made_again_are_served_again() {
    if !permitted() {
        return;
    }
    let Running { racks, programs: _programs } = running("again", |_| {});
    all_but_few(&racks, "h0", &["10.77.1.5"]);
    let reach = || answered(&racks, "h0", &["10.77.1.5"]) >= 8;
    racks.ip("sw", "link del host0\n");
    let host = racks.space("h0");
    racks.ip(
        "sw",
        &format!(
            "link add host0 type veth peer name eth0 netns {host}\nlink set host0 up\n\
             address add 10.77.0.1/24 dev host0\n"
        ),
    );
    racks.ip(
        "h0",
        "link set eth0 up\naddress add 10.77.0.5/24 dev eth0\nroute add default via 10.77.0.1\n",
    );
    assert!(until(reach), "a host's interface: {}", racks.status("tor"));
    // With the uplink goes the optical switch's end of it.
    racks.ip("sw", "link del up0\n");
    assert!(answered(&racks, "h0", &["10.77.0.1"]) >= 8, "the gateway answers meanwhile");
    racks
        .ip("sw", "link add up0 type veth peer name light0\nlink set up0 up\nlink set light0 up\n");
    assert!(until(reach), "the uplink: {}{}", racks.status("tor"), racks.status("ocs"));
    for name in ["sync0", "sync1", "sync2"] {
        racks.ip(
            "sw",
            &format!(
                "link del {name}\nlink add {name} type veth peer name b-{name}\n\
                 link set b-{name} master sync\nlink set b-{name} up\nlink set {name} up\n"
            ),
        );
    }
    let accepted = |name: &str| number(&racks.status(name)["sync"]["accepted"]);
    let before = [accepted("tor"), accepted("ocs")];
    assert!(until(|| accepted("tor") > before[0] + 20.0 && accepted("ocs") > before[1] + 20.0));
    racks.follow("controller", &[]);
}

/// Rack 1 on a machine of its own: its switch is reached from rack 0, and reaches it, by the way that its kernel
/// has into the fabric.
#[test]
fn a_switch_is_reached_from_racks_of_other_machines() {
    if !permitted() {
        return;
    }
    let racks = Racks::build("apart");
    let _apart = racks.lab.namespace("sw1").expect("a namespace");
    racks.configure(&Settings { packets: false, link_mbps: 100, queue_kb: 400 });
    let space = racks.space("sw1");
    racks.ip(
        "sw",
        &format!(
            "link set up1 netns {space}\nlink set host1 netns {space}\n\
             link add b-sync3 type veth peer name sync3 netns {space}\nlink set b-sync3 master sync\n\
             link set b-sync3 up\n"
        ),
    );
    racks.ip(
        "sw1",
        "link set lo up\nlink set up1 up\nlink set host1 up\nlink set sync3 up\n\
         address add 10.77.1.1/24 dev host1\n\
         link add k0 address 02:00:00:00:77:00 type veth peer name k1\nlink set k0 up\nlink set k1 up\n\
         neighbour add 169.254.7.2 lladdr 02:00:00:00:77:00 dev k1 nud permanent\n\
         route add 10.77.0.0/24 via 169.254.7.2 dev k1 onlink src 10.77.1.1\n",
    );
    said(&racks, "sw1", &["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"]);
    let text = fs::read_to_string(racks.at("tor.toml")).expect("a configuration");
    let racks_at = text.find("[[rack]]").expect("racks");
    let second = text.rfind("[[rack]]").expect("racks");
    let (head, first, second) = (&text[..racks_at], &text[racks_at..second], &text[second..]);
    let remote = |rack| format!("[[remote]]\nrack = {rack}\nprefixes = [\"10.77.{rack}.0/24\"]\n");
    fs::write(racks.at("tor.toml"), format!("{head}{first}{}", remote(1))).expect("written");
    let head = head.replace("sync0", "sync3").replace("tor.sock", "tor1.sock");
    let kernel = "[[rack.host]]\nname = \"k0\"\n";
    fs::write(racks.at("tor1.toml"), format!("{head}{second}{kernel}{}", remote(0)))
        .expect("written");
    let (control, ocs, tor) = (racks.control(), racks.ocs(), racks.tor());
    let line = [EBB, "tor", "run", "-c", &racks.at("tor1.toml")];
    let apart = start(&space, &racks.lab.directory().join("tor1"), &line);
    racks.follow("controller", &[&control, &ocs, &tor, &apart]);
    let reach = || answered(&racks, "h0", &["10.77.1.5"]) >= 8;
    assert!(until(reach), "{}{}{}", tor.log(), apart.log(), racks.status("tor1"));
    all_but_few(&racks, "h0", &["10.77.1.1"]);
    all_but_few(&racks, "sw1", &["10.77.0.5"]);
}
