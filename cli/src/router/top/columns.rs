//! The columns of the two tables, what they are sorted by, and which fit.

use core::cmp::Ordering;

use ebb_routerd::status::WorkerState;

use super::interval::{PortRates, WorkerRates};
use super::view::Order;
use crate::router::show::scaled;

/// A column of a table of `T`.
pub(super) struct Column<T: 'static> {
    pub(super) heading: &'static str,
    /// Characters.
    pub(super) width: u16,
    /// Columns of a higher rank go first where there is not enough room.
    pub(super) rank: u8,
    /// Words stand to the left.
    pub(super) words: bool,
    pub(super) text: fn(&T) -> String,
    pub(super) key: fn(&T) -> Key,
}

/// What a column is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Number(f64),
    Words(String),
}

impl Key {
    fn compare(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Number(one), Key::Number(other)) => one.total_cmp(other),
            (Key::Words(one), Key::Words(other)) => one.cmp(other),
            (Key::Number(_), Key::Words(_)) => Ordering::Less,
            (Key::Words(_), Key::Number(_)) => Ordering::Greater,
        }
    }
}

/// Spaces between columns.
pub(super) const GAP: u16 = 1;

/// Indices of the columns that fit into `width`, in their order.
pub(super) fn fitting<T>(columns: &[Column<T>], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|index| columns[*index].rank);
    let mut used = 0;
    let mut chosen = Vec::new();
    for index in by_rank {
        let gap = if chosen.is_empty() { 0 } else { GAP };
        if used + gap + columns[index].width > width && !chosen.is_empty() {
            break;
        }
        used += gap + columns[index].width;
        chosen.push(index);
    }
    chosen.sort_unstable();
    chosen
}

/// Rows in an order; those that are alike keep theirs.
pub(super) fn sorted<'a, T>(rows: &'a [T], columns: &[Column<T>], order: Order) -> Vec<&'a T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    if let Some(column) = columns.get(order.column) {
        rows.sort_by(|one, other| {
            let compared = (column.key)(one).compare(&(column.key)(other));
            if order.descending { compared.reverse() } else { compared }
        });
    }
    rows
}

/// Packets a second.
pub(super) fn packets(pps: f64) -> String {
    match pps {
        pps if pps >= 99.95e6 => format!("{:.0} Mpps", pps / 1e6),
        pps if pps >= 9.995e6 => format!("{:.1} Mpps", pps / 1e6),
        pps if pps >= 999.5e3 => format!("{:.2} Mpps", pps / 1e6),
        pps if pps >= 1e4 => format!("{:.0} kpps", pps / 1e3),
        pps => format!("{pps:.0} pps"),
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

/// Blocks that fill with the load.
fn bar(worker: &WorkerRates) -> String {
    match worker.state {
        WorkerState::Active => "█".repeat((worker.busy * 20.0).round() as usize),
        other => other.name().to_owned(),
    }
}

macro_rules! numbers {
    ($heading:literal, $width:literal, $rank:literal, $text:expr, $key:expr) => {
        Column {
            heading: $heading,
            width: $width,
            rank: $rank,
            words: false,
            text: $text,
            key: |row| Key::Number(($key)(row)),
        }
    };
}

macro_rules! words {
    ($heading:literal, $width:literal, $rank:literal, $text:expr) => {
        Column {
            heading: $heading,
            width: $width,
            rank: $rank,
            words: true,
            text: $text,
            key: |row| Key::Words(($text)(row)),
        }
    };
}

/// Of the workers.
pub(super) const WORKERS: &[Column<WorkerRates>] = &[
    numbers!("worker", 6, 0, |w| w.worker.to_string(), |w: &WorkerRates| w.worker as f64),
    numbers!("cpu", 4, 5, |w| or_dash(w.cpu.map(|cpu| cpu.to_string())), |w: &WorkerRates| {
        w.cpu.map_or(-1.0, f64::from)
    }),
    words!("state", 6, 6, |w: &WorkerRates| w.state.name().to_owned()),
    numbers!("busy", 5, 1, |w| format!("{:.0} %", w.busy * 100.0), |w: &WorkerRates| w.busy),
    numbers!("received", 9, 2, |w| packets(w.received_pps), |w: &WorkerRates| w.received_pps),
    numbers!("forwarded", 9, 3, |w| packets(w.forwarded_pps), |w: &WorkerRates| w.forwarded_pps),
    numbers!("dropped", 9, 4, |w| packets(w.dropped_pps), |w: &WorkerRates| w.dropped_pps),
    numbers!("queue", 5, 7, |w| w.queue_len.to_string(), |w: &WorkerRates| f64::from(w.queue_len)),
    numbers!("wake-ups", 9, 8, |w| format!("{:.0} /s", w.wakeups_per_second), |w: &WorkerRates| {
        w.wakeups_per_second
    }),
    Column {
        heading: "load",
        width: 20,
        rank: 9,
        words: true,
        text: bar,
        key: |worker| Key::Number(worker.busy),
    },
];

/// Of the ports.
pub(super) const PORTS: &[Column<PortRates>] = &[
    words!("port", 15, 0, |p: &PortRates| p.port.clone()),
    words!("link", 4, 3, |p: &PortRates| p.link.to_owned()),
    numbers!("received", 9, 1, |p| packets(p.received_pps), |p: &PortRates| p.received_pps),
    numbers!("sent", 9, 2, |p| packets(p.transmitted_pps), |p: &PortRates| p.transmitted_pps),
    numbers!("bits in", 12, 5, |p| scaled(p.received_bps, "bit/s"), |p: &PortRates| {
        p.received_bps
    }),
    numbers!("bits out", 12, 6, |p| scaled(p.transmitted_bps, "bit/s"), |p: &PortRates| {
        p.transmitted_bps
    }),
    numbers!("lost", 9, 4, |p| packets(p.lost_pps), |p: &PortRates| p.lost_pps),
    numbers!("to kernel", 9, 7, |p| packets(p.to_kernel_pps), |p: &PortRates| p.to_kernel_pps),
    numbers!(
        "p99",
        9,
        8,
        |p| or_dash(p.latency_p99_us.map(|us| format!("{us:.1} us"))),
        |p: &PortRates| p.latency_p99_us.unwrap_or(-1.0)
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_stays_and_nothing_is_wider_than_there_is_room() {
        for width in 1..200 {
            let chosen = fitting(PORTS, width);
            let used: u16 = chosen.iter().map(|index| PORTS[*index].width + GAP).sum();
            assert!(chosen.len() == 1 || used - GAP <= width, "{width}: {chosen:?}");
        }
        assert_eq!(fitting(WORKERS, 40), [0, 3, 4, 5]);
        assert_eq!(fitting(PORTS, 40), [0, 1, 2, 3]);
        assert_eq!(fitting(WORKERS, 200).len(), WORKERS.len());
        let fits = |heading: &str, width: u16| heading.len() <= usize::from(width);
        assert!(WORKERS.iter().all(|column| fits(column.heading, column.width)));
        assert!(PORTS.iter().all(|column| fits(column.heading, column.width)));
    }

    #[test]
    fn rows_are_sorted_by_numbers_as_numbers() {
        let worker =
            |worker, received_pps| WorkerRates { worker, received_pps, ..WorkerRates::default() };
        let rows = [worker(0, 9.0), worker(1, 1000.0), worker(2, 90.0), worker(3, 9.0)];
        let order = |descending| Order { column: 4, descending };
        let of = |order| -> Vec<usize> {
            sorted(&rows, WORKERS, order).iter().map(|row| row.worker).collect()
        };
        assert_eq!(of(order(false)), [0, 3, 2, 1]);
        assert_eq!(of(order(true)), [1, 2, 0, 3]);
    }

    #[test]
    fn rates_fit_their_columns() {
        for pps in [0.0, 9999.4, 1e4, 999_499.0, 999_600.0, 1e6, 9.999e6, 99.99e6, 148.8e6] {
            assert!(packets(pps).len() <= 9, "{}", packets(pps));
        }
        for bits in [0.0, 999.9, 999_999.0, 1e9, 999.9e9] {
            assert!(scaled(bits, "bit/s").len() <= 12, "{}", scaled(bits, "bit/s"));
        }
        assert_eq!([packets(20_000.0), packets(5.0)], ["20 kpps", "5 pps"]);
    }
}
