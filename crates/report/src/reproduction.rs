use serde::Serialize;

use crate::{
    Cell, ClaimBasis, Column, Context, Experiment, ExperimentError, Findings, Report, Table,
};

/// Published numbers beside ours, experiment by experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reproduction {
    parts: Vec<Part>,
    failed: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    title: String,
    report: Report,
    rows: Vec<Row>,
}

/// One claim with what became of it; in JSON exactly these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The claim's.
    pub id: &'static str,
    /// Document and section.
    pub source: &'static str,
    /// What was published.
    pub quantity: &'static str,
    /// The published value.
    pub published: f64,
    /// Of both values and the tolerance.
    pub unit: &'static str,
    /// Our value; absent where there is none.
    pub ours: Option<f64>,
    /// How far ours may be off.
    pub tolerance: f64,
    /// Whether our model was fitted to the value.
    pub basis: ClaimBasis,
    /// Whether it came out.
    pub verdict: Verdict,
    /// What there is to say; for a missed claim the reason.
    pub note: String,
}

/// Whether a published number came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the tolerance.
    Met,
    /// Not.
    Missed,
}

impl Verdict {
    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
        }
    }
}

impl Reproduction {
    /// Before any experiment.
    pub fn new() -> Reproduction {
        Reproduction::default()
    }

    /// Runs an experiment and adds what it found, or that it failed.
    pub fn run(&mut self, experiment: &dyn Experiment, context: &Context<'_>) {
        self.add(experiment, experiment.run(context));
    }

    /// Adds what an experiment found, or that it failed.
    ///
    /// # Panics
    /// When a number belongs to no claim of the experiment: the two lists are in one file.
    pub fn add(&mut self, experiment: &dyn Experiment, outcome: Result<Findings, ExperimentError>) {
        let findings = match outcome {
            Ok(findings) => findings,
            Err(error) => return self.failed.push((experiment.id().to_owned(), error.to_string())),
        };
        for found in &findings.found {
            let known = experiment.claims().iter().any(|claim| claim.id == found.claim);
            assert!(known, "`{}` is no claim of {}", found.claim, experiment.id());
        }
        let rows = experiment.claims().iter().map(|claim| {
            let found = findings.found.iter().find(|found| found.claim == claim.id);
            let ours = found.and_then(|found| found.ours);
            let met = ours.is_some_and(|ours| claim.met(ours));
            let nothing = "the experiment gives no number for it";
            Row {
                id: claim.id,
                source: claim.source,
                quantity: claim.quantity,
                published: claim.published,
                unit: claim.unit,
                ours,
                tolerance: claim.tolerance,
                basis: claim.basis,
                verdict: if met { Verdict::Met } else { Verdict::Missed },
                note: found.map_or(nothing, |found| found.note.as_str()).to_owned(),
            }
        });
        let rows = rows.collect();
        let title = format!("{}: {}", experiment.id(), experiment.title());
        self.parts.push(Part { title, report: findings.report, rows });
    }

    /// All claims, in the order of the experiments.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.parts.iter().flat_map(|part| &part.rows)
    }

    /// Experiments that could not be run, and why.
    pub fn failed(&self) -> &[(String, String)] {
        &self.failed
    }

    /// A list of all claims as JSON.
    pub fn to_json(&self) -> String {
        let rows: Vec<&Row> = self.rows().collect();
        serde_json::to_string_pretty(&rows).expect("plain data") + "\n"
    }

    /// How many of how many came out, predictions and calibrations apart.
    pub fn summary(&self) -> String {
        let count = |basis: ClaimBasis| {
            let of: Vec<&Row> = self.rows().filter(|row| row.basis == basis).collect();
            let met = of.iter().filter(|row| row.verdict == Verdict::Met).count();
            format!("{met} of {} {}", of.len(), basis.name())
        };
        let failed = match self.failed.len() {
            0 => String::new(),
            count => format!("; {count} experiments failed"),
        };
        let (predicted, calibrated) = (count(ClaimBasis::Predicted), count(ClaimBasis::Calibrated));
        format!("met: {predicted}, {calibrated}{failed}")
    }

    /// Everything as one report: the summary, then each experiment with its claims and plots.
    /// `brief` leaves out the experiments' own tables and plots, as a terminal wants it.
    pub fn report(&self, brief: bool) -> Report {
        let mut report = Report::new("Published numbers and ours").text(self.summary());
        for part in &self.parts {
            report = report.heading(part.title.clone());
            for basis in [ClaimBasis::Calibrated, ClaimBasis::Predicted] {
                let rows: Vec<&Row> = part.rows.iter().filter(|row| row.basis == basis).collect();
                if !rows.is_empty() {
                    report = report.table(table(basis, &rows));
                }
            }
            if !brief {
                report.sections.extend(part.report.sections.iter().cloned());
            }
        }
        for (id, error) in &self.failed {
            report = report.heading(id.clone()).text(format!("could not be run: {error}"));
        }
        report
    }
}

/// Calibrated and predicted numbers never share a table.
fn table(basis: ClaimBasis, rows: &[&Row]) -> Table {
    let columns = [
        Column::text("quantity"),
        Column::text("published"),
        Column::text("ours"),
        Column::text("unit"),
        Column::text("verdict"),
        Column::text("note"),
        Column::text("source"),
    ];
    let mut table = Table::new(basis.name(), columns);
    for row in rows {
        let published = format!("{} ± {}", short(row.published), short(row.tolerance));
        let cells: [Cell; 7] = [
            row.quantity.into(),
            published.into(),
            row.ours.map_or_else(|| "–".to_owned(), short).into(),
            row.unit.into(),
            row.verdict.name().into(),
            row.note.as_str().into(),
            row.source.into(),
        ];
        table.row(cells);
    }
    table
}

/// Four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 9) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Claim;
    use ebb_scenario::Silent;

    struct Constant(f64);

    const CLAIMS: &[Claim] = &[
        Claim::calibrated("p.a", "P 2012, section 1", "a", 10.0, "W").percent(10.0),
        Claim::predicted("p.b", "P 2012, section 2", "b", 2.0, ""),
        Claim::predicted("p.c", "P 2012, section 3", "c", 1.0, "s"),
    ];

    impl Experiment for Constant {
        fn id(&self) -> &'static str {
            "p"
        }

        fn title(&self) -> &'static str {
            "a constant"
        }

        fn claims(&self) -> &'static [Claim] {
            CLAIMS
        }

        fn run(&self, _context: &Context<'_>) -> Result<Findings, ExperimentError> {
            if self.0 < 0.0 {
                return Err(ExperimentError("negative".to_owned()));
            }
            let findings = Findings::new(Report::new("P").text("how"));
            Ok(findings.found("p.a", self.0, "").found("p.b", self.0, "too large"))
        }
    }

    fn reproduced(values: &[f64]) -> Reproduction {
        let (seed, jobs, quick, data) = (1, 1, true, None);
        let context = Context { seed, jobs, quick, data, progress: &Silent };
        let mut reproduction = Reproduction::new();
        values.iter().for_each(|&value| reproduction.run(&Constant(value), &context));
        reproduction
    }

    #[test]
    fn no_miss_is_hidden() {
        let reproduction = reproduced(&[10.5]);
        let verdicts: Vec<Verdict> = reproduction.rows().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::Missed]);
        assert_eq!(reproduction.summary(), "met: 0 of 2 predicted, 1 of 1 calibrated");
        let text = reproduction.report(true).to_terminal(&crate::Terminal::plain());
        assert!(text.contains("too large") && text.contains("gives no number"), "{text}");
    }

    #[test]
    fn json_is_a_list_with_exactly_these_fields() {
        let json = reproduced(&[10.5]).to_json();
        let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let first = rows[0].as_object().expect("an object");
        let mut fields: Vec<&str> = first.keys().map(String::as_str).collect();
        let mut expected = "id source quantity published unit ours tolerance basis verdict note"
            .split(' ')
            .collect::<Vec<_>>();
        fields.sort_unstable();
        expected.sort_unstable();
        assert_eq!(fields, expected);
        assert_eq!((&first["basis"], &first["verdict"]), (&"calibrated".into(), &"met".into()));
        assert_eq!(
            (&rows[2]["ours"], &first["tolerance"]),
            (&serde_json::Value::Null, &1.0.into())
        );
    }

    #[test]
    fn what_fails_is_named() {
        let reproduction = reproduced(&[-1.0]);
        assert_eq!(reproduction.failed(), [("p".to_owned(), "negative".to_owned())]);
        assert!(reproduction.summary().ends_with("; 1 experiments failed"));
    }

    #[test]
    fn four_digits_are_enough() {
        for (value, text) in [
            (0.0, "0"),
            (115.0, "115"),
            (12.346_7, "12.35"),
            (0.000_512_34, "0.0005123"),
            (29e6, "29000000"),
            (-1.0, "-1"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
