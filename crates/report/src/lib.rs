//! Results for people and for programs: tables, plots and the writers that carry them to a
//! terminal, CSV, JSON and a web page that needs nothing but itself.
//!
//! Published numbers ([`Claim`]) stand beside ours in a [`Reproduction`].
//!
//! Room: presentation. It knows no physics, no packets and no policies; numbers arrive with their
//! units as text. Its only I/O is writing files whole ([`write_file`]).
//!
//! ```
//! use ebb_report::{Axis, Column, Plot, Report, Series, Table, Terminal};
//! let mut modes = Table::new("Modes", [Column::text("mode"), Column::number("energy", "J", 1)]);
//! modes.row(["poll".into(), 262.0.into()]);
//! modes.row(["powersave".into(), 131.25.into()]);
//! let plot = Plot::new("Power", Axis::new("time", "s"))
//!     .panel(Axis::new("power", "W").from_zero())
//!     .series(Series::step("poll", vec![(0.0, 262.0), (10.0, 262.0)]));
//! let report = Report::new("A day").text("Compressed to a minute.").table(modes).plot(plot);
//! assert!(report.to_terminal(&Terminal::plain()).contains("powersave   131.2"));
//! assert!(report.to_html().starts_with("<!doctype html>"));
//! ```

mod claim;
mod details;
mod escape;
mod experiment;
mod findings;
mod fit;
mod html;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod plot;
mod replications;
mod report;
mod reproduction;
mod row;
mod scale;
mod screen;
mod spark;
mod style;
mod svg;
mod table;
mod terminal;
mod timeline;
mod write;

pub use claim::{Bound, Claim, ClaimBasis, ClaimKind};
pub use details::Details;
pub use experiment::{Context, Experiment, ExperimentError, Figure};
pub use findings::{Findings, Note, Ours};
pub use json::nested;
pub use plot::{Axis, LOG_SPAN, Panel, Plot, Series, SeriesKind};
pub use replications::Replications;
pub use report::{Answer, Made, Report, Section, Writes};
pub use reproduction::Reproduction;
pub use row::{Row, Verdict};
pub use screen::Terminal;
pub use spark::{spark, spark_between};
pub use table::{Cell, Column, Table};
pub use timeline::{Drawn, Picos, Timeline, Timelines, Track};
pub use write::{WriteError, write_file};
