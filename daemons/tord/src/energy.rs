//! What a top-of-rack switch draws: its machine as it is measured, or a model of one that has no other work.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_host::Sysfs;
use ebb_host::energy::PowerMeter;
use ebb_power::{Basis, CoreState, Depth, ServerModel};
use ebb_system_circuit::energy::Light;
use ebb_units::Watts;

use crate::config::Tor;
use crate::status::{Energy, RackStatus};

/// Between two readings of the meter.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Power is the mean over at least so long, ns.
const WINDOW_NS: u64 = 100_000_000;

/// Adds up what a switch draws.
pub(crate) struct EnergyAccount {
    meter: Option<PowerMeter>,
    model: ServerModel,
    threads: usize,
    /// When it was advanced last, and the threads' processor time then, s.
    at: Option<(u64, f64)>,
    joules: f64,
    watts: f64,
    basis: Basis,
}

impl EnergyAccount {
    /// With the machine's meter, where there is one.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn open(tor: &Tor) -> Result<EnergyAccount> {
        let meter = PowerMeter::open(&Sysfs::new(&tor.sysfs_root), &tor.meter, READ_EVERY);
        let meter = meter.context("cannot start a thread for the meter")?;
        let model = ServerModel::niccolini2012().scaled_to(tor.threads as u16);
        let (threads, basis) = (tor.threads, Basis::Modelled);
        Ok(EnergyAccount { meter, model, threads, at: None, joules: 0.0, watts: 0.0, basis })
    }

    /// What it has drawn until now, when its threads have worked for `cpu_s` in all and `lit` ends of circuits had light.
    pub(crate) fn read(
        &mut self,
        now_ns: u64,
        cpu_s: f64,
        lit: usize,
        racks: &[RackStatus],
    ) -> Energy {
        let (at, worked) = *self.at.get_or_insert((now_ns, cpu_s));
        let span_ns = now_ns.saturating_sub(at);
        if span_ns >= WINDOW_NS {
            let span_s = span_ns as f64 * 1e-9;
            let measured = self.meter.as_ref().and_then(PowerMeter::watts);
            self.basis = if measured.is_some() { Basis::Measured } else { Basis::Modelled };
            let modelled = || self.modelled((cpu_s - worked) / span_s, lit);
            self.watts = measured.unwrap_or_else(modelled).0;
            self.joules += self.watts * span_s;
            self.at = Some((now_ns, cpu_s));
        }
        let handed_on = |rack: &RackStatus| rack.sent + rack.sent_by_packets + rack.to_hosts;
        let packets: u64 = racks.iter().map(handed_on).sum();
        Energy {
            joules: self.joules,
            watts: self.watts,
            basis: self.basis,
            joules_per_packet: (packets > 0).then(|| self.joules / packets as f64),
        }
    }

    /// The published server with a core for each thread, and an end of light for each rack (Strong 2013, table 4.1).
    fn modelled(&self, busy: f64, lit: usize) -> Watts {
        let frequency = self.model.frequency_max;
        let busy = busy / self.threads as f64;
        let core = CoreState { frequency, busy, depth: Depth::C1 };
        self.model.power(&vec![core; self.threads]) + Watts(Light::default().awake_w * lit as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{TOR_EXAMPLE, TorConfig};

    fn account(change: impl Fn(&mut Tor)) -> EnergyAccount {
        let mut tor = TorConfig::parse("tor.toml", TOR_EXAMPLE).expect("an example").tor;
        tor.sysfs_root = "/nonexistent".into();
        change(&mut tor);
        EnergyAccount::open(&tor).expect("a thread")
    }

    #[test]
    fn a_busy_switch_draws_more_and_each_end_of_light_its_part() {
        let mut account = account(|_| {});
        let rack = RackStatus { sent: 30, to_hosts: 10, ..RackStatus::default() };
        account.read(0, 0.0, 2, &[]);
        let idle = account.read(1_000_000_000, 0.0, 2, &[]);
        assert_eq!((idle.basis, idle.joules_per_packet), (Basis::Modelled, None));
        let busy = account.read(2_000_000_000, 1.0, 2, &[rack]);
        assert!(busy.watts > idle.watts, "{busy:?} {idle:?}");
        assert!((busy.joules - busy.watts - idle.watts).abs() < 1e-9);
        assert_eq!(busy.joules_per_packet, Some(busy.joules / 40.0));
        let dark = account.read(3_000_000_000, 2.0, 0, &[]);
        assert!((busy.watts - dark.watts - 2.0 * Light::default().awake_w).abs() < 1e-9);
        // Looked at sooner nothing changes.
        assert_eq!(account.read(3_050_000_000, 2.0, 0, &[]).joules, dark.joules);
    }

    #[test]
    fn a_meter_is_believed_instead() {
        let mut account = account(|tor| tor.meter = vec!["echo".to_owned(), "31.5".to_owned()]);
        let begun = ebb_host::clock::monotonic();
        while account.meter.as_ref().expect("a meter").watts().is_none() {
            assert!(ebb_host::clock::monotonic().since(begun) < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(2));
        }
        account.read(0, 0.0, 4, &[]);
        let read = account.read(2_000_000_000, 2.0, 4, &[]);
        assert_eq!((read.watts, read.joules, read.basis), (31.5, 63.0, Basis::Measured));
    }
}
