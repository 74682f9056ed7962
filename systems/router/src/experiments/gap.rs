//! How far each policy is from somebody who knew the load.

use ebb_report::{Column, Context, ExperimentError, Figure, Findings, Report, Table};
use ebb_scenario::{Document, Files, MemoryFiles};

use crate::plan::Comparison;

/// Every policy against the offline optimum on measured loads.
pub(super) static GAP: Figure = Figure {
    id: "router.optimum",
    title: "Policies and the offline optimum on measured loads",
    claims: &[],
    run,
};

/// Loads in steps of five minutes over many weeks, and the column of values.
const TRACES: [(&str, &str); 2] = [
    ("traffic/uk_backbone_5min.csv", "relative_volume"),
    ("traffic/eu_isp_5min.csv", "bits_per_5min"),
];

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::text("load"),
        Column::text("policy"),
        Column::number("mean power", "W", 2),
        Column::number("above optimum", "%", 2),
        Column::number("saved against polling", "%", 1),
        Column::number("changes", "per simulated second", 1),
        Column::count("lost"),
    ];
    let mut table = Table::new("35 % mean load, 64-byte packets", columns);
    let mut report = Report::new(GAP.title);
    for (name, files, text) in loads(context) {
        let document = Document::parse("gap.toml", &text).map_err(ExperimentError::from_error)?;
        let comparison = Comparison::new(&document, &files, context.seed, context.progress)
            .map_err(ExperimentError::from_error)?;
        let optimum = comparison.optimum_watts().0;
        let poll = comparison.run("poll").map_or(f64::NAN, |run| run.power.0);
        for (policy, run) in &comparison.runs {
            let gap = comparison.gap_percent(run.power);
            report = report.figure(format!("gap_percent.{name}.{policy}"), gap);
            table.row([
                name.into(),
                policy.as_str().into(),
                run.power.0.into(),
                gap.into(),
                (100.0 * (1.0 - run.power.0 / poll)).into(),
                (run.changes as f64 / run.span_s).into(),
                run.counts.lost.into(),
            ]);
        }
        report = report.figure(format!("optimum_w.{name}"), optimum);
        let saved = 100.0 * (1.0 - optimum / poll);
        let missing = ebb_report::Cell::Missing;
        table.row([
            name.into(),
            "optimum".into(),
            optimum.into(),
            0.0.into(),
            saved.into(),
            missing.clone(),
            missing,
        ]);
    }
    let text = "The optimum is exact on the rows of each load: dynamic programming over cores and \
                frequency with the energy of waking and retuning. It knows every row beforehand, \
                keeps no headroom and draws what the formula says; the policies ran in the twin. \
                A week passes in 1,000 s, which makes changes dearer for everybody, and holding \
                times of seconds last for rows of the load.";
    Ok(Findings::new(report.text(text).table(table)))
}

static NONE: std::sync::LazyLock<MemoryFiles> = std::sync::LazyLock::new(MemoryFiles::new);

/// Rows of a week.
const WEEK: usize = 7 * 288;

/// The first week of each trace where they are at hand, else the mean weekday of each network.
fn loads(context: &Context<'_>) -> Vec<(&'static str, MemoryFiles, String)> {
    let files: &dyn Files = context.data.unwrap_or(&*NONE);
    let simulated = if context.quick { 0.5 } else { 1000.0 };
    let entry = |(network, (file, value)): (&'static str, (&str, &str))| {
        let week = files.read(file).ok().map(|bytes| first_rows(&bytes, WEEK));
        let traffic = if week.is_some() {
            format!("trace = {{ file = \"{file}\", value = \"{value}\", unit = \"relative\" }}")
        } else {
            format!("profile = \"{network}\"")
        };
        let text =
            format!("load = 0.35\nsimulated_s = {simulated}\nrows = 1\n[traffic]\n{traffic}\n");
        (network, MemoryFiles::new().with(file, week.unwrap_or_default()), text)
    };
    ["uk", "eu"].into_iter().zip(TRACES).map(entry).collect()
}

/// The header and the first rows of a CSV file.
fn first_rows(bytes: &[u8], rows: usize) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').take(rows + 1).collect();
    lines.concat()
}
