//! Decisions beside an interpreter of the rules that asks them as the kernel does, one by one, with the bytes of a packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_graph::PortId;
use ebb_host::netlink::policy::{Decision as Verdict, Expression, Family, Loaded, Place, Range};
use ebb_ports::afxdp::{PARTS, STEPS_MAX};
use proptest::prelude::*;

use super::*;

mod costs;
mod steps;

/// Numbers drawn one behind the other (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % u64::from(below)) as u32
    }
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.next(of.len() as u32) as usize].clone()
    }
    /// As 128 bits; those of IPv4 are the upper 32.
    fn address(&mut self, v6: bool) -> u128 {
        let upper = 0x0a00_0000 | self.next(4) << 16 | self.next(3) << 8 | self.next(6);
        match v6 {
            false => u128::from(upper) << 96,
            true => {
                u128::from(upper) << 96 | u128::from(self.next(3)) << 60 | u128::from(self.next(5))
            }
        }
    }
    fn port(&mut self) -> u16 {
        self.one(&[0, 1, 22, 53, 80, 443, 1024, 8080, 65535])
    }
}

#[derive(Clone, Debug)]
struct Packet {
    v6: bool,
    source: u128,
    destination: u128,
    ports: [u16; 2],
    protocol: u8,
    links: [u32; 2],
    tos: u8,
    flags: u8,
}

const LINKS: [(u32, &str); 3] = [(2, "eth1"), (3, "eth2"), (9, "wan")];

fn packet(draw: &mut Draw, v6: bool) -> Packet {
    let protocol = draw.one(&[6, 6, 17, 17, if v6 { 58 } else { 1 }, 47]);
    Packet {
        v6,
        source: draw.address(v6),
        destination: draw.address(v6),
        ports: [draw.port(), draw.port()],
        protocol,
        links: [draw.one(&LINKS).0, draw.one(&LINKS).0],
        tos: draw.one(&[0, 8, 0xb8]),
        flags: if protocol == 6 { draw.one(&[2, 16, 18, 24]) } else { 0 },
    }
}

impl Packet {
    fn parts(&self) -> [u32; PARTS] {
        let mut parts = [0; PARTS];
        for at in 0..4 {
            parts[at] = (self.source >> (96 - 32 * at)) as u32;
            parts[4 + at] = (self.destination >> (96 - 32 * at)) as u32;
        }
        (parts[8], parts[9]) = (self.ports[0].into(), self.ports[1].into());
        parts[10] = self.protocol.into();
        (parts[11], parts[12]) = (self.links[0], self.links[1]);
        parts[13] = u32::from(self.tos) | u32::from(self.flags) << 8;
        parts
    }

    /// Ethernet, IP and what is above.
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        match self.v6 {
            false => {
                frame.extend([8, 0, 0x45, self.tos, 0, 40, 0, 0, 0, 0, 64, self.protocol, 0, 0]);
                frame.extend(&self.source.to_be_bytes()[..4]);
                frame.extend(&self.destination.to_be_bytes()[..4]);
            }
            true => {
                frame.extend([0x86, 0xdd, 0x60 | self.tos >> 4, self.tos << 4, 0, 0, 0, 20]);
                frame.extend([self.protocol, 64]);
                frame.extend(self.source.to_be_bytes());
                frame.extend(self.destination.to_be_bytes());
            }
        }
        frame.extend(self.ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, self.flags, 0, 0, 0, 0, 0, 0]);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    /// What a register gets; nothing where there is nothing.
    fn load(&self, loaded: Loaded) -> Vec<u8> {
        let frame = self.frame();
        let ip = &frame[14..];
        let mut above = [0; 20];
        above[..2].copy_from_slice(&self.ports[0].to_be_bytes());
        above[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
        above[13] = self.flags;
        match loaded {
            Loaded::Family => vec![if self.v6 { 10 } else { 2 }],
            Loaded::Protocol => frame[12..14].to_vec(),
            Loaded::Transport => vec![self.protocol],
            Loaded::Header { transport, at, len } => {
                let bytes = if transport { &above } else { ip };
                bytes[usize::from(at)..usize::from(at + len)].to_vec()
            }
            Loaded::Interface { sending, named: false } => {
                self.links[usize::from(sending)].to_ne_bytes().into()
            }
            Loaded::Interface { sending, named: true } => {
                let link = self.links[usize::from(sending)];
                let name = LINKS.iter().find(|(known, _)| *known == link).unwrap().1;
                let mut bytes = vec![0; 16];
                bytes[..name.len()].copy_from_slice(name.as_bytes());
                bytes
            }
            Loaded::State | Loaded::Packet | Loaded::Elsewhere => vec![0; 4],
        }
    }
}

/// How asking a chain ends.
#[derive(PartialEq)]
enum End {
    Accepted,
    /// Dropped, or something was done.
    Otherwise,
    Behind,
}

fn ask(rules: &Ruleset, place: &Place, packet: &Packet) -> End {
    for rule in rules.chains.get(place).into_iter().flatten() {
        let mut registers: BTreeMap<u32, u8> = BTreeMap::new();
        let put = |registers: &mut BTreeMap<u32, u8>, to: u32, bytes: &[u8]| {
            let whole = bytes.len().next_multiple_of(4);
            for at in 0..whole {
                registers.insert(4 * to + at as u32, bytes.get(at).copied().unwrap_or(0));
            }
        };
        let get = |registers: &BTreeMap<u32, u8>, from: u32, len: usize| -> Vec<u8> {
            (0..len).map(|at| registers[&(4 * from + at as u32)]).collect()
        };
        let within = |key: &[u8], range: &Range| {
            // Parts of a concatenation are compared one by one.
            key.chunks(4)
                .zip(range.first.chunks(4).zip(range.last.chunks(4)))
                .all(|(key, (first, last))| (first..=last).contains(&key))
        };
        let mut decided = None;
        for one in rule {
            let matches = match one {
                Expression::Load(to, loaded) => {
                    put(&mut registers, *to, &packet.load(*loaded));
                    true
                }
                Expression::Mask(from, to, mask, flipped) => {
                    let bytes = get(&registers, *from, mask.len());
                    let masked: Vec<u8> = bytes
                        .iter()
                        .zip(mask.iter().zip(flipped))
                        .map(|(b, (m, f))| b & m ^ f)
                        .collect();
                    put(&mut registers, *to, &masked);
                    true
                }
                Expression::Equal(from, value, wanted) => {
                    (get(&registers, *from, value.len()) == *value) == *wanted
                }
                Expression::Between(from, first, last, inside) => {
                    let key = get(&registers, *from, first.len());
                    (*first <= key && key <= *last) == *inside
                }
                Expression::In(from, set, inverted) => {
                    let all = &rules.ranges[&(place.0, place.1.clone(), set.clone())];
                    let len = all[0].first.len();
                    let key = get(&registers, *from, len);
                    all.iter().any(|range| within(&key, range)) != *inverted
                }
                Expression::Map(from, set) => {
                    let all = &rules.ranges[&(place.0, place.1.clone(), set.clone())];
                    let key = get(&registers, *from, all[0].first.len());
                    match all.iter().find(|range| within(&key, range)) {
                        Some(range) => {
                            decided.clone_from(&range.decision);
                            true
                        }
                        None => false,
                    }
                }
                // Not known to the compiler: here it depends on the packet all the same.
                Expression::Sometimes => packet.ports[0].is_multiple_of(2),
                Expression::Decide(decision) => {
                    decided = Some(decision.clone());
                    true
                }
                Expression::Does(_) => return End::Otherwise,
                Expression::Value(..) | Expression::MapInto(..) => unreachable!(),
            };
            if !matches {
                break;
            }
        }
        let other = |chain: &str| (place.0, place.1.clone(), chain.to_owned());
        match decided {
            None | Some(Verdict::Continue) => {}
            Some(Verdict::Accept) => return End::Accepted,
            Some(Verdict::Return) => return End::Behind,
            Some(Verdict::Other) => return End::Otherwise,
            Some(Verdict::Jump(chain)) => match ask(rules, &other(&chain), packet) {
                End::Behind => {}
                end => return end,
            },
            Some(Verdict::Goto(chain)) => return ask(rules, &other(&chain), packet),
        }
    }
    End::Behind
}

fn accepted(chains: &[Chain], rules: &Ruleset, packet: &Packet) -> bool {
    chains.iter().all(|chain| match ask(rules, chain.place.as_ref().unwrap(), packet) {
        End::Accepted => true,
        End::Otherwise => false,
        End::Behind => !chain.drops,
    })
}

fn named(name: &str) -> Place {
    (1, "t".to_owned(), name.to_owned())
}

fn load(to: u32, transport: bool, at: u16, len: u16) -> Expression {
    Expression::Load(to, Loaded::Header { transport, at, len })
}

fn element(first: &[u8], last: &[u8]) -> Range {
    Range { first: first.to_vec(), last: last.to_vec(), decision: None }
}

fn verdict(draw: &mut Draw, depth: u32) -> Verdict {
    let chain = format!("c{}", depth + 1);
    match draw.next(9) {
        0..4 => Verdict::Accept,
        4 | 5 => Verdict::Other,
        6 => Verdict::Return,
        7 if depth < 3 => Verdict::Jump(chain),
        8 if depth < 3 => Verdict::Goto(chain),
        _ => Verdict::Continue,
    }
}

/// What a rule may ask; `exact`: nothing that the compiler does not understand.
fn asks(draw: &mut Draw, rules: &mut Ruleset, (v6, exact): (bool, bool)) -> Vec<Expression> {
    let number = rules.ranges.len();
    let set = format!("s{number}");
    let mut put = |all: Vec<Range>| {
        rules.ranges.insert(named(&set), Arc::new(all));
        set.clone()
    };
    let (side, size) = if v6 { (draw.one(&[8, 24]), 16) } else { (draw.one(&[12, 16]), 4) };
    let bytes = |address: u128| address.to_be_bytes()[..usize::from(size)].to_vec();
    let yes = draw.next(3) > 0;
    match draw.next(if exact { 13 } else { 15 }) {
        0 => {
            let len = draw.next(size.into()) as u16 + 1;
            let bytes = draw.address(v6).to_be_bytes()[..usize::from(len)].to_vec();
            vec![load(0, false, side, len), Expression::Equal(0, bytes, yes)]
        }
        1 => {
            let mask =
                u128::MAX << (128 - 8 * u32::from(size)) << draw.next(if v6 { 70 } else { 12 });
            let value = bytes(draw.address(v6) & mask);
            let mask = Expression::Mask(0, 0, bytes(mask), vec![0; size.into()]);
            vec![load(0, false, side, size), mask, Expression::Equal(0, value, yes)]
        }
        2 => {
            let (a, b) = (draw.address(v6), draw.address(v6));
            let [first, last] = [a.min(b), a.max(b)].map(bytes);
            vec![load(0, false, side, size), Expression::Between(0, first, last, yes)]
        }
        3 => {
            let mut all = Vec::new();
            let one = 1 << (128 - 8 * u32::from(size));
            let mut next = if v6 { draw.address(v6) } else { 0x0a00_0000 << 96 };
            for _ in 0..draw.next(40) + 1 {
                next += one * u128::from(draw.next(3000) + 1);
                let last = next + one * u128::from(draw.next(300));
                all.push(element(&bytes(next), &bytes(last)));
                next = last + one;
            }
            vec![load(0, false, side, size), Expression::In(0, put(all), !yes)]
        }
        4 | 5 => {
            let value = vec![draw.one(&[6, 17, 1])];
            vec![Expression::Load(0, Loaded::Transport), Expression::Equal(0, value, yes)]
        }
        6 => {
            let value = draw.port().to_be_bytes().into();
            vec![load(0, true, draw.one(&[0, 2]), 2), Expression::Equal(0, value, yes)]
        }
        7 => {
            let (a, b) = (draw.port(), draw.port());
            let [first, last] = [a.min(b), a.max(b)].map(|end| end.to_be_bytes().to_vec());
            vec![load(0, true, draw.one(&[0, 2]), 2), Expression::Between(0, first, last, yes)]
        }
        8 => {
            let mut ports: Vec<u16> = (0..draw.next(5) + 1).map(|_| draw.port()).collect();
            ports.sort_unstable();
            ports.dedup();
            let one = |port: &u16| element(&port.to_be_bytes(), &port.to_be_bytes());
            vec![load(0, true, 2, 2), Expression::In(0, put(ports.iter().map(one).collect()), !yes)]
        }
        9 => {
            let mut name = vec![0; 16];
            let known = draw.one(&["eth1", "wan", "gone"]);
            name[..known.len()].copy_from_slice(known.as_bytes());
            let name = if draw.next(4) == 0 { b"eth".to_vec() } else { name };
            let sending = draw.next(2) > 0;
            let loads = Expression::Load(0, Loaded::Interface { sending, named: true });
            vec![loads, Expression::Equal(0, name, yes)]
        }
        10 => {
            let value = draw.one(&LINKS).0.to_ne_bytes().into();
            let sending = draw.next(2) > 0;
            let loads = Expression::Load(0, Loaded::Interface { sending, named: false });
            vec![loads, Expression::Equal(0, value, yes)]
        }
        11 => {
            let (mask, value) = draw.one(&[(7, 2), (2, 0), (16, 16)]);
            vec![
                Expression::Load(0, Loaded::Transport),
                Expression::Equal(0, vec![6], true),
                load(0, true, 13, 1),
                Expression::Mask(0, 0, vec![mask], vec![0]),
                Expression::Equal(0, vec![value], yes),
            ]
        }
        12 => {
            // Source and port in one key, some of them ranges.
            let mut all: Vec<Range> = Vec::new();
            for port in [22_u16, 53, 80, 443].into_iter().take(draw.next(4) as usize + 1) {
                let (a, b) = (draw.address(v6), draw.address(v6));
                let key = |address: u128| {
                    let [high, low] = port.to_be_bytes();
                    [&bytes(address)[..], &[high, low, 0, 0]].concat()
                };
                let last = if draw.next(2) > 0 { a.max(b) } else { a.min(b) };
                all.push(element(&key(a.min(b)), &key(last)));
            }
            let loads = [load(0, false, side, size), load(u32::from(size) / 4, true, 2, 2)];
            [&loads[..], &[Expression::In(0, put(all), false)]].concat()
        }
        13 => vec![Expression::Sometimes],
        _ => vec![Expression::Does("counter".into())],
    }
}

fn chain_of(draw: &mut Draw, rules: &mut Ruleset, name: &str, depth: u32, kind: (bool, bool)) {
    let mut made = Vec::new();
    for _ in 0..draw.next(if depth == 0 { 12 } else { 5 }) {
        let mut rule = Vec::new();
        for _ in 0..draw.next(3) {
            rule.extend(asks(draw, rules, kind));
        }
        if draw.next(6) == 0 {
            let name = format!("m{}", rules.ranges.len());
            let all = [22_u16, 80, 443].map(|port| Range {
                decision: Some(verdict(draw, depth)),
                ..element(&port.to_be_bytes(), &port.to_be_bytes())
            });
            rules.ranges.insert(named(&name), Arc::new(all.into()));
            rule.extend([load(0, true, 2, 2), Expression::Map(0, name)]);
        } else {
            rule.push(Expression::Decide(verdict(draw, depth)));
        }
        made.push(rule);
    }
    rules.chains.insert(named(name), made);
}

fn base(name: &str, hook: Hook, drops: bool) -> Chain {
    Chain {
        name: name.into(),
        family: Family::Both,
        hook,
        devices: Vec::new(),
        drops,
        rules: 1,
        first_only: false,
        priority: 0,
        place: Some(named(name)),
        strange: false,
    }
}

/// Chains and rules for a family; `exact`: nothing that the compiler does not understand.
fn set_of(draw: &mut Draw, v6: bool, exact: bool) -> (Vec<Chain>, Ruleset) {
    let mut rules = Ruleset::default();
    let mut chains = vec![base("f", Hook::Forward, draw.next(2) > 0)];
    if draw.next(3) == 0 {
        chains.push(base("g", Hook::Forward, draw.next(3) == 0));
    }
    for chain in &chains {
        chain_of(draw, &mut rules, &chain.name, 0, (v6, exact));
    }
    for depth in 1..4 {
        chain_of(draw, &mut rules, &format!("c{depth}"), depth, (v6, exact));
    }
    (chains, rules)
}

fn places() -> Vec<RouterInterface> {
    let place = |(link, name): &(u32, &str)| RouterInterface {
        link: *link,
        name: (*name).into(),
        port: PortId(0),
        vlan: 0,
        enslaved: false,
        has_v4: true,
    };
    LINKS.iter().map(place).collect()
}

fn compiled(chains: &[Chain], rules: &Ruleset, v6: bool) -> Option<Decision> {
    let chains: Vec<&Chain> = chains.iter().collect();
    let places = places();
    let task = Task { chains: &chains, rules, places: &places, v6, established: false };
    let made = compile(task)?;
    decision(if v6 { [None, Some(&made)] } else { [Some(&made), None] })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("EBB_RULE_SETS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
    ))]

    #[test]
    fn what_passes_is_what_the_rules_accept(seed in any::<u64>(), exact in any::<bool>()) {
        compare(seed, false, exact)?;
    }

    #[test]
    fn so_it_is_with_ipv6(seed in any::<u64>(), exact in any::<bool>()) {
        compare(seed, true, exact)?;
    }
}

/// Asks random rules about random packets, and their decision. Nothing passes that is not accepted; of IPv4 what is accepted
/// passes, too, where the compiler understands all that rules ask.
fn compare(seed: u64, v6: bool, exact: bool) -> Result<(), TestCaseError> {
    let mut draw = Draw(seed);
    let (chains, rules) = set_of(&mut draw, v6, exact);
    let decision = compiled(&chains, &rules, v6);
    for _ in 0..200 {
        let packet = packet(&mut draw, v6);
        let parts = packet.parts();
        let (passes, steps) =
            decision.as_ref().map_or((false, 0), |one| one.walk(v6, parts, false));
        let accepted = accepted(&chains, &rules, &packet);
        prop_assert!(!passes || accepted, "{packet:?} passes: {rules:?}");
        prop_assert!(!exact || v6 || passes == accepted, "{packet:?} is accepted: {rules:?}");
        let in_time = decision.as_ref().is_some_and(|one| one.passes(v6, parts, false));
        prop_assert_eq!(in_time, passes && steps <= STEPS_MAX, "{:?}: {} steps", packet, steps);
    }
    Ok(())
}

/// Of packets that rules accept, the kernel gets few because they would take too many steps, and no set of rules all.
#[test]
fn few_packets_take_too_many_steps() {
    let mut draw = Draw(5);
    let (mut accepted, mut late, mut most) = (0, 0, 0);
    for number in 0..3_000 {
        let v6 = number % 2 == 1;
        let (chains, rules) = set_of(&mut draw, v6, true);
        let Some(decision) = compiled(&chains, &rules, v6) else { continue };
        for _ in 0..50 {
            let (passes, steps) = decision.walk(v6, packet(&mut draw, v6).parts(), false);
            accepted += u32::from(passes);
            late += u32::from(passes && steps > STEPS_MAX);
            most = most.max(steps);
        }
    }
    assert!(accepted > 30_000, "{accepted}");
    assert!(late * 1_000 < accepted, "{late} of {accepted}, {most} steps at most");
}

/// A rule that accepts packets between two networks to a port.
fn between(source: u32, destination: u32, port: u16) -> Vec<Expression> {
    let value = |address: u32| address.to_be_bytes()[..3].to_vec();
    vec![
        load(0, false, 12, 3),
        Expression::Equal(0, value(source), true),
        load(0, false, 16, 3),
        Expression::Equal(0, value(destination), true),
        Expression::Load(0, Loaded::Transport),
        Expression::Equal(0, vec![6], true),
        load(0, true, 2, 2),
        Expression::Equal(0, port.to_be_bytes().into(), true),
        Expression::Decide(Verdict::Accept),
    ]
}

#[test]
fn ten_thousand_rules_and_a_hundred_thousand_prefixes_are_few_steps() {
    let mut rules = Ruleset::default();
    let rule = |number: u32| {
        let mixed = number.wrapping_mul(0x9e37_79b1);
        between(mixed, number.wrapping_mul(0x85eb_ca6b), (number % 1000) as u16)
    };
    let blocked = |number: u32| {
        let first = number * 40_000;
        element(&first.to_be_bytes(), &(first + 255).to_be_bytes())
    };
    rules.ranges.insert(named("blocked"), Arc::new((0..100_000).map(blocked).collect()));
    let mut all = vec![vec![
        load(0, false, 12, 4),
        Expression::In(0, "blocked".into(), false),
        Expression::Decide(Verdict::Other),
    ]];
    all.extend((0..10_000).map(rule));
    rules.chains.insert(named("f"), all);
    let chains = [base("f", Hook::Forward, true)];
    let decision = compiled(&chains, &rules, false).expect("a decision");
    assert!(decision.bytes() < 3 << 20, "{} bytes", decision.bytes());
    let mut draw = Draw(1);
    let mut passed = 0;
    for _ in 0..20_000 {
        let number = draw.next(10_000);
        let packet = Packet {
            v6: false,
            source: u128::from(number.wrapping_mul(0x9e37_79b1) & !0xff | draw.next(256)) << 96,
            destination: u128::from(number.wrapping_mul(0x85eb_ca6b) & !0xff | draw.next(256))
                << 96,
            ports: [1, (number % 1000 + draw.next(2)) as u16],
            protocol: 6,
            links: [2, 3],
            tos: 0,
            flags: 16,
        };
        let passes = decision.passes(false, packet.parts(), false);
        let source = packet.source >> 96;
        let blocked = source / 40_000 < 100_000 && source % 40_000 < 256;
        assert_eq!(passes, !blocked && u32::from(packet.ports[1]) == number % 1000, "{packet:?}");
        passed += u32::from(passes);
    }
    assert!(passed > 5_000);
}

/// The decision in the kernel; nothing where it may not be loaded, or this kernel has no functions for it.
fn in_the_kernel(decision: &Arc<Decision>) -> Option<ebb_ports::afxdp::DecisionRun> {
    let refused = |error: ebb_ports::afxdp::AfXdpError| {
        let why = format!("{error:?}");
        assert!(!why.contains("processed"), "the kernel's verifier refuses the program: {why}");
        eprintln!("skipped: {why}");
    };
    ebb_ports::afxdp::DecisionRun::new(decision).map_err(refused).ok()
}

/// What the kernel's machine makes of a decision is what is made of it here.
#[test]
fn the_program_takes_the_steps() {
    let mut draw = Draw(7);
    let (mut sets, mut passed) = (0, 0);
    while sets < 24 {
        let v6 = sets % 2 == 1;
        let (chains, rules) = set_of(&mut draw, v6, true);
        let Some(decision) = compiled(&chains, &rules, v6).map(Arc::new) else { continue };
        let Some(run) = in_the_kernel(&decision) else { return };
        for _ in 0..100 {
            let packet = packet(&mut draw, v6);
            let (passes, _) = run.run(&packet.frame(), packet.links, 1).expect("run");
            assert_eq!(passes, decision.passes(v6, packet.parts(), false), "{packet:?}");
            passed += u32::from(passes);
        }
        sets += 1;
    }
    assert!(passed > 0);
}
