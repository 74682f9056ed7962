//! Making a failing case smaller while it fails.

use ebb_system_fabric::tables::{LaneMap, ServiceLevels};

use super::case::{Drawn, Side};

/// The smallest case found that still fails.
pub fn shrink(drawn: &Drawn, fails: &dyn Fn(&Drawn) -> Option<String>) -> Drawn {
    let mut best = drawn.clone();
    loop {
        let smaller = candidates(&best).into_iter().find(|other| fails(other).is_some());
        match smaller {
            Some(other) => best = other,
            None => return best,
        }
    }
}

fn candidates(of: &Drawn) -> Vec<Drawn> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Side, &mut Side)| {
        let mut other = of.clone();
        change(&mut other.old, &mut other.new);
        let same = |a: &Side, b: &Side| a.tables == b.tables && a.off == b.off && a.gone == b.gone;
        if !(same(&other.old, &of.old) && same(&other.new, &of.new)) {
            all.push(other);
        }
    };
    with(&|old, new| (old.tables.levels, new.tables.levels) = uniform());
    with(&|old, new| {
        (old.tables.lanes, new.tables.lanes) = (LaneMap::identity(), LaneMap::identity())
    });
    with(&|old, new| new.tables.lanes = old.tables.lanes.clone());
    with(&|old, new| new.tables.levels = old.tables.levels.clone());
    with(&|old, new| (old.gone, new.gone) = (Vec::new(), Vec::new()));
    for link in of.topology.links() {
        with(&|old, new| {
            for side in [old, new] {
                side.off.retain(|other| *other != link);
            }
        });
        with(&|old, new| {
            for side in [old, new] {
                side.off.retain(|other| *other != link);
                side.off.push(link);
            }
        });
    }
    for host in of.topology.host_ids() {
        let lid = of.topology.host(host).lid;
        if host.0 != of.run.manager {
            with(&|old, new| {
                for side in [old, new] {
                    side.gone.retain(|other| *other != host);
                    side.gone.push(host);
                    for at in of.topology.switch_ids() {
                        side.tables.forwarding.set(at, lid, None);
                    }
                }
            });
        }
        with(&|old, new| {
            for at in of.topology.switch_ids() {
                new.tables.forwarding.set(at, lid, old.tables.forwarding.get(at, lid));
            }
        });
        for at in of.topology.switch_ids() {
            with(&|old, new| {
                new.tables.forwarding.set(at, lid, old.tables.forwarding.get(at, lid))
            });
        }
    }
    all
}

fn uniform() -> (ServiceLevels, ServiceLevels) {
    (ServiceLevels::uniform(), ServiceLevels::uniform())
}
