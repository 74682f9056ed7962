//! The normalised form of power over throughput.

use ebb_power::Chi;
use ebb_report::{
    Axis, Column, Context, ExperimentError, Figure, Findings, Plot, Report, Series, Table, claims,
};

const SECTION: &str = "Bolla et al., section V.A";

/// The normalised form.
pub(super) static FIG07: Figure = Figure {
    id: "bolla.fig07",
    title: "The normalised form chi",
    claims: &claims! {
        ["bolla.fig07", SECTION]
        implied "full" "chi at full throughput, normalised to 1", 1.0, "", within(0.005);
    },
    run: fig07,
};

fn fig07(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let chi = Chi::published();
    let line = (0..=200).map(|step| f64::from(step) / 200.0).map(|share| (share, chi.at(share)));
    let plot = Plot::new(FIG07.title, Axis::new("share of the throughput", ""))
        .panel(Axis::new("share of the power range", "").from_zero())
        .series(Series::line("published coefficients", line.collect()))
        .series(Series::points("published: the ends", vec![(0.0, 0.0), (1.0, 1.0)]).published());
    let mut table = Table::new("Coefficients", [Column::text(""), Column::number("value", "", 6)]);
    for (index, coefficient) in chi.0.iter().enumerate() {
        table.row([format!("a{index}").into(), (*coefficient).into()]);
    }
    let fall = chi.largest_fall(10_000);
    let text = format!(
        "The printed coefficients sum to {:.4}. Between 0.83 and 0.93 of the throughput the form \
         falls by {fall:.3}.",
        chi.sum(),
    );
    Ok(Findings::new(Report::new(FIG07.title).text(text).table(table).plot(plot)).found(
        "bolla.fig07.full",
        chi.sum(),
        "the printed coefficients sum to 1.0021; not corrected",
    ))
}
