//! Tables 3.4 to 3.7: a system call that does nothing but switch.

use ebb_report::{Column, Context, ExperimentError, Figure, Findings, Note, Report, Table};

use super::micro_rows::{CLAIMS, ROWS};
use crate::{Configuration, Mechanism, costs};

/// The experiment.
pub(super) static TABLES: Figure = Figure {
    id: "strong2013.table3.4-7",
    title: "What switching cores costs on cores of different size and clock",
    claims: CLAIMS,
    run: tables,
};

fn tables(_context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::text("cores"),
        Column::text("mechanism"),
        Column::text("simple cores' caches"),
        Column::number("wakes in", "cycles", 0),
        Column::number("ours", "ns", 0),
        Column::number("published", "ns", 0),
    ];
    let mut table = Table::new(
        "gettid with two switches; of cores that take cycles to wake, what that adds",
        columns,
    );
    let mut numbers = Vec::new();
    for (claim, &(name, mechanism, cache, cycles)) in CLAIMS.iter().zip(ROWS) {
        let machine = Configuration::parse(name).expect("a row's name").machine(cache);
        let trip =
            |cycles| costs::round_trip_ns(mechanism, &machine.app[0], &machine.os[0], cycles);
        let ours = if cycles > 0.0 { trip(cycles) - trip(0.0) } else { trip(0.0) };
        table.row([
            name.into(),
            mechanism.name().into(),
            format!("{cache:?}").into(),
            cycles.into(),
            ours.into(),
            claim.published.into(),
        ]);
        let met = if cycles > 0.0 { WAKING } else { SUM };
        numbers.push((claim.id, ours, met, missed(name, mechanism, cycles)));
    }
    let report = Report::new(TABLES.title).table(table);
    Ok(numbers.into_iter().fold(Findings::new(report), |all, (id, ours, met, missed)| {
        all.found(id, ours, Note::verdict(met, missed))
    }))
}

const SUM: &str = "the sum of one switch on each of the two cores";
const WAKING: &str =
    "both cores of a round trip sleep and wake, unless the wake-up is early enough";

/// Why a row is missed, where it is.
fn missed(cores: &str, mechanism: Mechanism, cycles: f64) -> &'static str {
    match (cores, mechanism) {
        (_, Mechanism::V5) if cycles > 0.0 => {
            "an interrupt where the early wake-up is too late, at what it takes in V3 over V4"
        }
        _ if cycles > 0.0 => {
            "two wake-ups by arithmetic; in the print what waking adds varies from -221 to 1,687 ns for the same 1,000 \
             cycles, as the work that runs meanwhile changes"
        }
        (_, Mechanism::V1) => {
            "by Table 3.4 a simple core takes 2.9 times as long for V1 as a complex one, for V5 3.4 times, and the model \
             has one ratio, fitted to V5: V1 waits more and computes less"
        }
        _ => "a round trip is the sum of one switch on each core, each at its own constant speed",
    }
}
