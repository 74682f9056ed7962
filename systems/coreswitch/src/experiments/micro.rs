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
    let mut table = Table::new("gettid with two switches", columns);
    let mut numbers = Vec::new();
    for (claim, &(name, mechanism, cache, cycles)) in CLAIMS.iter().zip(ROWS) {
        let machine = Configuration::parse(name).expect("a row's name").machine(cache);
        let ours = costs::round_trip_ns(mechanism, &machine.app[0], &machine.os[0], cycles);
        table.row([
            name.into(),
            mechanism.name().into(),
            format!("{cache:?}").into(),
            cycles.into(),
            ours.into(),
            claim.published.into(),
        ]);
        numbers.push((claim.id, ours, missed(name, mechanism)));
    }
    let report = Report::new(TABLES.title).table(table);
    let met = "the sum of one switch on each of the two cores";
    Ok(numbers.into_iter().fold(Findings::new(report), |all, (id, ours, missed)| {
        all.found(id, ours, Note::verdict(met, missed))
    }))
}

/// Why a row is missed, where it is.
fn missed(cores: &str, mechanism: Mechanism) -> &'static str {
    match (cores, mechanism) {
        (_, Mechanism::V1) => {
            "by Table 3.4 a simple core takes 2.9 times as long for V1 as a complex one, for V5 3.4 times, and the model \
             has one ratio, fitted to V5: V1 waits more and computes less"
        }
        ("CS", _) => {
            "the print has less for the mixed pair than half of what the two equal pairs take together: each core keeps \
             its part of the code in its caches, and the sum of two constant parts has no such gain"
        }
        _ => "a round trip is the sum of one switch on each core, each at its own constant speed",
    }
}
