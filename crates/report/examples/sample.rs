//! Writes a sample report: `cargo run -p ebb-report --example sample -- DIRECTORY`.

use std::path::PathBuf;

use ebb_report::{Axis, Column, Plot, Report, Series, Table, Terminal, WriteError, write_file};

fn day(seconds: f64) -> f64 {
    0.15 + 0.75 * (0.5 - 0.5 * (seconds / 60.0 * core::f64::consts::TAU).cos()).powf(1.5)
}

fn main() -> Result<(), WriteError> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "sample".to_owned()));
    let times: Vec<f64> = (0..=240).map(|step| f64::from(step) * 0.25).collect();
    let series = |value: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        times.iter().map(|time| (*time, value(*time))).collect()
    };
    let cores = |time: f64| if day(time) > 0.5 { 2.0 } else { 1.0 };
    let plot = Plot::new("A working day in a minute", Axis::new("time", "s"))
        .panel(Axis::new("load", "Mpps").from_zero())
        .series(Series::area("offered", series(&day)))
        .panel(Axis::new("active cores", "").reaching(0.0, 2.0))
        .series(Series::step("poll", series(&|_| 2.0)))
        .series(Series::step("napi", series(&|_| 2.0)))
        .series(Series::step("powersave", series(&cores)))
        .panel(Axis::new("power, modelled", "W").from_zero())
        .series(Series::line("poll", series(&|_| 139.5)))
        .series(Series::line("napi", series(&|time| 118.0 + 21.5 * day(time))))
        .series(Series::line("powersave", series(&|time| 116.5 + 10.0 * day(time) * cores(time))));
    let mut table = Table::new(
        "Modes",
        [
            Column::text("mode"),
            Column::number("CPU", "s", 2),
            Column::number("energy, modelled", "J", 0),
            Column::count("sent"),
            Column::count("lost"),
            Column::number("latency p99", "µs", 1),
        ],
    );
    table.row([
        "poll".into(),
        119.8.into(),
        8370.0.into(),
        31_500_000u64.into(),
        0u64.into(),
        18.2.into(),
    ]);
    table.row([
        "napi".into(),
        61.25.into(),
        7743.0.into(),
        31_500_000u64.into(),
        0u64.into(),
        44.9.into(),
    ]);
    table.row([
        "powersave".into(),
        48.5.into(),
        7491.0.into(),
        31_500_000u64.into(),
        0u64.into(),
        52.0.into(),
    ]);
    let curve = |factor: f64| -> Vec<(f64, f64)> {
        [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0]
            .iter()
            .map(|load| (*load, factor * load + 0.4))
            .collect()
    };
    let proportionality =
        Plot::new("CPU time against load", Axis::new("load", "% of capacity").from_zero())
            .panel(Axis::new("CPU", "% of one core").reaching(0.0, 100.0))
            .series(Series::line("poll", vec![(0.0, 100.0), (90.0, 100.0)]))
            .series(Series::line("napi", curve(1.05)))
            .series(Series::line("powersave", curve(0.9)));
    let report = Report::new("A day of routing")
        .text("Made-up figures: this page shows what reports look like.")
        .heading("What it cost")
        .table(table)
        .plot(plot.clone())
        .heading("How it follows the load")
        .plot(proportionality);
    report.save(&directory)?;
    write_file(&directory.join("day.svg"), plot.to_svg().as_bytes())?;
    print!("{}", report.to_terminal(&Terminal::of_stdout()));
    Ok(())
}
