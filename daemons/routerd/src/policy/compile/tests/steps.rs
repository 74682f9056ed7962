//! Decisions of more steps than a packet may take.

use super::*;

/// Rules that accept and others in turn, each about a port of its own.
fn in_turn(count: u16) -> Decision {
    let rule = |number: u16| {
        let decided = if number.is_multiple_of(2) { Verdict::Accept } else { Verdict::Other };
        vec![
            load(0, true, 2, 2),
            Expression::Equal(0, number.to_be_bytes().into(), true),
            Expression::Decide(decided),
        ]
    };
    let mut rules = Ruleset::default();
    rules.chains.insert(named("f"), (0..count).map(rule).collect());
    compiled(&[base("f", Hook::Forward, true)], &rules, false).expect("a decision")
}

/// The packets that come to their rule in time pass; those behind are the kernel's, and no others are with them.
#[test]
fn only_packets_of_too_many_steps_are_the_kernels() {
    let count = 1_000;
    let decision = Arc::new(in_turn(count));
    let run = match ebb_ports::afxdp::DecisionRun::new(&decision) {
        Ok(run) => Some(run),
        Err(error) => {
            eprintln!("only without the kernel: {error}");
            None
        }
    };
    let mut passed = 0;
    for port in 0..count {
        let packet = Packet { ports: [9, port], ..packet(&mut Draw(3), false) };
        let (says, steps) = decision.walk(false, packet.parts(), false);
        assert_eq!(says, port.is_multiple_of(2), "{port}");
        let passes = decision.passes(false, packet.parts(), false);
        assert_eq!(passes, says && steps <= STEPS_MAX, "{port}: {steps} steps");
        if let Some(run) = &run {
            assert_eq!(run.run(&packet.frame(), packet.links, 1).expect("run").0, passes, "{port}");
        }
        passed += u32::from(passes);
    }
    assert!((50..500).contains(&passed), "{passed} pass");
}
