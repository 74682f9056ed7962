//! Which path ports take whose `path` is "auto", where it was measured what either costs this machine ([`PathCosts`]).

use std::time::Duration;

use ebb_control::{Path, PathChoice};
use ebb_host::clock::monotonic;
use ebb_ports::afxdp::PacketPath;
use ebb_power::PathCosts;
use ebb_units::{PacketsPerSecond, Time};
use tracing::info;

use super::Live;
use crate::config;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A path that loses more than this share of its packets does not carry the load.
const LOSES: f64 = 1e-3;
/// How long that is believed.
const BELIEVED: Duration = Duration::from_secs(600);

/// What is known of both paths.
pub(super) struct ByCost {
    costs: PathCosts,
    choice: Option<PathChoice>,
    path: Option<PacketPath>,
    /// When packets were looked at last, how many had been carried by then, and how many lost.
    last: Option<(Time, [u64; 2])>,
    /// The load under which a path has lost packets, and when.
    fails_at: [Option<(f64, Time)>; 2],
}

impl ByCost {
    pub(super) fn new(costs: PathCosts) -> ByCost {
        ByCost { costs, choice: None, path: None, last: None, fails_at: [None; 2] }
    }

    fn patience(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(at, _)| LOOK_EVERY.saturating_sub(monotonic().since(at)))
    }

    /// The path for what was carried and lost meanwhile, by the `present` one.
    fn look(&mut self, now: Time, counts: [u64; 2], present: PacketPath) -> PacketPath {
        let before = self.last.replace((now, counts));
        let Some((then, before)) = before else { return present };
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let [carried, lost] = [0, 1].map(|at| counts[at].saturating_sub(before[at]) as f64);
        let load = (carried + lost) / seconds;
        if lost > LOSES * (carried + lost) {
            self.fails_at[place(present)] = Some((load, now));
        }
        let (kernel, worker) = self.costs.at(PacketsPerSecond(load));
        let carries = |path: PacketPath, cost: Option<f64>| {
            let fails = self.fails_at[place(path)];
            let fails = fails.is_some_and(|(at, when)| load >= at && now.since(when) < BELIEVED);
            cost.filter(|_| !fails)
        };
        let (kernel, worker) =
            (carries(PacketPath::Kernel, kernel), carries(PacketPath::Worker, worker));
        let begin = match present {
            PacketPath::Kernel => Path::Kernel,
            PacketPath::Worker => Path::Worker,
        };
        let choice = self.choice.get_or_insert_with(|| PathChoice::new(begin));
        let path = match choice.decide(now, kernel, worker) {
            Path::Kernel => PacketPath::Kernel,
            Path::Worker => PacketPath::Worker,
        };
        if path != present {
            info!(?path, load, ?kernel, ?worker, code = "EBB-R053", "the other path costs less");
        }
        path
    }
}

fn place(path: PacketPath) -> usize {
    usize::from(path == PacketPath::Worker)
}

impl Live {
    /// The path that costs less, where that is known.
    pub(super) fn cheaper(&self) -> Option<PacketPath> {
        self.by_cost.as_ref()?.path
    }

    /// When the costs are to be looked at next, if ever.
    pub(super) fn costs_patience(&self) -> Option<Duration> {
        self.by_cost.as_ref().map(ByCost::patience)
    }

    /// Has ports take the path that costs less for the load that is there.
    pub(super) fn follow_costs(&mut self) {
        let due = self.by_cost.as_ref().is_some_and(|by_cost| by_cost.patience().is_zero());
        if !due || self.upgrade.is_some() {
            return;
        }
        let interfaces = self.interfaces.lock().expect("interfaces");
        let chosen = |(slot, port): (usize, &config::Port)| {
            let free =
                port.path == config::PacketPath::Auto && port.needs_workers(&self.config).is_none();
            let live = interfaces.open.get(slot)?.as_ref()?;
            free.then(|| live.interface.options().path)
        };
        let present = self.config.ports.iter().enumerate().find_map(chosen);
        let [carried, mut lost] = interfaces.carried();
        drop(interfaces);
        let Some(present) = present else { return };
        for slot in 0..self.config.ports.len() {
            lost += self.backend.router.port_counters(slot).receive_dropped;
        }
        let by_cost = self.by_cost.as_mut().expect("looked at above");
        let path = by_cost.look(monotonic(), [carried, lost], present);
        if by_cost.path.replace(path) != Some(path) && path != present {
            self.follow_paths();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: &str = "\
        kernel = [{ packets_per_s = 1000, cores = 0.1 }, { packets_per_s = 9000, cores = 0.9 }]\n\
        worker = [{ packets_per_s = 1000, cores = 0.3 }, { packets_per_s = 9000, cores = 0.5 }]\n";

    /// Looks once a second at so many packets carried and lost in it.
    struct Ports {
        by_cost: ByCost,
        second: u64,
        counts: [u64; 2],
        path: PacketPath,
    }

    impl Ports {
        fn after(&mut self, seconds: u64, [carried, lost]: [u64; 2]) -> PacketPath {
            for _ in 0..seconds {
                self.second += 1;
                self.counts = [self.counts[0] + carried, self.counts[1] + lost];
                let now = Time::from_nanos(self.second * 1_000_000_000);
                self.path = self.by_cost.look(now, self.counts, self.path);
            }
            self.path
        }
    }

    #[test]
    fn the_load_decides_and_so_does_what_is_lost() {
        let costs = PathCosts::from_toml("costs", COSTS).expect("a good file");
        let (by_cost, path) = (ByCost::new(costs), PacketPath::Kernel);
        let mut ports = Ports { by_cost, second: 0, counts: [0; 2], path };
        assert_eq!(ports.after(9, [1000, 0]), PacketPath::Kernel);
        assert_eq!(ports.after(5, [8000, 0]), PacketPath::Worker);
        assert_eq!(ports.after(20, [1000, 0]), PacketPath::Kernel);
        assert_eq!(ports.after(1, [2000, 100]), PacketPath::Worker, "it lost packets");
        assert_eq!(ports.after(20, [2100, 0]), PacketPath::Worker, "and would again");
        assert_eq!(ports.after(20, [1900, 0]), PacketPath::Kernel);
        assert_eq!(ports.after(700, [1900, 0]), PacketPath::Kernel);
        assert_eq!(ports.after(20, [2100, 0]), PacketPath::Kernel, "that is long ago");
        assert_eq!(ports.after(1, [9900, 100]), PacketPath::Kernel, "neither carries it");
    }
}
