use ebb_report::{Claim, Column, Context, Experiment, ExperimentError, Findings, Report, Table};

use super::{plans, problem, routing};
use crate::Normalise;

const SOURCE: &str = "Li 2012, Table 6.1";

/// Published with a precision below 5 % at 95 % confidence, from a flit-level simulator.
const CLAIMS: &[Claim] = &[
    Claim::predicted(
        "zhang2011.table6.1.nodvfs.0.8",
        SOURCE,
        "power without DVFS, load 0.8",
        0.806,
        "",
    )
    .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.nodvfs.0.6",
        SOURCE,
        "power without DVFS, load 0.6",
        0.602,
        "",
    )
    .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.nodvfs.0.4",
        SOURCE,
        "power without DVFS, load 0.4",
        0.412,
        "",
    )
    .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.nodvfs.0.2",
        SOURCE,
        "power without DVFS, load 0.2",
        0.201,
        "",
    )
    .percent(5.0),
    Claim::predicted("zhang2011.table6.1.dvfs.1.0", SOURCE, "power with DVFS, load 1", 1.0, "")
        .percent(5.0),
    Claim::predicted("zhang2011.table6.1.dvfs.0.8", SOURCE, "power with DVFS, load 0.8", 0.513, "")
        .percent(5.0),
    Claim::predicted("zhang2011.table6.1.dvfs.0.6", SOURCE, "power with DVFS, load 0.6", 0.215, "")
        .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.dvfs.0.4",
        SOURCE,
        "power with DVFS, load 0.4",
        0.0643,
        "",
    )
    .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.dvfs.0.2",
        SOURCE,
        "power with DVFS, load 0.2",
        0.0223,
        "",
    )
    .percent(5.0),
    Claim::predicted(
        "zhang2011.table6.1.ratio.0.8",
        SOURCE,
        "theoretical ratio, load 0.8",
        1.56,
        "",
    )
    .within(0.005),
    Claim::predicted(
        "zhang2011.table6.1.ratio.0.6",
        SOURCE,
        "theoretical ratio, load 0.6",
        2.78,
        "",
    )
    .within(0.005),
    Claim::predicted(
        "zhang2011.table6.1.ratio.0.4",
        SOURCE,
        "theoretical ratio, load 0.4",
        6.25,
        "",
    )
    .within(0.005),
    Claim::predicted(
        "zhang2011.table6.1.ratio.0.2",
        SOURCE,
        "theoretical ratio, load 0.2",
        9.0,
        "",
    )
    .within(0.005),
    Claim::predicted(
        "zhang2011.s6.6.load_max",
        "Li 2012, section 6.6",
        "sustainable load per node",
        5.2,
        "Mflit/s",
    )
    .within(0.05),
];

/// Table 6.1: XY with and without DVFS under hot-spot traffic, by the flow model.
pub(super) struct Table61;

impl Experiment for Table61 {
    fn id(&self) -> &'static str {
        "zhang2011.table6.1"
    }

    fn title(&self) -> &'static str {
        "XY routing with and without DVFS under hot-spot traffic"
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        let mut table = Table::new(
            "Power of XY, relative to load 1",
            [
                Column::number("load", "", 1),
                Column::number("no DVFS", "", 4),
                Column::number("DVFS", "", 4),
                Column::number("ratio", "", 3),
            ],
        );
        let mut found = Vec::new();
        let mut full = 0.0;
        let mut scale = 0.0;
        for load in ["1.0", "0.8", "0.6", "0.4", "0.2"] {
            let mut problem = problem("hotspot", load.parse().expect("a number"), Normalise::Xy, 1);
            (problem.routing, problem.bound) = ("xy".to_owned(), false);
            let plan = plans(&problem, context, 1)?.swap_remove(0);
            if load == "1.0" {
                (full, scale) = (plan.power_nodvfs, plan.scale);
            }
            let plain = plan.power_nodvfs / full;
            let part = routing(&plan, "xy").unwrap_or(f64::NAN);
            table.row([
                load.parse::<f64>().expect("a number").into(),
                plain.into(),
                (plain * part).into(),
                (1.0 / part).into(),
            ]);
            found.push((format!("zhang2011.table6.1.nodvfs.{load}"), plain));
            found.push((format!("zhang2011.table6.1.dvfs.{load}"), plain * part));
            found.push((format!("zhang2011.table6.1.ratio.{load}"), 1.0 / part));
        }
        let mut findings = Findings::new(Report::new(self.title()).table(table));
        for (claim, ours) in found {
            if CLAIMS.iter().any(|known| known.id == claim) {
                findings = findings.found(&claim, ours, "flow model");
            }
        }
        // A link of 1 Gbit/s carries 31.25 Mflit/s of 32 bits.
        let note = "31.25 Mflit/s over 6.5, the tiles' worth of traffic on the fullest link: 10 tiles x \
                    0.6 to the centre, their 0.4/24 to it, and what passes it. The published value is \
                    31.25/6.0, which counts the hot-spot share alone.";
        Ok(findings.found("zhang2011.s6.6.load_max", 31.25 * scale, note))
    }
}
