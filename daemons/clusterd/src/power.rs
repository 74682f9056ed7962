//! What a member's machine and its back-ends draw, and what that comes to in the whole cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_cluster::{EnergyAccount, Servers, Snapshot, draw};
use ebb_host::Sysfs;
use ebb_host::clock::monotonic;
use ebb_host::energy::PowerMeter;
use ebb_units::Watts;

use crate::config::{ClusterConfig, How, KeepConfig, MemberConfig};
use crate::status::{EnergyPart, EnergyStatus};

/// Between two readings of a meter: a counter of energy is to be read every minute at least, and a management
/// card takes a while to answer.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The machine that a member runs on.
pub struct Machine {
    meter: Option<PowerMeter>,
    /// What it draws is told with what its balancer says.
    balances: bool,
    /// Back-ends on it that are up.
    up: AtomicUsize,
}

impl Machine {
    /// Of this member.
    ///
    /// # Errors
    /// When the system has no thread for a meter.
    pub fn open(config: &ClusterConfig, member: &MemberConfig) -> Result<Arc<Machine>> {
        let sysfs = Sysfs::new(&config.cluster.sysfs_root);
        let meter = PowerMeter::open(&sysfs, &member.meter, READ_EVERY);
        let meter = meter.context("cannot start a thread for the meter")?;
        let balances = member.balancer.is_some();
        Ok(Arc::new(Machine { meter, balances, up: AtomicUsize::new(0) }))
    }

    /// What it draws, mW.
    pub fn milliwatts(&self) -> Option<u64> {
        self.meter.as_ref().and_then(PowerMeter::watts).map(milliwatts)
    }

    /// Why its meter says nothing.
    pub fn fault(&self) -> Option<String> {
        self.meter.as_ref().and_then(PowerMeter::fault)
    }
}

fn milliwatts(watts: Watts) -> u64 {
    (watts.0 * 1e3).round() as u64
}

/// What measures a back-end, if something does.
#[derive(Default)]
pub enum Metered {
    /// Nothing.
    #[default]
    Not,
    /// A meter of its own.
    Own(PowerMeter),
    /// It is a part of its keeper's machine.
    Part(Arc<Machine>, bool),
}

impl Metered {
    /// As a keeper's table says.
    ///
    /// # Errors
    /// As [`Machine::open`].
    pub fn of(keep: &KeepConfig, machine: &Arc<Machine>) -> Result<Metered> {
        if !keep.meter.is_empty() {
            let nowhere = Sysfs::new("/nonexistent");
            let own = PowerMeter::open(&nowhere, &keep.meter, READ_EVERY);
            let own = own.context("cannot start a thread for the meter")?;
            return Ok(own.map_or(Metered::Not, Metered::Own));
        }
        let here = matches!(keep.how, How::Namespace | How::Process | How::Guest);
        Ok(if here { Metered::Part(machine.clone(), false) } else { Metered::Not })
    }

    /// Its back-end is up, or is not.
    pub fn set_up(&mut self, up: bool) {
        if let Metered::Part(machine, before) = self
            && *before != up
        {
            *before = up;
            if up {
                machine.up.fetch_add(1, Relaxed);
            } else {
                machine.up.fetch_sub(1, Relaxed);
            }
        }
    }

    /// What its back-end draws while it is up, mW: of a machine that keeps several, equal parts.
    pub fn milliwatts(&self) -> Option<u64> {
        match self {
            Metered::Not => None,
            Metered::Own(meter) => meter.watts().map(milliwatts),
            Metered::Part(machine, _) => {
                let all = machine.milliwatts()?;
                let parts = machine.up.load(Relaxed).max(1) as u64;
                Some(if machine.balances { 0 } else { all / parts })
            }
        }
    }
}

/// What servers and balancers are said to draw.
#[derive(Clone)]
pub struct Ratings {
    servers: Servers,
    weights: BTreeMap<String, f64>,
    balancers: BTreeMap<String, f64>,
}

impl Ratings {
    /// By the file.
    pub fn of(config: &ClusterConfig) -> Ratings {
        let weights = config.capacities().into_iter();
        Ratings {
            servers: config.servers(),
            weights: weights.map(|(name, (weight, _))| (name, f64::from(weight))).collect(),
            balancers: config.balancers_w(),
        }
    }
}

/// Adds up what the cluster draws, as this member sees it.
pub struct EnergyView {
    account: EnergyAccount,
}

impl EnergyView {
    /// From now on.
    pub fn open() -> EnergyView {
        EnergyView { account: EnergyAccount::new(monotonic()) }
    }

    /// What is drawn by what is in the store.
    pub fn see(&mut self, seen: &Snapshot, ratings: &Ratings) -> EnergyStatus {
        let Ratings { servers, weights, balancers } = ratings;
        let now = draw(seen, servers, weights, balancers);
        let load_pps: f64 = seen.balancers.values().map(|said| said.load_pps).sum();
        self.account.advance(monotonic(), &now, load_pps);
        let part = |basis: &str, watts: Watts, joules: f64| EnergyPart {
            basis: basis.to_owned(),
            watts: watts.0,
            joules,
        };
        let EnergyAccount { measured, modelled, packets, .. } = self.account;
        let parts = [
            part("measured", now.measured, measured.0),
            part("modelled", now.modelled, modelled.0),
        ];
        let per_packet = now.total().0 / load_pps;
        EnergyStatus {
            watts: now.total().0,
            joules: measured.0 + modelled.0,
            packets,
            joules_per_packet: (load_pps >= 1.0).then_some(per_packet),
            joules_per_packet_mean: self.account.per_packet().map(|joules| joules.0),
            parts: parts.to_vec(),
            unknown: now.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose meter says 90 W, with and without a balancer.
    fn machine(balances: bool) -> Arc<Machine> {
        let said = ["echo".to_owned(), "90".to_owned()];
        let meter = PowerMeter::open(&Sysfs::new("/nonexistent"), &said, READ_EVERY);
        let meter = meter.expect("a thread");
        let machine = Machine { meter, balances, up: AtomicUsize::new(0) };
        let begun = monotonic();
        while machine.milliwatts().is_none() {
            assert!(monotonic().since(begun) < Duration::from_secs(20), "{:?}", machine.fault());
            std::thread::sleep(Duration::from_millis(2));
        }
        Arc::new(machine)
    }

    #[test]
    fn back_ends_of_one_machine_share_what_it_draws_unless_its_balancer_tells() {
        let one = machine(false);
        let mut parts = [Metered::Part(one.clone(), false), Metered::Part(one, false)];
        parts[0].set_up(true);
        assert_eq!(parts[0].milliwatts(), Some(90_000));
        parts[1].set_up(true);
        parts[1].set_up(true);
        assert_eq!(parts.each_ref().map(Metered::milliwatts), [Some(45_000); 2]);
        parts[0].set_up(false);
        assert_eq!(parts[1].milliwatts(), Some(90_000));
        let mut part = Metered::Part(machine(true), false);
        part.set_up(true);
        assert_eq!(part.milliwatts(), Some(0), "what its balancer says has it already");
    }

    #[test]
    fn counters_of_the_machine_count_for_it_where_there_are_some() {
        let root = std::env::temp_dir().join(format!("ebb-power-{}", std::process::id()));
        let zone = root.join("sys/class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).expect("a directory");
        for (name, value) in
            [("name", "package-0"), ("energy_uj", "0"), ("max_energy_range_uj", "1000000000")]
        {
            std::fs::write(zone.join(name), value).expect("written");
        }
        let text = crate::config::EXAMPLE
            .replace("[cluster]", &format!("[cluster]\nsysfs_root = \"{}\"", root.display()));
        let config = ClusterConfig::parse("c.toml", &text).expect("an example");
        let machine = Machine::open(&config, &config.member[0]).expect("a thread");
        assert!(machine.meter.is_some() && machine.balances);
        let config =
            ClusterConfig::parse("c.toml", &text.replace("ebb-power-", "none-")).expect("one");
        let without = Machine::open(&config, &config.member[0]).expect("nothing to start");
        assert!(without.meter.is_none() && without.milliwatts().is_none());
        _ = std::fs::remove_dir_all(root);
    }
}
