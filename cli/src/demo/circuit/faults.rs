//! What becomes of racks whose optical switch is started anew and whose controller dies.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebb_tord::plan::Source;
use ebb_tord::status::{TorStatus, between};

use super::fabric::{Fabric, PATIENCE};
use super::load::{self, Carried, Kind};
use super::racks::Racks;

/// After both deaths.
pub(super) struct Faults {
    /// From the kill of the optical switch until another one passed light.
    pub(super) dark: Duration,
    /// Whose days the racks kept after the controller's death, in order.
    pub(super) sources: Vec<String>,
    pub(super) carried: Carried,
    pub(super) tor: TorStatus,
}

impl Faults {
    /// Frames that went over the packet path.
    pub(super) fn by_packets(&self) -> u64 {
        self.tor.racks.iter().map(|rack| rack.sent_by_packets).sum()
    }

    pub(super) fn line(&self) -> String {
        format!(
            "optical switch killed: dark for {:.0} ms; controller killed: {}; {} of {} frames \
             arrived, {} over the packet path",
            self.dark.as_secs_f64() * 1e3,
            self.sources.join(", then "),
            self.carried.received,
            self.carried.sent,
            self.by_packets(),
        )
    }
}

/// Plays both while hosts send.
pub(super) fn play(
    racks: &Racks,
    fabric: &mut Fabric<'_>,
    kind: Kind,
    span: Duration,
    stop: &AtomicBool,
) -> Result<Faults> {
    let before = fabric.fresh_tor()?;
    let enough = AtomicBool::new(false);
    let (dark, carried) = std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run(racks, kind, 10 * PATIENCE, &enough, &|| true));
        let dark = kill_both(fabric, span, stop);
        enough.store(true, Relaxed);
        (dark, load.join().expect("the load does not panic"))
    });
    let (dark, carried) = (dark?, carried?);
    let tor = fabric.fresh_tor()?;
    // From the controller's last word on.
    let last = tor.sources.iter().rposition(|source| *source == Source::Controller).unwrap_or(0);
    let names = tor.sources[last..].iter().map(|source| format!("{source:?}").to_lowercase());
    Ok(Faults { dark, sources: names.collect(), carried, tor: between(&before, &tor) })
}

/// Returns how long it was dark.
fn kill_both(fabric: &mut Fabric<'_>, span: Duration, stop: &AtomicBool) -> Result<Duration> {
    load::nap(span.mul_f64(0.15), stop);
    let killed = Instant::now();
    fabric.restart_ocs(stop)?;
    let dark = killed.elapsed();
    load::nap(span.mul_f64(0.2), stop);
    fabric.kill_controller()?;
    let killed = Instant::now();
    while fabric.tor()?.source != Some(Source::Packets) {
        ensure!(!stop.load(Relaxed), "interrupted");
        let patience = killed.elapsed() < PATIENCE;
        ensure!(patience, "without a controller the racks do not use the packet path");
        std::thread::sleep(Duration::from_millis(10));
    }
    load::nap(span.mul_f64(0.2), stop);
    Ok(dark)
}
