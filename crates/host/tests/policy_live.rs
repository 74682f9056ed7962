//! The kernel's policy as it is read from the kernel, in a namespace of its own.

use crate::common;

use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use ebb_host::namespace::Namespace;
use ebb_host::netlink::policy::{DeviceName, Hook, Source, Watch};
use ebb_host::netlink::{Requests, Veth};
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message of nfnetlink with a family, a number in its header, and attributes.
fn message(kind: u16, flags: u16, family: u8, number: u16, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = ((20 + attributes.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((1 | flags).to_ne_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([family, 0]);
    bytes.extend(number.to_be_bytes());
    bytes.extend(attributes);
    bytes
}

/// Makes a chain of family netdev that drops what comes in by all interfaces whose names begin so; the
/// kernel's answer, an errno or 0. Where `nft` is older it cannot say that.
fn drop_from(prefix: &[u8]) -> i32 {
    const NETDEV: u8 = 5;
    const SUBSYSTEM: u16 = 10;
    const CREATE_ACKNOWLEDGED: u16 = 0x404;
    let number = |value: u32| value.to_be_bytes();
    let names = attribute(2, prefix);
    let hook = [attribute(1, &number(0)), attribute(2, &number(0)), attribute(0x8004, &names)];
    let chain = [
        attribute(1, b"edge\0"),
        attribute(3, b"in\0"),
        attribute(0x8004, &hook.concat()),
        attribute(5, &number(0)),
        attribute(7, b"filter\0"),
    ];
    let (table, chain) = (attribute(1, b"edge\0"), chain.concat());
    let batch = [
        message(16, 0, 0, SUBSYSTEM, &[]),
        message(SUBSYSTEM << 8, CREATE_ACKNOWLEDGED, NETDEV, 0, &table),
        message(SUBSYSTEM << 8 | 3, CREATE_ACKNOWLEDGED, NETDEV, 0, &chain),
        message(17, 0, 0, SUBSYSTEM, &[]),
    ];
    let batch = batch.concat();
    let (raw, flags) = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let netfilter = SockProtocol::NetlinkNetFilter;
    let socket = socket::socket(AddressFamily::Netlink, raw, flags, netfilter).unwrap();
    let sent = socket::send(socket.as_raw_fd(), &batch, MsgFlags::empty()).unwrap();
    assert_eq!(sent, batch.len());
    let mut worst = 0;
    for _ in 0..2 {
        let mut answer = [0_u8; 4096];
        let len = socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
        assert!(len >= 20, "an acknowledgement");
        let errno = -i32::from_ne_bytes(answer[16..20].try_into().unwrap());
        worst = worst.max(errno);
        if errno != 0 {
            break;
        }
    }
    worst
}

fn with_pair(test: &str) -> Option<Namespace> {
    let namespace = common::namespace(test)?;
    let made = namespace.run(|| {
        let mut requests = Requests::open().unwrap();
        requests.add_veth(Veth::new("edge0"), Veth::new("b")).unwrap();
        for name in ["edge0", "b"] {
            let index = requests.link_by_name(name).unwrap().unwrap().index;
            requests.set_up(index, true).unwrap();
        }
    });
    made.unwrap();
    Some(namespace)
}

#[test]
fn a_chain_for_the_beginnings_of_names_says_so() {
    let Some(namespace) = with_pair("prefix") else { return };
    let read = namespace.run(|| {
        let mut watch = Watch::open().unwrap();
        let refused = drop_from(b"edge\0");
        if refused != 0 {
            println!("skipped: this kernel has no chains for beginnings of names: errno {refused}");
            return;
        }
        let (chains, _) = watch.chains().unwrap().unwrap();
        let chain = chains.iter().find(|chain| chain.name == "netdev edge in").expect("the chain");
        assert_eq!((chain.hook, chain.drops, chain.strange), (Hook::Ingress, true, false));
        assert_eq!(chain.devices, [DeviceName::Prefix("edge".to_owned())]);
    });
    read.unwrap();
}

/// Each of two rule sets drops everything, so whatever is read must as well. One would seem to have no rule while it is being
/// replaced, and the chain of neither has rules in the other.
#[test]
fn what_is_read_while_filters_change_is_a_rule_set_that_was() {
    const CHANGES: u32 = 60;
    let Some(namespace) = common::namespace("changing-filters") else { return };
    let read = namespace.run(|| {
        let hook = "type filter hook forward priority 0; policy";
        let sets =
            [format!("chain a {{ {hook} accept; drop\n}}"), format!("chain b {{ {hook} drop; }}")];
        let load = |number: u32| {
            let set = &sets[number as usize % 2];
            let text =
                format!("table inet t {{}}; delete table inet t; table inet t {{\n{set}\n}}");
            let done = Command::new("nft").arg(text).output().expect("nft");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        load(0);
        let mut watch = Watch::open().unwrap();
        let (mut read, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            let changes = scope.spawn(|| (1..=CHANGES).for_each(load));
            while !changes.is_finished() || read == 0 {
                watch.changed().unwrap();
                let Some((chains, rules)) = watch.chains().unwrap() else {
                    refused += 1;
                    continue;
                };
                read += 1;
                let [chain] = &chains[..] else { panic!("{chains:?}") };
                let of = chain.place.as_ref().and_then(|place| rules.chains.get(place));
                assert_eq!(chain.rules as usize, of.map_or(0, Vec::len));
                assert!(chain.drops || chain.rules == 1, "{chain:?}, {rules:?}");
            }
        });
        println!("{CHANGES} changes, {read} read, {refused} refused");
    });
    read.unwrap();
}

#[test]
fn an_interface_on_which_ipv6_is_switched_off_is_noticed() {
    let Some(namespace) = with_pair("without-v6") else { return };
    let noticed = namespace.run(|| {
        let mut watch = Watch::open().unwrap();
        let switch = "/proc/sys/net/ipv6/conf/edge0/disable_ipv6";
        let names = ["edge0", "b", "gone"];
        assert!(watch.without_v6(&names).into_iter().eq(["gone".to_owned()]), "at first");
        while !watch.changed().unwrap().is_empty() {}
        std::fs::write(switch, "1").unwrap();
        let begun = Instant::now();
        while !watch.changed().unwrap().contains(&Source::Switches) {
            assert!(begun.elapsed() < Duration::from_secs(5), "nobody notices");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(watch.without_v6(&names).contains("edge0"));
    });
    noticed.unwrap();
}
