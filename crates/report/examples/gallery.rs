//! Pictures of what is hard to draw, to be looked at: lines that coincide, many series, intervals,
//! logarithmic axes.
//!
//!     cargo run -p ebb-report --example gallery -- DIRECTORY

use std::path::PathBuf;

use ebb_report::{Axis, Plot, Series, write_file};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = PathBuf::from(std::env::args().nth(1).ok_or("a directory is needed")?);
    for (name, plot) in [("coincident", coincident()), ("many", many()), ("curves", curves())] {
        write_file(&place.join(format!("{name}.svg")), plot.to_svg().as_bytes())?;
    }
    Ok(())
}

/// Policies that keep the same cores on most of the time.
fn coincident() -> Plot {
    let steps = |low: f64| vec![(0.0, 4.0), (10.0, low), (20.0, 4.0), (30.0, 4.0)];
    Plot::new("Cores that are on", Axis::new("time", "s"))
        .panel(Axis::new("cores", "").from_zero())
        .series(Series::step("poll", steps(4.0)))
        .series(Series::step("napi", steps(4.0)))
        .series(Series::step("model", steps(2.0)))
        .series(Series::step("powersave", steps(2.0)))
        .panel(Axis::new("offered", "Mpps").from_zero())
        .series(Series::area("offered", vec![(0.0, 1.0), (15.0, 3.0), (30.0, 2.0)]))
}

fn many() -> Plot {
    let plot = Plot::new("Twelve routings", Axis::new("load", ""));
    (0..12).fold(plot.panel(Axis::new("power", "W").from_zero()), |plot, index| {
        let value = |x: f64| 10.0 + x * (8.0 + f64::from(index));
        let points = (0..=50).map(|at| f64::from(at) / 50.0);
        let line =
            Series::line(format!("routing {index}"), points.map(|x| (x, value(x))).collect());
        plot.series(line)
    })
}

fn curves() -> Plot {
    let points = |scale: f64| {
        let loads = [0.05, 0.1, 0.2, 0.3, 0.4, 0.43].iter();
        loads.map(|load| (*load, scale * 20.0 / (0.44 - load))).collect::<Vec<_>>()
    };
    let halves = |points: &[(f64, f64)]| points.iter().map(|point| point.1 * 0.15).collect();
    let (xy, adaptive) = (points(1.0), points(1.1));
    let (bars, others) = (halves(&xy), halves(&adaptive));
    let axis = Axis::new("latency, mean", "cycles");
    let axis = axis.fitting(xy.iter().map(|point| point.1));
    Plot::new("Latency against load", Axis::new("load", "flits/tile/cycle"))
        .panel(axis)
        .series(Series::line("xy", xy).within(bars))
        .series(Series::line("adaptive", adaptive).within(others))
        .series(Series::points("xy, saturated", vec![(0.5, 3000.0)]))
        .series(Series::points("published", vec![(0.2, 85.0), (0.4, 520.0)]))
}
