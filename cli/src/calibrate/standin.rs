//! The whole calibration on a machine that is a model: its energy counter is a file that wraps
//! around, its time goes by as fast as it is asked to.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ebb_host::Sysfs;
use ebb_host::energy::Rapl;
use ebb_power::{CoreModel, Fit};
use ebb_units::{Hertz, PacketsPerSecond, Watts};

use super::meter::{Carried, Meter};
use super::walk::{Bench, Grid};

const RANGE_UJ: f64 = 262_143_328_850.0;

thread_local! {
    static NOW_S: Cell<f64> = const { Cell::new(1.7e9) };
}

struct StandIn {
    truth: CoreModel,
    clocks: Vec<Hertz>,
    held: (u16, usize),
    counter: PathBuf,
    microjoules: f64,
    /// The generator's own limit.
    breath_pps: f64,
}

impl StandIn {
    fn new(root: &std::path::Path, breath_pps: f64) -> StandIn {
        let zone = root.join("sys/class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).expect("a zone");
        std::fs::write(zone.join("name"), "package-0\n").expect("a name");
        std::fs::write(zone.join("max_energy_range_uj"), format!("{RANGE_UJ}\n")).expect("a range");
        let truth = CoreModel { base: Watts(30.0), ..CoreModel::example() };
        let clocks = truth.point.iter().map(|point| point.frequency).collect();
        let counter = zone.join("energy_uj");
        let mut machine = StandIn {
            truth,
            clocks,
            held: (1, 0),
            counter,
            microjoules: RANGE_UJ - 5e8,
            breath_pps,
        };
        machine.pass(PacketsPerSecond(0.0), Duration::ZERO);
        machine
    }

    fn pass(&mut self, offered: PacketsPerSecond, span: Duration) {
        let watts = self.truth.power(self.held.0, self.held.1, offered).expect("known");
        self.microjoules += (watts * span).0 * 1e6;
        let shown = (self.microjoules % RANGE_UJ).floor();
        std::fs::write(&self.counter, format!("{shown}\n")).expect("the counter");
        NOW_S.set(NOW_S.get() + span.as_secs_f64());
    }
}

impl Bench for StandIn {
    fn frequencies(&self) -> &[Hertz] {
        &self.clocks
    }

    fn cores_max(&self) -> u16 {
        2
    }

    fn arrange(&mut self, cores: u16, frequency: Hertz) -> Result<()> {
        self.held = (cores, self.clocks.binary_search(&frequency).expect("one of ours"));
        Ok(())
    }

    fn offer(
        &mut self,
        rate: PacketsPerSecond,
        settle: Duration,
        span: Duration,
        mark: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Carried> {
        let offered = PacketsPerSecond(rate.0.min(self.breath_pps));
        self.pass(offered, settle);
        mark()?;
        self.pass(offered, span);
        mark()?;
        let forwarded = self.truth.throughput(self.held.0, self.held.1, offered).expect("known");
        Ok(Carried { offered, forwarded })
    }

    fn stopped(&self) -> bool {
        false
    }
}

fn calibrate(breath_pps: f64) -> (CoreModel, Result<Fit, ebb_power::FitError>, Vec<String>) {
    let root = tempfile::tempdir().expect("a directory");
    let mut machine = StandIn::new(root.path(), breath_pps);
    let rapl = Rapl::open(&Sysfs::new(root.path())).expect("a counter");
    let mut meter = Meter::Counters { rapl, clock: || NOW_S.get() };
    let grid = Grid::new(&machine, &[], 5, Duration::from_secs(2)).expect("a grid");
    let mut said = Vec::new();
    let mut say = |line: &str| said.push(line.to_owned());
    let readings = grid.walk(&mut machine, &mut meter, &mut say).expect("walked");
    let samples = meter.resolve(&readings).expect("metered");
    (machine.truth, Fit::new("stand-in", &samples), said)
}

#[test]
fn the_walk_finds_the_machine() {
    let (truth, fit, said) = calibrate(1e9);
    let fit = fit.expect("determined");
    assert_eq!(said.len(), 8, "two numbers of cores, four frequencies: {said:?}");
    assert!(fit.quality().power_error_max < 1e-3, "{:?}", fit.quality());
    assert!((fit.model.base.0 - 30.0).abs() < 0.1, "{}", fit.model.base);
    for (ours, theirs) in fit.model.point.iter().zip(&truth.point) {
        assert_eq!(ours.frequency, theirs.frequency);
        assert!((ours.idle.0 - theirs.idle.0).abs() < 0.1, "{ours:?} {theirs:?}");
        assert!((ours.active.0 - theirs.active.0).abs() < 0.3, "{ours:?} {theirs:?}");
        assert!((ours.r_max.0 / theirs.r_max.0 - 1.0).abs() < 0.001, "{ours:?} {theirs:?}");
    }
    assert!((fit.model.gamma(2).expect("measured") - 1.9).abs() < 1e-3);
}

#[test]
fn a_breathless_generator_is_told_from_a_slow_router() {
    let (_, fit, said) = calibrate(600e3);
    assert!(said[0].contains("the traffic source cannot send more"), "{said:?}");
    let missing = fit.expect_err("no load exceeds what is forwarded").to_string();
    assert!(missing.contains("at 2.00 GHz: a load above the capacity"), "{missing}");
}
