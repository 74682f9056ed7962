//! What a decision costs the kernel path.

use super::*;

/// Prints nanoseconds for a packet, of which running a program at all is part. To be run by hand:
/// `cargo test -p ebb-routerd --lib what_a_decision_costs -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_decision_costs() {
    for (count, prefixes) in [(10, 0), (1_000, 0), (10_000, 0), (10, 100_000), (10_000, 100_000)] {
        let mut rules = Ruleset::default();
        let mut all = Vec::new();
        if prefixes > 0 {
            let blocked = |number: u32| {
                let first = number * 40_000;
                element(&first.to_be_bytes(), &(first + 255).to_be_bytes())
            };
            let set = Arc::new((0..prefixes).map(blocked).collect());
            rules.ranges.insert(named("blocked"), set);
            all.push(vec![
                load(0, false, 12, 4),
                Expression::In(0, "blocked".into(), false),
                Expression::Decide(Verdict::Other),
            ]);
        }
        let of = |number: u32| {
            (number.wrapping_mul(0x9e37_79b1), number.wrapping_mul(0x85eb_ca6b), number % 1000)
        };
        all.extend((0..count).map(|number| {
            let (source, destination, port) = of(number);
            between(source, destination, port as u16)
        }));
        rules.chains.insert(named("f"), all);
        let chains = [base("f", Hook::Forward, true)];
        let begun = std::time::Instant::now();
        let decision = Arc::new(compiled(&chains, &rules, false).expect("a decision"));
        let took = begun.elapsed();
        let run = ebb_ports::afxdp::DecisionRun::new(&decision).expect("privileges");
        let mut draw = Draw(3);
        let (mut all, mut passed) = (Vec::new(), 0);
        for _ in 0..400 {
            let (source, destination, port) = of(draw.next(count));
            let packet = Packet {
                v6: false,
                source: u128::from(source) << 96,
                destination: u128::from(destination) << 96,
                ports: [1, port as u16],
                protocol: 6,
                links: [2, 3],
                tos: 0,
                flags: 16,
            };
            let (passes, time) = run.run(&packet.frame(), packet.links, 2_000).expect("run");
            passed += u32::from(passes);
            all.push(time.as_nanos());
        }
        all.sort_unstable();
        println!(
            "{count} rules, {prefixes} prefixes: {} ns (median), {} ns (most), {passed} of 400 pass, \
            {} KiB, compiled in {took:.0?}",
            all[200],
            all[399],
            decision.bytes() / 1024
        );
    }
    // What a program costs that decides nothing.
    let mut rules = Ruleset::default();
    rules.chains.insert(named("f"), vec![vec![Expression::Decide(Verdict::Accept)]]);
    let decision =
        Arc::new(compiled(&[base("f", Hook::Forward, true)], &rules, false).expect("one"));
    let run = ebb_ports::afxdp::DecisionRun::new(&decision).expect("privileges");
    let packet = packet(&mut Draw(1), false);
    let (_, time) = run.run(&packet.frame(), packet.links, 1_000_000).expect("run");
    println!("one rule that accepts all: {} ns", time.as_nanos());
}
