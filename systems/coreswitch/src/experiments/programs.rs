//! Tables 3.8, 3.10, 3.11, 3.14 and 3.15: whole programs on every configuration, by the simulator.

use ebb_des::Seed;
use ebb_report::{
    Claim, Column, Context, Experiment, ExperimentError, Findings, Note, Report, Table,
};

use super::{database_rows, stream_rows, web_rows};
use crate::simulation::{Costs, Outcome, Run, Way};
use crate::{Cache, Configuration, Workload, named};

/// Program, configuration, where its calls run, caches of simple cores, threads.
pub(super) type Row = (&'static str, &'static str, Way, Cache, usize);

/// A group of tables.
pub(super) struct Programs {
    id: &'static str,
    title: &'static str,
    claims: &'static [Claim],
    rows: &'static [Row],
    /// What the tables count in: rate per second times this.
    window_s: f64,
    missed: &'static str,
}

/// Each group.
pub(super) static ALL: [Programs; 3] = [
    Programs {
        id: "strong2013.table3.8-10",
        title: "A web server whose system calls run on another core",
        claims: web_rows::CLAIMS,
        rows: web_rows::ROWS,
        window_s: 0.133,
        missed: "the mix is one mean cycle of one process: what the rows show beyond it (retransmissions, V1's \
                 migration thread in the way of other processes, two system cores that serve no more than \
                 one) is not in the model",
    },
    Programs {
        id: "strong2013.table3.11",
        title: "A database whose fdatasync runs on another core",
        claims: database_rows::CLAIMS,
        rows: database_rows::ROWS,
        window_s: 1.0,
        missed: "one fdatasync per transaction at its mean cost; the outliers of V1 to V3 on equal cores are not \
                 explained by the source either",
    },
    Programs {
        id: "strong2013.table3.14-15",
        title: "Network streams whose socket calls run on another core",
        claims: stream_rows::CLAIMS,
        rows: stream_rows::ROWS,
        window_s: 0.167,
        missed: "of the outgoing stream: interrupts and system time wait for each other more on slow cores than one \
                 after the other; of the incoming one: Table 3.3 says that a complex core is 84 % busy with it, \
                 Table 3.15 that a simple one, 3.4 times slower, takes nearly as much: both cannot hold",
    },
];

/// Runs one row.
pub(super) fn simulate(
    (program, configuration, way, cache, threads): Row,
    context: &Context<'_>,
) -> (Workload, Outcome) {
    let workload = named(program).expect("a published program");
    let machine = Configuration::parse(configuration).expect("a row's name").machine(cache);
    let costs = Costs::Published { wake_cycles: 0.0 };
    let cycles = if context.quick { 300 } else { 20_000 };
    let run = Run {
        machine: &machine,
        way,
        workload: &workload,
        phases: &[],
        drawn: false,
        costs,
        threads,
        cycles,
    };
    let outcome = run.carry_out(Seed(context.seed), &mut |_| !context.progress.stopped());
    (workload, outcome)
}

impl Experiment for Programs {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn claims(&self) -> &'static [Claim] {
        self.claims
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        let columns = [
            Column::text("program and machine"),
            Column::number("ours", "", 0),
            Column::number("published", "", 0),
            Column::number("program's core busy", "%", 1),
            Column::number("system's core busy", "%", 1),
        ];
        let mut table = Table::new(self.title, columns);
        let mut numbers = Vec::new();
        for (claim, &row) in self.claims.iter().zip(self.rows) {
            let (workload, outcome) = simulate(row, context);
            let ours = outcome.rate(&workload) * self.window_s;
            let busy = |cores: &[f64]| {
                100.0 * cores.iter().sum::<f64>() / (cores.len().max(1) as f64 * outcome.seconds)
            };
            table.row([
                claim.quantity.into(),
                ours.into(),
                claim.published.into(),
                busy(&outcome.app_busy).into(),
                busy(&outcome.os_busy).into(),
            ]);
            numbers.push((claim.id, ours));
        }
        let note = Note::verdict("by the simulator, from the mix on one complex core", self.missed);
        let findings = Findings::new(Report::new(self.title).table(table));
        Ok(numbers.into_iter().fold(findings, |all, (id, ours)| all.found(id, ours, note.clone())))
    }
}
