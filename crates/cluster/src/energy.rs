//! What a cluster draws and carries, added up: measured where there are meters, else modelled, and always told
//! apart.

use core::time::Duration;
use std::collections::BTreeMap;

use ebb_units::{Joules, Time, Watts};

use crate::leader::Servers;
use crate::plan::{Power, Snapshot};

/// Over a longer time than this nobody knows what was drawn: the machine was suspended, or its clock set.
const GAP_MAX: Duration = Duration::from_secs(60);

/// What a cluster draws at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draw {
    /// By meters.
    pub measured: Watts,
    /// By the servers' figures of full and idle power, and what is said of balancers.
    pub modelled: Watts,
    /// Balancers of which neither is known: they are not in it.
    pub unknown: Vec<String>,
}

impl Draw {
    /// All of it.
    pub fn total(&self) -> Watts {
        self.measured + self.modelled
    }
}

/// What the cluster draws by what is in the store. A back-end without a meter draws its idle power while it is
/// not off, and while it forwards in proportion to its part of the load, by `weights`, as much more as the
/// servers' figures say; an end that is off draws nothing, as in Li 2012 (eq. 8.1). `balancers` is what is said
/// to be drawn by machines of balancers, which one with a meter overrides.
///
/// ```
/// # use ebb_cluster::{Servers, Snapshot, draw};
/// let nothing = draw(&Snapshot::default(), &Servers::new(), &Default::default(), &Default::default());
/// assert_eq!(nothing.total().0, 0.0);
/// ```
pub fn draw(
    seen: &Snapshot,
    servers: &Servers,
    weights: &BTreeMap<String, f64>,
    balancers: &BTreeMap<String, f64>,
) -> Draw {
    let mut sum = Draw::default();
    let weight = |name: &String| match seen.power(name) {
        Power::On => weights.get(name).copied().unwrap_or(0.0),
        _ => 0.0,
    };
    let weight_of_all: f64 = servers.keys().map(weight).sum();
    let load: f64 = seen.balancers.values().map(|said| said.load_pps).sum();
    for (name, server) in servers {
        let measured = seen.members.get(name).and_then(|report| report.milliwatts);
        let (power, share) =
            (seen.power(name), weight(name) / weight_of_all.max(f64::MIN_POSITIVE));
        match (power, measured) {
            (Power::Off, _) => {}
            (_, Some(milliwatts)) => sum.measured += watts(milliwatts),
            (_, None) => {
                let busy = (share * load / server.capacity).clamp(0.0, 1.0);
                sum.modelled += server.idle + (server.full - server.idle) * busy;
            }
        }
    }
    for (name, said) in &seen.balancers {
        match (said.milliwatts, balancers.get(name)) {
            (Some(milliwatts), _) => sum.measured += watts(milliwatts),
            (None, Some(modelled)) => sum.modelled += Watts(*modelled),
            (None, None) => sum.unknown.push(name.clone()),
        }
    }
    sum
}

fn watts(milliwatts: u64) -> Watts {
    Watts(milliwatts as f64 / 1e3)
}

/// Energy and packets since the account was opened.
#[derive(Clone, Debug)]
pub struct EnergyAccount {
    at: Time,
    /// Measured.
    pub measured: Joules,
    /// Modelled.
    pub modelled: Joules,
    /// That came to the cluster.
    pub packets: f64,
}

impl EnergyAccount {
    /// One that is opened now.
    pub fn new(now: Time) -> EnergyAccount {
        EnergyAccount { at: now, measured: Joules(0.0), modelled: Joules(0.0), packets: 0.0 }
    }

    /// Until now the cluster drew `draw`, and `load_pps` packets a second came to it.
    pub fn advance(&mut self, now: Time, draw: &Draw, load_pps: f64) {
        let span = if now > self.at { now.since(self.at) } else { Duration::ZERO };
        self.at = now;
        if span <= GAP_MAX {
            self.measured += draw.measured * span;
            self.modelled += draw.modelled * span;
            self.packets += load_pps * span.as_secs_f64();
        }
    }

    /// Joules for each packet that came; none before the first.
    pub fn per_packet(&self) -> Option<Joules> {
        let all = self.measured.0 + self.modelled.0;
        (self.packets >= 1.0).then(|| Joules(all / self.packets))
    }
}

#[cfg(test)]
mod tests {
    use ebb_control::cluster::Server;

    use super::*;
    use crate::plan::{Acknowledgement, ClusterPlan, Entry, MemberReport};

    /// Two on, of 1:4, one that wakes, one off: 30 % of what those that are on carry comes.
    fn seen() -> (Snapshot, Servers, BTreeMap<String, f64>) {
        let of = |power| Entry { power, since: 1 };
        let powers = [("a", Power::On), ("b", Power::On), ("c", Power::Waking), ("d", Power::Off)];
        let entries = powers.map(|(name, power)| (name.to_owned(), of(power))).into();
        let plan = ClusterPlan { version: 1, entries, speaker: None };
        let said = Acknowledgement { load_pps: 75.0, ..Acknowledgement::default() };
        let balancers = [("m".to_owned(), said.clone()), ("n".to_owned(), said)].into();
        let snapshot = Snapshot { plan: Some((plan, 1)), balancers, ..Snapshot::default() };
        let server = |capacity| {
            let (full, idle) = (Watts(50.0), Watts(30.0));
            Server { capacity, full, idle, wake: Duration::from_secs(1) }
        };
        let servers = ["a", "b", "c", "d"]
            .map(|name| (name.to_owned(), server(if name == "a" { 100.0 } else { 400.0 })));
        let weights =
            ["a", "b", "c", "d"].map(|name| (name.to_owned(), if name == "a" { 1.0 } else { 4.0 }));
        (snapshot, servers.into(), weights.into())
    }

    #[test]
    fn what_is_on_draws_by_its_share_and_meters_override() {
        let (mut seen, servers, weights) = seen();
        let balancers = [("m".to_owned(), 20.0)].into();
        let all = draw(&seen, &servers, &weights, &balancers);
        // 36 W each of those that are on, 30 W of the one that wakes, and a balancer's 20 W.
        assert!((all.modelled.0 - (2.0 * 36.0 + 30.0 + 20.0)).abs() < 1e-9, "{all:?}");
        assert_eq!((all.measured, all.unknown), (Watts(0.0), vec!["n".to_owned()]));
        let report = MemberReport { up: true, version: 1, milliwatts: Some(33_000) };
        seen.members = [("b".to_owned(), report), ("d".to_owned(), report)].into();
        seen.balancers.get_mut("n").expect("there").milliwatts = Some(55_500);
        let all = draw(&seen, &servers, &weights, &balancers);
        assert!((all.measured.0 - 88.5).abs() < 1e-9, "one that is off has no old word: {all:?}");
        assert!((all.modelled.0 - 86.0).abs() < 1e-9 && all.unknown.is_empty(), "{all:?}");
    }

    #[test]
    fn an_account_adds_up_and_leaves_gaps_out() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let drawn = Draw { measured: Watts(10.0), modelled: Watts(30.0), unknown: Vec::new() };
        let mut account = EnergyAccount::new(at(5));
        assert_eq!(account.per_packet(), None);
        account.advance(at(7), &drawn, 1000.0);
        account.advance(at(6), &drawn, 1000.0);
        account.advance(at(600), &drawn, 1000.0);
        assert_eq!((account.measured, account.modelled), (Joules(20.0), Joules(60.0)));
        assert_eq!(account.per_packet(), Some(Joules(0.04)));
    }
}
