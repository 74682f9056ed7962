//! The same day on the twin's server of twelve cores: what the policies save where there is more
//! than a core or two to save.

use anyhow::{Context, Result};
use ebb_report::{Cell, Column, Table};
use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_traffic::DayProfile;

use super::play::PEAK_SHARE;

/// How much faster than a real day it passes: a quarter of an hour.
const COMPRESS: f64 = 96.0;
/// The router's default latency budget, microseconds.
const BUDGET_US: u32 = 200;
const DAY_SECONDS: f64 = 86_400.0;

/// One policy's day.
#[derive(Clone, Debug)]
pub struct TwinDay {
    /// The policy.
    pub mode: String,
    /// Mean power, modelled, watts.
    pub watts: f64,
    /// Mean of the active cores.
    pub cores: f64,
    /// Share of the packets lost.
    pub lost: f64,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: f64,
}

impl TwinDay {
    /// Energy of a whole day, joules.
    pub fn joules(&self) -> f64 {
        self.watts * DAY_SECONDS
    }
}

/// The day `profile` under each mode, with the live day's peak as a share of capacity.
///
/// # Errors
/// When the twin refuses the scenario.
pub fn days(profile: DayProfile, modes: &[&str], seed: u64) -> Result<Vec<TwinDay>> {
    let steps = profile.steps();
    let mean = steps.iter().sum::<f64>() / steps.len() as f64;
    modes.iter().map(|mode| day(profile, PEAK_SHARE * mean, mode, seed)).collect()
}

fn day(profile: DayProfile, load: f64, mode: &str, seed: u64) -> Result<TwinDay> {
    let text = format!(
        "engine = \"slot\"\nload = {load}\n[policy]\nname = \"{mode}\"\n\
         settings = {{ latency_budget_us = {BUDGET_US} }}\n\
         [traffic]\nprofile = \"{}\"\nsizes = \"imix\"\ncompress = {COMPRESS}\n",
        profile.name()
    );
    let document = Document::parse("demo.toml", &text)?;
    let report = ebb_system_router::simulate(&document, &MemoryFiles::new(), seed, &Silent)?;
    let figure = |name: &str| {
        report.figures.get(name).and_then(|value| value.as_f64()).with_context(|| name.to_owned())
    };
    Ok(TwinDay {
        mode: mode.to_owned(),
        watts: figure("power_w")?,
        cores: figure("cores_mean")?,
        lost: figure("loss_share")?,
        p99_us: figure("latency_us.p99")?,
    })
}

/// The days side by side, a mode a column.
pub fn table(days: &[TwinDay]) -> Table {
    let mode = |day: &TwinDay| Column { numeric: true, ..Column::text(&day.mode) };
    let columns = [Column::text(""), Column::text("")].into_iter().chain(days.iter().map(mode));
    let mut table = Table::new("The same day on a simulated server of 12 cores", columns);
    let mut row = |name: &str, unit: &str, value: &dyn Fn(&TwinDay) -> String| {
        let head = [Cell::from(name), Cell::from(unit)];
        table.row(head.into_iter().chain(days.iter().map(|day| Cell::Text(value(day)))));
    };
    row("power", "mean W, modelled", &|day| format!("{:.1}", day.watts));
    row("energy", "MJ a day, modelled", &|day| format!("{:.2}", day.joules() / 1e6));
    row("cores on", "mean", &|day| format!("{:.2}", day.cores));
    row("lost", "%", &|day| format!("{:.4}", 100.0 * day.lost));
    row("latency", "p99, us", &|day| format!("{:.0}", day.p99_us));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cores_leave_more_to_save() {
        let modes = ["poll", "napi", "powersave"];
        let days = days(DayProfile::UK_BACKBONE, &modes, 1).expect("a day");
        let [poll, napi, powersave] = &days[..] else { panic!("three days") };
        assert!(powersave.watts < napi.watts && napi.watts < poll.watts, "{days:?}");
        assert!(powersave.watts < 0.75 * poll.watts && powersave.cores < 9.0, "{days:?}");
        assert!(powersave.lost < 1e-3, "{days:?}");
        assert!(table(&days).to_terminal(&ebb_report::Terminal::plain()).contains("12 cores"));
    }
}
