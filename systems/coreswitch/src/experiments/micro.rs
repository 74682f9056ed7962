//! Tables 3.4 to 3.7: a system call that does nothing but switch.

use ebb_report::{
    Claim, Column, Context, Experiment, ExperimentError, Findings, Note, Report, Table,
};

use super::micro_rows::{CLAIMS, ROWS};
use crate::{Configuration, costs};

/// The experiment.
pub(super) struct Tables;

impl Experiment for Tables {
    fn id(&self) -> &'static str {
        "strong2013.table3.4-7"
    }

    fn title(&self) -> &'static str {
        "What switching cores costs on cores of different size and clock"
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn run(&self, _context: &Context<'_>) -> Result<Findings, ExperimentError> {
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
            numbers.push((claim.id, ours));
        }
        let missed = "a round trip is the sum of one switch on each core, each at its own constant speed; \
                      the published cores miss each other's caches more or less than that";
        let note = Note::verdict("the sum of one switch on each of the two cores", missed);
        let report = Report::new(self.title()).table(table);
        let findings = Findings::new(report);
        Ok(numbers.into_iter().fold(findings, |all, (id, ours)| all.found(id, ours, note.clone())))
    }
}
