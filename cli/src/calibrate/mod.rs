//! `ebb calibrate`: a model of this machine from measurement.
//!
//! [`walk`] drives a router through cores, frequencies and loads; [`mod@bench`] is that router with
//! its traffic; [`meter`] tells the power. Samples that exist already need none of these. [`app`] measures an application.

mod app;
mod bench;
mod far_end;
mod meter;
mod paths;
#[cfg(test)]
mod standin;
mod walk;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_host::{Sysfs, process};
use ebb_power::{CoreModel, Fit, Sample, read_samples, write_samples};
use ebb_report::{Column, Report, Table, Terminal, write_file};
use ebb_scenario::ScenarioError;

use crate::generator::{interrupt_signals, on_interrupt};
use bench::LiveBench;
use meter::Meter;
use walk::Grid;

/// Exit status when a file of the user's cannot be used.
const BAD_FILE: u8 = 2;
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Fit a model of this machine's power and speed, for the governor and the simulator
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb calibrate --out model.toml            use the machine's energy counters
  sudo ebb calibrate --meter watts.csv           ... or with an external meter's log
  ebb calibrate --samples lab.csv                fit samples measured before
  sudo ebb calibrate --paths                     which path costs less, by load
  ebb calibrate --app esp                        what an application costs, for the simulator

The log of an external meter has the columns `time` (Unix seconds) and `watts` and grows during the
measurement. Samples have the columns frequency_hz (or frequency_ghz), cores, offered_pps,
forwarded_pps and watts. The router loads the model with `[power]` `model = \"model.toml\"`, and what
paths cost with `paths = \"paths.toml\"`.")]
pub struct Calibrate {
    /// Fit these samples instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["meter", "memory", "keep", "cores"])]
    samples: Option<PathBuf>,
    /// Measure instead what either path of a router costs (workers, the kernel), for `path = "auto"`
    #[arg(long, conflicts_with_all = ["samples", "meter", "memory", "keep", "cores", "name"])]
    paths: bool,
    /// Measure instead what an application adds to a packet, as a section of scenarios of `ebb sim router`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "samples", "meter", "memory", "keep", "cores", "name"])]
    app: Option<app::App>,
    /// File for the model; default: model.toml, with --paths paths.toml, with --app app.toml
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the model; default: the samples' file or the machine's name
    #[arg(long)]
    name: Option<String>,
    /// Log of an external meter, instead of the machine's energy counters
    #[arg(long, value_name = "FILE")]
    meter: Option<PathBuf>,
    /// Also write the samples to this file
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Numbers of cores to measure; default: all
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    cores: Vec<u16>,
    /// Most frequencies to measure, evenly spaced from the lowest to the highest
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    frequencies: u16,
    /// Length of each measurement
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Use a router over links in memory, without privileges; its driver costs are not the machine's
    #[arg(long)]
    memory: bool,
    /// Root of the tree that holds `sys/` and `proc/`
    #[arg(long, default_value = "/", hide = true)]
    sysfs_root: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Calibrate {
    /// Measures where asked to, fits, writes the model and says how well it fits.
    pub fn run(self) -> Result<ExitCode> {
        ensure!((0.1..=3600.0).contains(&self.seconds), "--seconds must be from 0.1 to 3600");
        if self.paths {
            return self.measure_paths();
        }
        if let Some(app) = self.app {
            return self.measure_app(app);
        }
        let outcome = match &self.samples {
            Some(file) => self.read(file).map(Some),
            None => self.measure(),
        };
        let samples = match outcome {
            Ok(Some(samples)) => samples,
            Ok(None) => return Ok(ExitCode::from(INTERRUPTED)),
            Err(error) if error.is::<ScenarioError>() => {
                eprintln!("ebb: {error:#}");
                return Ok(ExitCode::from(BAD_FILE));
            }
            Err(error) => return Err(error),
        };
        let fit = Fit::new(&self.name(), &samples).with_context(|| match &self.samples {
            Some(file) => format!("{}", file.display()),
            None => "the measurements".to_owned(),
        })?;
        write_file(&self.out(), fit.model.to_toml().as_bytes())?;
        self.show(&fit, &samples)?;
        Ok(ExitCode::SUCCESS)
    }

    fn out(&self) -> PathBuf {
        let usual = match self.app {
            Some(_) => "app.toml",
            None if self.paths => "paths.toml",
            None => "model.toml",
        };
        self.out.clone().unwrap_or_else(|| usual.into())
    }

    fn measure_app(&self, app: app::App) -> Result<ExitCode> {
        let span = Duration::from_secs_f64(self.seconds);
        let found = app::measure(app, &Sysfs::new(&self.sysfs_root), span)?;
        write_file(&self.out(), found.to_toml()?.as_bytes())?;
        self.print(&found.report(&self.out()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure_paths(&self) -> Result<ExitCode> {
        let stop = Arc::new(AtomicBool::new(false));
        let signals = interrupt_signals()?;
        let cpus = process::allowed_cpus()?;
        let mut bench =
            LiveBench::new(&Sysfs::new(&self.sysfs_root), &cpus, self.memory, stop.clone())?;
        on_interrupt(signals, move || stop.store(true, Relaxed))?;
        let costs = paths::measure(&mut bench, Duration::from_secs_f64(self.seconds))?;
        let Some(costs) = costs else { return Ok(ExitCode::from(INTERRUPTED)) };
        write_file(&self.out(), costs.to_toml().as_bytes())?;
        self.print(&paths::report(&costs, &self.out()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, file: &Path) -> Result<Vec<Sample>> {
        let bytes =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(read_samples(&file.display().to_string(), &bytes)?)
    }

    /// `None` when interrupted.
    fn measure(&self) -> Result<Option<Vec<Sample>>> {
        let sysfs = Sysfs::new(&self.sysfs_root);
        let mut meter = Meter::open(&sysfs, self.meter.as_deref())?;
        let stop = Arc::new(AtomicBool::new(false));
        let signals = interrupt_signals()?;
        let cpus = process::allowed_cpus()?;
        let mut bench = LiveBench::new(&sysfs, &cpus, self.memory, stop.clone())?;
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        let span = Duration::from_secs_f64(self.seconds);
        let grid = Grid::new(&bench, &self.cores, self.frequencies.into(), span)?;
        eprintln!("{}", bench.place());
        eprintln!("{}", grid.announcement());
        let mut say = |line: &str| eprintln!("{line}");
        let readings = grid.walk(&mut bench, &mut meter, &mut say)?;
        drop(bench);
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let samples = meter.resolve(&readings)?;
        if let Some(keep) = &self.keep {
            write_file(keep, write_samples(&samples).as_bytes())?;
        }
        Ok(Some(samples))
    }

    fn name(&self) -> String {
        let host = || {
            let name = Sysfs::new(&self.sysfs_root).read("proc/sys/kernel/hostname");
            name.unwrap_or_else(|_| "this machine".to_owned())
        };
        let file = || self.samples.as_ref().map(|file| file.display().to_string());
        self.name.clone().or_else(file).unwrap_or_else(host)
    }

    fn show(&self, fit: &Fit, samples: &[Sample]) -> Result<()> {
        self.print(&report(fit, samples, &self.out()))
    }

    fn print(&self, report: &Report) -> Result<()> {
        let text = if self.json {
            report.to_json() + "\n"
        } else {
            report.to_terminal(&Terminal::of_stdout())
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

/// What was found.
fn report(fit: &Fit, samples: &[Sample], out: &Path) -> Report {
    let (model, quality) = (&fit.model, fit.quality());
    let mut report = Report::new(format!("Model of {}", model.name))
        .table(frequencies(model))
        .table(gains(model));
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let mut lines = vec![format!(
        "{} samples; power deviates by {} W (root mean square), at most by {}, throughput at most \
        by {}.",
        quality.samples,
        (quality.rms.0 * 1e3).round() / 1e3,
        percent(quality.power_error_max),
        percent(quality.throughput_error_max),
    )];
    if let Some(worst) = fit.worst() {
        let (sample, residual) = (&samples[worst], &fit.residuals[worst]);
        lines.push(format!(
            "Worst: {} cores at {} under {:.0} pps drew {:.2} W, the model gives {:.2} W.",
            sample.cores,
            sample.frequency,
            sample.offered.0,
            sample.watts.0,
            sample.watts.0 + residual.watts.0,
        ));
    }
    if model.chi.largest_fall(1000) > 0.02 {
        lines.push(
            "The fitted shape chi falls by more than 2 % somewhere: less power at more load is \
            noise."
                .to_owned(),
        );
    }
    lines.push(format!("Written to {}.", out.display()));
    for line in lines {
        report = report.text(line);
    }
    let points = model.point.iter().map(|point| {
        serde_json::json!({
            "frequency_hz": point.frequency.0,
            "idle_w": point.idle.0,
            "active_w": point.active.0,
            "r_max_pps": point.r_max.0,
        })
    });
    let gains = model
        .gain
        .iter()
        .map(|gain| serde_json::json!({ "cores": gain.cores, "gamma": gain.gamma }));
    report
        .figure("name", model.name.as_str())
        .figure("out", out.display().to_string())
        .figure("samples", quality.samples)
        .figure("base_w", model.base.0)
        .figure("point", points.collect::<Vec<_>>())
        .figure("gain", gains.collect::<Vec<_>>())
        .figure("chi", model.chi.0.to_vec())
        .figure("chi_sum", model.chi.sum())
        .figure("rms_w", quality.rms.0)
        .figure("power_error_max", quality.power_error_max)
        .figure("throughput_error_max", quality.throughput_error_max)
}

fn frequencies(model: &CoreModel) -> Table {
    let columns = [
        Column::number("frequency", "GHz", 3),
        Column::number("idle", "W per core", 3),
        Column::number("active", "W per core", 3),
        Column::number("one core forwards", "kpps", 1),
    ];
    let mut table = Table::new("Frequencies", columns);
    for point in &model.point {
        table.row([
            point.frequency.as_ghz().into(),
            point.idle.0.into(),
            point.active.0.into(),
            (point.r_max.0 / 1e3).into(),
        ]);
    }
    table
}

fn gains(model: &CoreModel) -> Table {
    let columns = [Column::count("cores"), Column::number("forward as much as", "cores", 3)];
    let mut table = Table::new(format!("Cores; {} independent of cores", model.base), columns);
    for gain in &model.gain {
        table.row([u64::from(gain.cores).into(), gain.gamma.into()]);
    }
    table
}
