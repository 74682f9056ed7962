//! Decisions of more steps than a packet may take.

use super::*;

/// A decision on the rules.
fn of(rules: Vec<Vec<Expression>>) -> Decision {
    let mut set = Ruleset::default();
    set.chains.insert(named("f"), rules);
    compiled(&[base("f", Hook::Forward, true)], &set, false).expect("a decision")
}

fn of_port(port: u16, decided: Verdict) -> Vec<Expression> {
    let asks = Expression::Equal(0, port.to_be_bytes().into(), true);
    vec![load(0, true, 2, 2), asks, Expression::Decide(decided)]
}

fn to_port(port: u16) -> Packet {
    Packet { ports: [9, port], source: 1 << 96, ..packet(&mut Draw(3), false) }
}

/// `ip dport vmap { 22 : continue } drop` drops what the map lets go on.
#[test]
fn what_goes_on_behind_a_map_is_the_kernels() {
    let mut set = Ruleset::default();
    let port = 22_u16.to_be_bytes();
    let going_on = Range { decision: Some(Verdict::Continue), ..element(&port, &port) };
    set.ranges.insert(named("m"), vec![going_on].into());
    let map = vec![load(0, true, 2, 2), Expression::Map(0, "m".into())];
    let accept = vec![Expression::Decide(Verdict::Accept)];
    for behind in [Vec::new(), vec![Expression::Decide(Verdict::Other)]] {
        let drops = !behind.is_empty();
        let rule = [map.clone(), behind].concat();
        set.chains.insert(named("f"), vec![rule, accept.clone()]);
        let decision =
            compiled(&[base("f", Hook::Forward, true)], &set, false).expect("a decision");
        assert!(decision.passes(false, to_port(23).parts(), false));
        assert_eq!(decision.passes(false, to_port(22).parts(), false), !drops);
    }
}

/// Rules of one port each, that accept and that do not in turn: as few steps as where all accept.
#[test]
fn decisions_in_turn_are_halved_as_well() {
    let rule = |port: u16| match port % 2 {
        0 => of_port(port, Verdict::Accept),
        _ => of_port(port, Verdict::Other),
    };
    let decision = of((0..10_000).map(rule).collect());
    for port in 0..10_000 {
        let (passes, steps) = decision.walk(false, to_port(port).parts(), false);
        assert!(passes == port.is_multiple_of(2) && steps < 40, "{port}: {passes}, {steps} steps");
    }
}

/// Rules of ports and of sources in turn have no common tree. The packets that come to their rule in time pass; those behind
/// are the kernel's, and no others are with them.
#[test]
fn only_packets_of_too_many_steps_are_the_kernels() {
    let count = 1_000;
    let rules = (0..count).flat_map(|port: u16| {
        let source = (0x0a00_0000 | u32::from(port) << 8).to_be_bytes();
        let asks = Expression::Equal(0, source.into(), true);
        let other = vec![load(0, false, 12, 4), asks, Expression::Decide(Verdict::Other)];
        [of_port(port, Verdict::Accept), other]
    });
    let decision = Arc::new(of(rules.collect()));
    let run = in_the_kernel(&decision);
    let mut passed = 0;
    for port in 0..count {
        let packet = to_port(port);
        let (says, steps) = decision.walk(false, packet.parts(), false);
        assert!(says, "{port}");
        let passes = decision.passes(false, packet.parts(), false);
        assert_eq!(passes, steps <= STEPS_MAX, "{port}: {steps} steps");
        if let Some(run) = &run {
            assert_eq!(run.run(&packet.frame(), packet.links, 1).expect("run").0, passes, "{port}");
        }
        passed += u32::from(passes);
    }
    assert!((50..900).contains(&passed), "{passed} pass");
}
