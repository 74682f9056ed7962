//! What a daemon measures: metrics are declared once ([`Metric`]), a [`Snapshot`] holds the values of a
//! moment, and everything that shows them is a view of it: OpenMetrics text, `top`, lines of JSON, the
//! table in the documentation.
//!
//! It knows neither sockets nor daemons; the time comes from the daemon's own state.

mod declare;
mod metric;
mod openmetrics;
mod snapshot;
#[cfg(test)]
mod tests;

pub use declare::{IntoValue, alone, each};
pub use metric::{Kind, Metric, Point, Points, Source, Unit, Value, table};
pub use snapshot::{Family, Sample, Snapshot};

/// Version of a snapshot's shape and of the conversation by which it is asked for. It grows when a client of
/// the former one would be misled, not for metrics that come or go.
pub const PROTOCOL: u32 = 1;
