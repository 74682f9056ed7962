//! Tables 3.4a and 3.12: the two-core Xeon beside the model of two complex cores.

use ebb_report::{Claim, Context, ExperimentError, Figure, Findings, Note, Report, claims};

use crate::{Configuration, Mechanism, costs};

const SOURCE: &str = "Strong 2013, Table 3.4a";
const CLAIMS: &[Claim] = &claims! {
    ["strong2013.table3.4a", SOURCE]
    predicted "v1" "gettid on the Xeon, V1, least", 4094.0, "ns", percent(20.0);
    predicted "v2" "gettid on the Xeon, V2, least", 3355.0, "ns", percent(20.0);
    predicted "v3" "gettid on the Xeon, V3 polling, least", 2870.0, "ns", percent(20.0);
    ["strong2013.s3.4", "Strong 2013, section 3.4.2"]
    implied "excess" "least excess per switch, V4 on sim_CC", 933.0, "ns", within(1.0);
    predicted "excess.cs" "excess per switch, V4 on sim_Cs", 3332.0, "ns", percent(10.0);
    ["strong2013.s3", "Strong 2013, section 3 (contributions)"]
    implied "faster" "V1 over the fastest mechanism, the most of all configurations",
        2.5, "", within(0.15);
    ["strong2013.table3.12", "Strong 2013, Table 3.12"]
    predicted "v1" "slowdown of ex_tpcb by V1 on the Xeon",
        100.0 * (21532.0 / 21462.0 - 1.0), "%", within(1.0);
    predicted "v3" "slowdown of ex_tpcb by V3 on the Xeon",
        100.0 * (21532.0 / 21491.0 - 1.0), "%", within(1.0);
};

/// The experiment.
pub(super) static TABLES: Figure = Figure {
    id: "strong2013.xeon",
    title: "A two-core Xeon beside the model of two complex cores",
    claims: CLAIMS,
    run: tables,
};

fn tables(_context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let trip = |name: &str, mechanism| {
        let machine = Configuration::parse(name).expect("a row's name").machine(Default::default());
        costs::round_trip_ns(mechanism, &machine.app[0], &machine.os[0], 0.0)
    };
    let excess = |name, mechanism| (trip(name, mechanism) - costs::GETTID_NS) / 2.0;
    let faster = ["CC", "SS", "CS", "Cs"]
        .map(|name| trip(name, Mechanism::V1) / trip(name, Mechanism::V4))
        .into_iter()
        .fold(f64::MIN, f64::max);
    // One fdatasync, and so one round trip, of a transaction of 1/21532 s.
    let slowdown = |mechanism| 2.0 * excess("CC", mechanism) / (1e9 / 21_532.0) * 100.0;
    let xeon = Note::verdict(
        "the model of two Alpha cores at the same clock, with no number of the Xeon in it",
        "another instruction set and another way of polling: the model is of two Alpha cores",
    );
    let impact = "one round trip per transaction in series; on the Xeon nothing of it shows, though its own \
                  round trip is a tenth of a transaction: there the call overlaps with something that \
                  the source does not name";
    Ok(Findings::new(Report::new(TABLES.title))
        .found("strong2013.table3.4a.v1", trip("CC", Mechanism::V1), xeon.clone())
        .found("strong2013.table3.4a.v2", trip("CC", Mechanism::V2), xeon.clone())
        .found("strong2013.table3.4a.v3", trip("CC", Mechanism::V4), xeon)
        .found(
            "strong2013.s3.4.excess",
            excess("CC", Mechanism::V4),
            "half of what Table 3.4b says",
        )
        .found("strong2013.s3.4.excess.cs", excess("Cs", Mechanism::V4), "as in Table 3.4b")
        .found(
            "strong2013.s3.faster",
            faster,
            "on sim_CC, V4: both times were fitted, and other cores change both alike",
        )
        .found("strong2013.table3.12.v1", slowdown(Mechanism::V1), impact)
        .found("strong2013.table3.12.v3", slowdown(Mechanism::V3), impact))
}
