//! Which packets each object concerns, row by row.

use ebb_host::netlink::policy::{DeviceName, Family, Hook, RuleAction, Transform};
use ebb_ports::afxdp::{PREFIXES_MAX, Side};
use ipnet::IpNet;

use super::*;
use crate::status::PolicyEffect::{self, Carried, Honoured, Ignored, Kernel, None as Nothing};

const ETH1: u32 = 2;
const ETH2: u32 = 3;
const VLAN: u32 = 4;

pub(super) fn place(link: u32, name: &str, port: u8, vlan: u16) -> RouterInterface {
    RouterInterface {
        link,
        name: name.into(),
        port: PortId(port),
        vlan,
        enslaved: false,
        has_v4: true,
    }
}

pub(super) fn places() -> Vec<RouterInterface> {
    vec![place(ETH1, "eth1", 0, 0), place(ETH2, "eth2", 1, 0), place(VLAN, "eth2.7", 1, 7)]
}

pub(super) fn rule(v6: bool, priority: u32, table: u32) -> Rule {
    Rule {
        v6,
        priority,
        from: None,
        to: None,
        input: None,
        output: None,
        action: RuleAction::Lookup(table),
        inverted: false,
        mark: None,
        by_user: false,
        vrf: false,
        further: false,
        suppresses: false,
        strange: false,
    }
}

fn switches(link: Option<u32>, v6: bool) -> Switches {
    Switches { link, v6, forwarding: true, ..Switches::default() }
}

/// A machine that forwards everything and does nothing else.
pub(super) fn plain() -> Facts {
    let links = [None, Some(ETH1), Some(ETH2), Some(VLAN)];
    Facts {
        rules: vec![
            rule(false, 0, 255),
            rule(false, 32766, 254),
            rule(false, 32767, 253),
            rule(true, 0, 255),
            rule(true, 32766, 254),
        ],
        switches: links
            .iter()
            .flat_map(|link| [switches(*link, false), switches(*link, true)])
            .collect(),
        ..Facts::default()
    }
}

fn judge(facts: &Facts) -> Verdict {
    evaluate(facts, &places(), &Default::default())
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

/// The policies of both ports as `make` fills them.
fn ports(make: impl Fn(u8, &mut KernelPolicy)) -> BTreeMap<PortId, KernelPolicy> {
    let filled = |port: u8| {
        let mut policy = KernelPolicy::default();
        make(port, &mut policy);
        (PortId(port), policy)
    };
    [0, 1].map(filled).into()
}

fn leaves_nothing(verdict: &Verdict) -> bool {
    verdict.ports.values().all(KernelPolicy::is_empty)
}

#[track_caller]
fn assert_left(facts: &Facts, make: impl Fn(u8, &mut KernelPolicy)) {
    let verdict = judge(facts);
    assert_eq!(verdict.ports, ports(make), "{:#?}", verdict.objects);
    let effect = if leaves_nothing(&verdict) { Nothing } else { Kernel };
    let effects: Vec<PolicyEffect> = verdict.objects.iter().map(|o| o.effect).collect();
    let carried = effect == Kernel && effects.contains(&Carried);
    assert!(carried || effects.contains(&effect), "{:#?}", verdict.objects);
}

#[test]
fn a_plain_machine_is_left_alone() {
    let verdict = judge(&plain());
    assert!(leaves_nothing(&verdict) && verdict.reverse_path.is_empty(), "{verdict:#?}");
    assert_eq!((verdict.objects.len(), verdict.ports.len()), (0, 2), "each port is judged");
}

#[test]
fn switches_concern_the_interface_they_belong_to() {
    let reason = Mechanism::Forwarding as u8;
    let mut facts = plain();
    let off = |facts: &mut Facts, link: Option<u32>, v6: bool| {
        let known = facts.switches.iter_mut().find(|s| s.link == link && s.v6 == v6);
        known.expect("switches").forwarding = false;
    };
    off(&mut facts, Some(VLAN), false);
    assert_left(&facts, |port, p| {
        if port == 1 {
            p.leave_vlan(false, 7, reason);
        }
    });
    // What IPv6 has for one interface decides on other things.
    let mut facts = plain();
    off(&mut facts, Some(ETH1), true);
    assert_eq!(judge(&facts), judge(&plain()));
    off(&mut facts, None, true);
    facts.switches.iter_mut().find(|s| s.link == Some(ETH1) && s.v6).unwrap().force_forwarding =
        true;
    assert_left(&facts, |port, p| {
        if port == 1 {
            p.leave_vlan(true, 0, reason);
            p.leave_vlan(true, 7, reason);
        }
    });
}

#[test]
fn rules_concern_what_they_select() {
    let reason = Mechanism::Rules as u8;
    let all = |v6: bool| move |_: u8, p: &mut KernelPolicy| p.leave_all(v6, reason);
    let with = |change: &dyn Fn(&mut Rule)| {
        let mut facts = plain();
        let mut rule = rule(false, 100, 7);
        change(&mut rule);
        facts.rules.push(rule);
        facts
    };
    let prefix = |side, text: &'static str| {
        move |_: u8, p: &mut KernelPolicy| {
            let net = net(text);
            p.leave_prefix(side, net.addr(), net.prefix_len(), reason);
        }
    };
    assert_left(&with(&|_| ()), all(false));
    assert_left(&with(&|r| r.v6 = true), all(true));
    assert_left(&with(&|r| r.further = true), all(false));
    assert_left(&with(&|r| r.mark = Some((0, 0xff))), all(false));
    assert_left(&with(&|r| r.from = Some(net("10.1.0.0/16"))), prefix(Side::Source, "10.1.0.0/16"));
    let both = with(&|r| {
        r.from = Some(net("10.1.0.0/16"));
        r.to = Some(net("10.2.3.0/24"));
    });
    assert_left(&both, prefix(Side::Destination, "10.2.3.0/24"));
    // As WireGuard's scripts have it: whatever has no mark.
    let inverted = with(&|r| {
        r.inverted = true;
        r.mark = Some((51820, u32::MAX));
    });
    assert_left(&inverted, all(false));
    assert_left(&with(&|r| r.input = Some("eth2.7".into())), |port, p| {
        if port == 1 {
            p.leave_vlan(false, 7, reason);
        }
    });
    let changes: [&dyn Fn(&mut Rule); 8] = [
        &|r| r.input = Some("lo".into()),
        &|r| r.input = Some("eth9".into()),
        &|r| r.output = Some("eth1".into()),
        &|r| r.mark = Some((7, 0xff)),
        &|r| r.by_user = true,
        &|r| r.vrf = true,
        &|r| r.action = RuleAction::Nop,
        &|r| {
            r.from = Some(net("10.0.0.0/8"));
            r.action = RuleAction::Lookup(254);
        },
    ];
    for change in changes {
        assert_left(&with(change), |_, _| ());
    }
}

#[test]
fn missing_rules_matter_too() {
    let mut facts = plain();
    facts.rules.remove(1);
    assert_left(&facts, |_, p| p.leave_all(false, Mechanism::Rules as u8));
}

#[test]
fn transforms_concern_their_selectors() {
    let reason = Mechanism::Xfrm as u8;
    let with = |from: &str, to: &str, change: &dyn Fn(&mut Transform)| {
        let mut transform = Transform {
            direction: "out",
            from: net(from),
            to: net(to),
            blocks: false,
            templates: 1,
            special: false,
            strange: false,
            priority: 0,
            told: false,
            goes_before_tunnels: false,
        };
        change(&mut transform);
        let mut facts = plain();
        facts.transforms.policies.push(transform);
        facts
    };
    assert_left(&with("10.1.0.0/16", "0.0.0.0/0", &|_| ()), |_, p| {
        p.leave_prefix(Side::Source, "10.1.0.0".parse().unwrap(), 16, reason);
    });
    assert_left(&with("::/0", "::/0", &|_| ()), |_, p| p.leave_all(true, reason));
    let nothing = |_: u8, _: &mut KernelPolicy| ();
    assert_left(&with("10.1.0.0/16", "0.0.0.0/0", &|t| t.templates = 0), nothing);
    assert_left(&with("0.0.0.0/0", "0.0.0.0/0", &|t| t.special = true), nothing);
    let exception = |t: &mut Transform| (t.templates, t.goes_before_tunnels) = (0, true);
    assert_left(&with("10.1.0.0/16", "0.0.0.0/0", &exception), |_, p| {
        p.leave_prefix(Side::Source, "10.1.0.0".parse().unwrap(), 16, reason);
    });
    let mut facts = plain();
    facts.transforms.blocks_by_default = true;
    assert_left(&facts, |_, p| {
        p.leave_all(false, reason);
        p.leave_all(true, reason);
    });
}

fn chain(family: Family, hook: Hook, drops: bool, rules: u32) -> Facts {
    let devices = vec![DeviceName::Exact("eth2".to_owned())];
    let name = "a chain".into();
    let (first_only, priority, place, strange) = (false, 0, None, false);
    let chain =
        Chain { name, family, hook, devices, drops, rules, first_only, priority, place, strange };
    Facts { chains: vec![chain], ..plain() }
}

#[test]
fn chains_concern_their_hooks() {
    let reason = Mechanism::Netfilter as u8;
    for hook in [Hook::Prerouting, Hook::Forward, Hook::Postrouting, Hook::Egress] {
        assert_left(&chain(Family::V4, hook, true, 0), |_, p| p.leave_all(false, reason));
        assert_left(&chain(Family::V6, hook, false, 1), |_, p| p.leave_all(true, reason));
        assert_left(&chain(Family::Both, hook, false, 0), |_, _| ());
    }
    for hook in [Hook::Input, Hook::Output] {
        assert_left(&chain(Family::Both, hook, true, 9), |_, _| ());
    }
    assert_left(&chain(Family::Both, Hook::Ingress, false, 3), |port, p| {
        if port == 1 {
            p.leave_all(false, reason);
            p.leave_all(true, reason);
        }
    });
    let mut elsewhere = chain(Family::Both, Hook::Ingress, false, 3);
    elsewhere.chains[0].devices = vec![DeviceName::Exact("wlan0".into())];
    assert_left(&elsewhere, |_, _| ());
    // All ports that are there, and those that come.
    elsewhere.chains[0].devices = vec![DeviceName::Prefix("eth".into())];
    assert_left(&elsewhere, |port, p| {
        *p = KernelPolicy::everything(reason);
        if port == 1 {
            p.leave_vlan(false, 7, reason);
            p.leave_vlan(true, 7, reason);
        }
    });
    let later = [places(), vec![place(9, "eth9", 9, 0)]].concat();
    let verdict = evaluate(&elsewhere, &later, &Default::default());
    let mut new = KernelPolicy::everything(reason);
    // Nothing says yet that it forwards.
    new.leave_vlan(false, 0, Mechanism::Forwarding as u8);
    assert_eq!(verdict.ports[&PortId(9)], new);
}

#[test]
fn what_is_not_known_or_not_read_is_the_kernels() {
    let everything = |mechanism: Mechanism| {
        move |_: u8, p: &mut KernelPolicy| *p = KernelPolicy::everything(mechanism as u8)
    };
    let mut facts = chain(Family::Both, Hook::Forward, false, 0);
    facts.chains[0].strange = true;
    assert_left(&facts, everything(Mechanism::Netfilter));
    facts = chain(Family::V6, Hook::Other(9), true, 0);
    assert_left(&facts, |_, p| p.leave_all(true, Mechanism::Netfilter as u8));
    facts = plain();
    // It would concern nothing, and nothing of it is sure.
    let odd =
        Rule { strange: true, from: Some(net("10.0.0.0/8")), by_user: true, ..rule(true, 9, 254) };
    facts.rules.push(odd);
    assert_left(&facts, |_, p| p.leave_all(true, Mechanism::Rules as u8));
    facts = plain();
    facts.transforms.not_understood = 1;
    assert_left(&facts, everything(Mechanism::Xfrm));
    facts = plain();
    facts.switches.iter_mut().filter(|s| s.link == Some(ETH1)).for_each(|s| s.strange = true);
    assert_left(&facts, |port, p| {
        if port == 0 {
            p.leave_vlan(false, 0, Mechanism::Forwarding as u8);
            p.leave_vlan(true, 0, Mechanism::Forwarding as u8);
        }
    });
    for (source, mechanism) in
        [(Source::Netfilter, Mechanism::Netfilter), (Source::Switches, Mechanism::Unheld)]
    {
        facts = plain();
        facts.unread.insert(source, "no memory".to_owned());
        assert_left(&facts, everything(mechanism));
        let ignored = evaluate(&facts, &places(), &Mechanism::ALL.into());
        assert!(leaves_nothing(&ignored) && ignored.objects[0].effect == Ignored);
    }
    // Not all that the switches say may be passed over.
    let verdict = evaluate(&facts, &places(), &[Mechanism::Forwarding].into());
    assert!(!leaves_nothing(&verdict), "{verdict:#?}");
}

#[test]
fn an_interface_without_ipv6_leaves_it_to_the_kernel() {
    let mut facts = plain();
    facts.without_v6.insert("eth2.7".to_owned());
    assert_left(&facts, |port, p| {
        if port == 1 {
            p.leave_vlan(true, 7, Mechanism::Forwarding as u8);
        }
    });
}

#[test]
fn nobody_sends_from_the_hosts_own_networks() {
    let mut facts = plain();
    facts.local_networks.push(net("10.77.0.0/16"));
    assert_left(&facts, |_, p| {
        let network = "10.77.0.0".parse().unwrap();
        p.leave_prefix(Side::Source, network, 16, Mechanism::RpFilter as u8);
    });
}

fn transform(from: IpNet) -> Transform {
    let to = net("101.0.0.0/8");
    Transform {
        direction: "fwd",
        from,
        to,
        blocks: true,
        templates: 0,
        special: false,
        strange: false,
        priority: 0,
        told: false,
        goes_before_tunnels: false,
    }
}

#[test]
fn more_prefixes_than_fit_leave_their_family() {
    let host = |number: usize| IpNet::from(std::net::IpAddr::from((number as u32).to_be_bytes()));
    let mut facts = chain(Family::V6, Hook::Forward, true, 0);
    facts.transforms.policies = (0..PREFIXES_MAX).map(|number| transform(host(number))).collect();
    let verdict = judge(&facts);
    assert_eq!(verdict.ports[&PortId(0)].prefixes(false).0, PREFIXES_MAX, "just as many as fit");
    facts.transforms.policies.push(transform(host(PREFIXES_MAX)));
    assert_left(&facts, |_, p| {
        p.leave_all(false, Mechanism::Xfrm as u8);
        p.leave_all(true, Mechanism::Netfilter as u8);
    });
    let verdict = judge(&facts);
    assert!(verdict.objects.len() < 100, "{} objects", verdict.objects.len());
    let said = verdict.objects.iter().any(|object| object.object.contains("65537 prefixes"));
    assert!(said, "{:#?}", verdict.objects);
    // Those of one port are added to all ports'.
    facts.transforms.policies.truncate(PREFIXES_MAX - 1);
    facts.rules.extend((0..3).map(|number| Rule {
        input: Some("eth1".into()),
        to: Some(host(number)),
        ..rule(false, 9, 7)
    }));
    let verdict = judge(&facts);
    let left = |port: u8| verdict.ports[&PortId(port)].prefixes(false).0;
    assert_eq!((left(0), left(1)), (0, PREFIXES_MAX - 1));
}

#[test]
fn traffic_control_concerns_a_side() {
    let reason = Mechanism::Tc as u8;
    let with = |link, ingress, egress| {
        let discipline =
            Discipline { link, kind: "clsact".into(), ingress, egress, looks_elsewhere: true };
        Facts { disciplines: vec![discipline], ..plain() }
    };
    assert_left(&with(VLAN, true, false), |port, p| {
        if port == 1 {
            p.leave_vlan(false, 7, reason);
            p.leave_vlan(true, 7, reason);
        }
    });
    assert_left(&with(ETH1, false, true), |_, p| {
        p.leave_all(false, reason);
        p.leave_all(true, reason);
    });
}

#[test]
fn interfaces_of_a_vrf_are_the_kernels() {
    let mut places = places();
    places[2].enslaved = true;
    let verdict = evaluate(&plain(), &places, &Mechanism::ALL.into());
    let vrf = ports(|port, p| {
        if port == 1 {
            p.leave_vlan(false, 7, Mechanism::Vrf as u8);
            p.leave_vlan(true, 7, Mechanism::Vrf as u8);
        }
    });
    assert_eq!(verdict.ports, vrf);
}

#[test]
fn reverse_paths_follow_the_larger_setting() {
    let with = |all: u32, own: u32| {
        let mut facts = plain();
        for known in facts.switches.iter_mut().filter(|known| !known.v6) {
            match known.link {
                None => known.reverse_path = all,
                Some(ETH1) => known.reverse_path = own,
                _ => {}
            }
        }
        facts
    };
    let at = |facts: &Facts| judge(facts).reverse_path;
    assert_eq!(at(&with(0, 1)), BTreeMap::from([(ETH1, ReversePath::Strict)]));
    assert_eq!(at(&with(1, 2))[&ETH1], ReversePath::Loose);
    assert_eq!(at(&with(1, 0)).len(), 3);
    assert_eq!(judge(&with(0, 2)).objects[0].effect, Honoured);
    let mut places = places();
    places[0].has_v4 = false;
    let verdict = evaluate(&with(0, 2), &places, &Default::default());
    assert_eq!(verdict.reverse_path[&ETH1], ReversePath::Strict, "without an address");
    // Where rules say which way back is meant, only the kernel can judge.
    let mut facts = with(0, 1);
    facts.rules.push(Rule { from: Some(net("10.0.0.0/8")), ..rule(false, 9, 7) });
    let verdict = judge(&facts);
    assert!(verdict.reverse_path.is_empty() && verdict.ports.len() == 2, "{verdict:#?}");
}

#[test]
fn what_the_operator_ignores_is_said_and_not_done() {
    let mut facts = chain(Family::Both, Hook::Forward, true, 2);
    facts.switches.iter_mut().for_each(|known| {
        known.forwarding = false;
        known.reverse_path = 1;
    });
    facts.rules.push(rule(false, 9, 7));
    facts.transforms.blocks_by_default = true;
    facts.disciplines = vec![Discipline {
        link: ETH1,
        kind: "htb".into(),
        ingress: true,
        egress: true,
        looks_elsewhere: true,
    }];
    let verdict = evaluate(&facts, &places(), &Mechanism::ALL.into());
    assert!(leaves_nothing(&verdict) && verdict.reverse_path.is_empty(), "{verdict:#?}");
    assert!(verdict.objects.iter().all(|object| object.effect == Ignored), "{verdict:#?}");
}

#[test]
fn what_nobody_carries_is_said_to_be_left_to_the_kernel() {
    let object = |mechanism: Mechanism| PolicyObject {
        mechanism: mechanism.name().to_owned(),
        object: "it".to_owned(),
        concerns: "packets of established connections".to_owned(),
        effect: PolicyEffect::Carried,
    };
    let objects = Arc::new(vec![object(Mechanism::Netfilter), object(Mechanism::Tc)]);
    let effects = |some_port, knows| -> Vec<(PolicyEffect, bool)> {
        let all = as_carried(objects.clone(), some_port, knows);
        all.iter().map(|one| (one.effect, one.concerns.starts_with("all packets"))).collect()
    };
    let (carried, left) = ((PolicyEffect::Carried, false), (PolicyEffect::Kernel, false));
    assert_eq!(effects(true, true), [carried, carried]);
    assert_eq!(effects(true, false), [(PolicyEffect::Kernel, true), carried]);
    assert_eq!(effects(false, false), [left, left]);
}
