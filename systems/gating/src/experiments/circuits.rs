//! The circuits (Strong, tables 2.1 to 2.3 and equation 2.1).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};

use crate::circuit::Chip;
use crate::machine::CoreSettings;
use crate::power::Island;

const TABLE_1: &str = "Strong 2013, Table 2.1";
const TABLE_3: &str = "Strong 2013, Table 2.3";
const TEXT_24: &str = "Strong 2013, section 2.2.4";
const TEXT_55: &str = "Strong 2013, section 2.5.5";
const TEXT_3: &str = "Strong 2013, section 2.3";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.breakeven", TABLE_3]
    implied "ev6" "break-even, EV6", 17.17, "ns", within(0.005);
    implied "io" "break-even, in order", 8.53, "ns", within(0.005);
    ["strong2013.refill", TABLE_3]
    implied "ev6" "seven stages at 3.3 GHz", 2.12, "ns", within(0.005);
    ["strong2013.refill", "Strong 2013, section 2.3.6"]
    implied "text" "clock, reset, restore and seven stages at 3.3 GHz", 3.03, "ns", within(0.005);
    ["strong2013.refill", TABLE_3]
    implied "io" "four stages at 2 GHz", 2.0, "ns", within(0.005);
    ["strong2013.charge", TABLE_1]
    implied "32hp" "T_min-charge = Q / I_limit, 32 nm HP", 5.08, "ns", within(0.02);
    implied "32lop" "T_min-charge = Q / I_limit, 32 nm LOP", 7.36, "ns", within(0.02);
    implied "22hp" "T_min-charge = Q / I_limit, 22 nm HP", 6.40, "ns", within(0.02);
    implied "22lop" "T_min-charge = Q / I_limit, 22 nm LOP", 6.55, "ns", within(0.02);
    ["strong2013.total", TABLE_1]
    implied "22hp" "total charge = C V, 22 nm HP", 4.26, "nC", within(0.01);
    ["strong2013.reduction", TABLE_1]
    implied "32hp" "leakage saved by gating, 32 nm HP", 97.74, "%", within(0.02);
    implied "32lop" "leakage saved by gating, 32 nm LOP", 98.29, "%", within(0.02);
    implied "22hp" "leakage saved by gating, 22 nm HP", 97.71, "%", within(0.02);
    implied "22lop" "leakage saved by gating, 22 nm LOP", 98.12, "%", within(0.02);
    ["strong2013", TEXT_55]
    implied "worst" "slowest safe wake-up, 16 cores, none idle", 18.4, "ns", within(1.4);
    implied "least" "fastest safe wake-up, 16 cores, none idle", 9.7, "ns", within(1.4);
    implied "worst14" "slowest safe wake-up, 16 cores, 14 idle", 9.1, "ns", within(1.4);
    implied "least14" "fastest safe wake-up, 16 cores, 14 idle", 4.5, "ns", within(1.4);
    calibrated "staggered" "slowest safe wake-up at 0.9 ns of stagger", 10.7, "ns", within(0.05);
    implied "staggeredleast" "fastest safe wake-up at 0.9 ns of stagger", 8.6, "ns", within(1.4);
    ["strong2013", TEXT_24]
    predicted "stagger2" "shorter by stagger, two cores", 18.8, "%", within(3.0);
    predicted "stagger3" "shorter by stagger, three cores", 31.9, "%", within(3.0);
    predicted "stagger4" "shorter by stagger, four cores", 40.3, "%", within(3.0);
    ["strong2013", TEXT_55]
    implied "reduced" "reduction from 18.4 to 10.7 ns", 58.2, "%", within(0.1);
    ["strong2013", TEXT_3]
    implied "slots" "mean wait for a slot, five of 0.9 ns", 2.25, "ns", within(0.005);
    implied "register" "reach of 15 bits of 100 ps", 3.28, "us", within(0.005);
    implied "token" "valid bit, address and register of a token", 80.0, "bits";
};

/// Tables 2.1 to 2.3 held against each other, and equation 2.1.
pub(super) static CIRCUITS: Figure = Figure {
    id: "strong2013.circuits",
    title: "Circuits: wake-up times, break-even, and where the tables contradict each other",
    claims: CLAIMS,
    run: circuits,
};

fn circuits(_context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let chip = Chip::new(16);
    let ((worst, least), (worst14, least14)) = (chip.range_ns(0), chip.range_ns(14));
    let staggered = chip.staggered();
    let shorter = |count: usize| {
        let waking: Vec<usize> = [6, 9, 4, 1].into_iter().take(count).collect();
        100.0 * (1.0 - staggered.required_ns(5, &waking) / chip.required_ns(5, &waking))
    };
    let break_even = |core: &CoreSettings| Island::core(core).break_even_ns();
    let reduction = |off: f64, on: f64| 100.0 * (1.0 - off / on);
    let columns = [
        Column::count("idle"),
        Column::number("fastest", "ns", 2),
        Column::number("slowest", "ns", 2),
        Column::number("slowest, staggered", "ns", 2),
    ];
    let mut table = Table::new("Safe wake-up times of 16 cores (Figure 2.18)", columns);
    for idle in (0..=14).step_by(2) {
        let (slow, fast) = chip.range_ns(idle);
        let late = staggered.range_ns(idle).0;
        table.row([(idle as u64).into(), fast.into(), slow.into(), late.into()]);
    }
    let charge = "the charge of the table over its limit; the printed time does not follow from the two rows above it";
    let leak = "from the table's own watts";
    let eq = "the printed equation 2.1 with the printed Table 2.2; its error there is up to 1.4 ns";
    let edge = "equation 2.1 does not give it: the fastest case is that of a far core, and the figure's configurations are not printed";
    let found = Findings::new(Report::new(CIRCUITS.title).table(table))
        .found("strong2013.breakeven.ev6", break_even(&CoreSettings::ev6()), "computed from Table 2.3")
        .found("strong2013.breakeven.io", break_even(&CoreSettings::in_order()), "Table 2.3 gives 4,020 pJ / (97.74 % of 0.486 W) = 8.46 ns; the printed 8.53 does not follow")
        .found("strong2013.refill.ev6", 7.0 / 3.3, "arithmetic")
        .found("strong2013.refill.text", 10.0 / 3.3, "arithmetic: ten cycles; Table 2.3 has seven (2.12 ns), which is what we use")
        .found("strong2013.refill.io", 4.0 / 2.0, "arithmetic");
    let found = found
        .found("strong2013.charge.32hp", 7.53 / 1.298, charge)
        .found("strong2013.charge.32lop", 5.76 / 0.674, charge)
        .found("strong2013.charge.22hp", 4.26 / 0.701, charge)
        .found("strong2013.charge.22lop", 3.30 / 0.632, charge)
        .found("strong2013.total.22hp", 4.58 * 1.0, "4.58 nF at 1 V are 4.58 nC; the table prints 4.26 (and 3.30 for 3.53 in the column beside it)")
        .found("strong2013.reduction.32hp", reduction(8.03e-3, 0.355), leak)
        .found("strong2013.reduction.32lop", reduction(7.14e-4, 0.042), leak)
        .found("strong2013.reduction.22hp", reduction(3.37e-3, 0.147), leak)
        .found("strong2013.reduction.22lop", reduction(3.59e-4, 0.019), leak);
    Ok(found
        .found("strong2013.worst", worst, eq)
        .found("strong2013.least", least, edge)
        .found("strong2013.worst14", worst14, eq)
        .found("strong2013.least14", least14, edge)
        .found("strong2013.staggered", staggered.range_ns(0).0, "alpha fitted to it")
        .found("strong2013.staggeredleast", staggered.range_ns(0).1, edge)
        .found("strong2013.stagger2", shorter(2), "alpha fitted to the worst case alone")
        .found("strong2013.stagger3", shorter(3), "alpha fitted to the worst case alone")
        .found(
            "strong2013.stagger4",
            shorter(4),
            "one exponent for all: the figure's curves flatten faster from four cores on",
        )
        .found(
            "strong2013.reduced",
            reduction(10.7, 18.4),
            "58.2 % is what remains of 18.4 ns, not what goes",
        )
        .found("strong2013.slots", 5.0 * 0.9 / 2.0, "eta psi / 2")
        .found("strong2013.register", f64::from(1 << 15) * 100e-6, "arithmetic")
        .found("strong2013.token", f64::from(1 + 64 + 15), "arithmetic"))
}
