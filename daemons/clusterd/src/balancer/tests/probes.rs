//! What counts as a sign of life.

use super::*;

const CLUSTER: [u8; 6] = [2, 0, 0, 0, 0, 0];

/// A probe that was sent to a back-end, as it would come back from one: `row`, by the side that it leads to.
fn back(topology: &Topology, probe: &[u8], row: usize) -> (usize, Vec<u8>) {
    let (to, mut frame) = (usize::from(probe[32]), probe.to_vec());
    frame[..6].copy_from_slice(&topology.probe_mac(to));
    frame[6..12].copy_from_slice(&topology.back_ends[row].macs[to]);
    (to, frame)
}

impl World {
    /// The probes that were sent to a back-end since this was last asked.
    fn probes_to(&mut self, row: usize) -> Vec<Vec<u8>> {
        let macs = self.topology.back_ends[row].macs.clone();
        let all = std::mem::take(&mut self.routed);
        let probes = all.into_iter().filter(|(_, frame)| {
            macs.iter().any(|mac| frame[..6] == *mac) && frame[36..38] == 3785u16.to_be_bytes()
        });
        probes.map(|(_, frame)| frame).collect()
    }

    fn deaths(&mut self) -> Vec<u16> {
        let found = self.plane.take_found().into_iter();
        found.filter(|found| found.dead).map(|found| found.row).collect()
    }
}

/// Neither what probes used to say, nor probes that have been answered, nor those of the dead one out of
/// the hands of one that lives, nor made up seals keep a dead back-end alive.
#[test]
fn only_its_own_answers_keep_a_back_end_alive() {
    let mut world = World::ready([1, 1, 1]);
    let answered = world.probes_to(0);
    assert!(answered.len() >= 8);
    world.deaths();
    world.routers[0].alive = false;
    let before = world.plane.counters().probes_refused;
    for step in 0..80 {
        world.step(true);
        let fresh = world.probes_to(0);
        let mut forged = vec![back(&world.topology, &answered[step % answered.len()], 0)];
        for probe in fresh {
            forged.push(back(&world.topology, &probe, 1));
            let mut changed = probe.clone();
            *changed.last_mut().expect("bytes") ^= 1;
            forged.push(back(&world.topology, &changed, 0));
            let (to, other) = back(&world.topology, &probe, 0);
            forged.push((1 - to, other));
        }
        for (side, frame) in forged {
            world.far[2 * side + 1].send([frame.as_slice()]);
        }
        let mut old = b"ebbprobe".to_vec();
        old.extend([0; 12]);
        let address = |side: u8| format!("10.0.{side}.254:3785").parse().expect("an address");
        let mut frame = Template::udp(address(0), address(1)).to_frame(&old);
        frame[..6].copy_from_slice(&CLUSTER);
        world.far[0].send([frame.as_slice()]);
    }
    assert_eq!(world.deaths(), [0], "dead, and not alive again");
    assert!(world.plane.counters().probes_refused > before + 80);
}

/// An answer counts once, and none that took more than a second.
#[test]
fn an_answer_that_is_kept_back_is_worth_nothing() {
    let mut world = World::ready([1, 1, 1]);
    world.routers[0].alive = false;
    world.probes_to(0);
    (0..30).for_each(|_| world.step(false));
    let kept: Vec<_> =
        world.probes_to(0).iter().map(|probe| back(&world.topology, probe, 0)).collect();
    (0..1100).for_each(|_| world.step(false));
    world.plane.take_found();
    let before = world.plane.counters().probes_refused;
    for (side, frame) in &kept {
        world.far[2 * side + 1].send([frame.as_slice()]);
    }
    world.step(false);
    assert!(world.plane.take_found().is_empty());
    assert_eq!(world.plane.counters().probes_refused, before + kept.len() as u64);
}
