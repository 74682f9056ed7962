//! Published numbers beside ours.

use crate::claim::short;
use crate::row::{Row, Verdict};
use crate::{
    Cell, ClaimBasis, ClaimKind, Column, Context, Experiment, ExperimentError, Findings, Ours,
    Report, Table,
};

/// Published numbers beside ours, experiment by experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reproduction {
    parts: Vec<Part>,
    failed: Vec<(String, String)>,
    quick: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    title: String,
    report: Report,
    rows: Vec<Row>,
}

impl Reproduction {
    /// Before any experiment.
    pub fn new() -> Reproduction {
        Reproduction::default()
    }

    /// Before experiments that are shorter than their numbers need, which everything then says.
    pub fn quick(quick: bool) -> Reproduction {
        Reproduction { quick, ..Reproduction::default() }
    }

    /// Runs an experiment and adds what it found, or that it failed.
    pub fn run(&mut self, experiment: &dyn Experiment, context: &Context<'_>) {
        self.quick = context.quick;
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
            assert!(known, "`{}` is not a claim of {}", found.claim, experiment.id());
        }
        let rows = experiment.claims().iter().map(|claim| {
            let found = findings.found.iter().find(|found| found.claim == claim.id);
            Row::new(claim, found, self.quick)
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

    /// How many of how many came out: predictions, what they imply and calibrations apart, and words
    /// that are read as numbers apart from numbers.
    pub fn summary(&self) -> String {
        let count = |kind: ClaimKind, basis: ClaimBasis| {
            let of = |verdict: Verdict| {
                let rows = self.rows().filter(move |row| row.basis == basis && row.kind == kind);
                rows.filter(|row| row.verdict == verdict).count()
            };
            let met = of(Verdict::Met);
            let all = met + of(Verdict::Missed);
            (all > 0).then(|| format!("{met} of {all} {}", basis.name()))
        };
        let counts = |kind: ClaimKind| {
            let strongest = ClaimBasis::ALL.into_iter().rev();
            strongest.filter_map(|basis| count(kind, basis)).collect::<Vec<_>>().join(", ")
        };
        let mut parts = Vec::new();
        for (kind, name) in [(ClaimKind::Literal, "met"), (ClaimKind::Reading, "readings met")] {
            let counts = counts(kind);
            if !counts.is_empty() {
                parts.push(format!("{name}: {counts}"));
            }
        }
        match self.rows().filter(|row| row.verdict == Verdict::NotRun).count() {
            0 => {}
            count => parts.push(format!("{count} not run")),
        }
        match self.failed.len() {
            0 => {}
            1 => parts.push("1 experiment failed".to_owned()),
            count => parts.push(format!("{count} experiments failed")),
        }
        let quick = if self.quick { "QUICK (the numbers mean little) \u{b7} " } else { "" };
        format!("{quick}{}", parts.join("; "))
    }

    /// Everything as one report: the summary, then each experiment with its claims and plots.
    /// `brief` leaves out the experiments' own tables and plots, as a terminal wants it.
    pub fn report(&self, brief: bool) -> Report {
        let mut report = Report::new("Published numbers and ours").text(self.summary());
        if self.quick {
            report = report.text(
                "These are short runs to check that everything works. Their numbers and verdicts \
                are not results.",
            );
        }
        for part in &self.parts {
            report = report.heading(part.title.clone());
            for kind in [ClaimKind::Literal, ClaimKind::Reading] {
                for basis in ClaimBasis::ALL {
                    let of = |row: &&Row| row.basis == basis && row.kind == kind;
                    let rows: Vec<&Row> = part.rows.iter().filter(of).collect();
                    if !rows.is_empty() {
                        report = report.table(table(kind, basis, &rows));
                    }
                }
            }
            if !brief {
                report.sections.extend(part.report.sections.iter().cloned());
            }
        }
        for (id, error) in &self.failed {
            report = report.heading(id.clone()).text(format!("failed: {error}"));
        }
        report
    }
}

/// Numbers of different bases never share a table, nor do numbers and words.
fn table(kind: ClaimKind, basis: ClaimBasis, rows: &[&Row]) -> Table {
    let columns = [
        Column::text("quantity"),
        Column::text("published"),
        Column::text("held to").aside(),
        Column::text("ours"),
        Column::text("unit"),
        Column::text("verdict"),
        Column::text("note").aside(),
        Column::text("source").aside(),
    ];
    let of = match kind {
        ClaimKind::Literal => "",
        ClaimKind::Reading => ", words read as numbers",
    };
    let mut table = Table::new(format!("{}{of}", basis.name()), columns);
    for row in rows {
        let [quantity, printed, held_to] = &row.shown;
        let ours = row.ours.map(|mean| {
            let (half_width_95, seeds) = (row.half_width_95, row.seeds);
            shown(Ours { mean, half_width_95, seeds })
        });
        let cells: [Cell; 8] = [
            quantity.as_str().into(),
            printed.as_str().into(),
            held_to.as_str().into(),
            ours.unwrap_or_else(|| "–".to_owned()).into(),
            row.unit.into(),
            row.verdict.name().into(),
            row.note.as_str().into(),
            row.source.into(),
        ];
        table.row(cells);
    }
    table
}

/// A number of ours with its interval.
fn shown(ours: Ours) -> String {
    let mean = short(ours.mean);
    match ours.half_width_95 {
        Some(half) if ours.seeds > 1 => {
            format!("{mean} ± {} ({} seeds)", short(half), ours.seeds)
        }
        None => format!("{mean} (one seed)"),
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Note};
    use ebb_scenario::Silent;

    struct Constant(f64);

    const CLAIMS: &[Claim] = &[
        Claim::calibrated("p.a", "P 2012, section 1", "a", 10.0, "W").percent(10.0),
        Claim::predicted("p.b", "P 2012, section 2", "b", 2.0, ""),
        Claim::predicted("p.c", "P 2012, section 3", "c", 1.0, "s"),
        Claim::predicted("p.d", "P 2012, section 4", "d", 5.0, "W").at_least().reading("more"),
        Claim::implied("p.e", "P 2012, section 5", "e", 5.0, "W").at_most(),
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
            let noisy = Ours { mean: self.0, half_width_95: Some(0.25), seeds: 5 };
            Ok(findings
                .found("p.a", self.0, "")
                .found("p.b", Ours::single(self.0), Note::verdict("fine", "too large"))
                .found("p.d", noisy, Note::verdict("fine", "too small"))
                .not_run("p.e", "takes long"))
        }
    }

    fn context() -> Context<'static> {
        Context { seed: 1, jobs: 1, quick: false, data: None, progress: &Silent }
    }

    fn reproduced(values: &[f64]) -> Reproduction {
        let mut reproduction = Reproduction::new();
        values.iter().for_each(|&value| reproduction.run(&Constant(value), &context()));
        reproduction
    }

    #[test]
    fn no_miss_is_hidden() {
        use Verdict::{Met, Missed, NotRun};
        let reproduction = reproduced(&[10.5]);
        let verdicts: Vec<Verdict> = reproduction.rows().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Met, Missed, Missed, Met, NotRun]);
        let summary = "met: 0 of 2 predicted, 1 of 1 calibrated; readings met: 1 of 1 predicted; \
                       1 not run";
        assert_eq!(reproduction.summary(), summary);
        let text = reproduction.report(true).to_terminal(&crate::Terminal::plain());
        assert!(text.contains("too large") && text.contains("gives no number"), "{text}");
    }

    /// Words are shown as words, a mean with its interval, and a note follows the verdict.
    #[test]
    fn people_see_words_intervals_and_the_note_of_the_verdict() {
        let text = reproduced(&[10.5]).report(true).to_terminal(&crate::Terminal::plain());
        let line = text.lines().find(|line| line.starts_with("  d ") || line.starts_with("d "));
        let line = line.unwrap_or_else(|| panic!("no row in\n{text}"));
        for part in ["“more”", "at least 5", "10.5 ± 0.25 (5 seeds)", "fine"] {
            assert!(line.contains(part), "`{part}` in `{line}`");
        }
        assert!(text.contains("10.5 (one seed)"), "{text}");
    }

    /// A verdict on the mean that other values of its interval contradict says so.
    #[test]
    fn an_interval_across_the_limit_is_told() {
        let note = |id, mean, half_width_95| {
            let ours = Ours { mean, half_width_95: Some(half_width_95), seeds: 5 };
            let found =
                Findings::new(Report::new("P")).found(id, ours, Note::verdict("fine", "off"));
            let mut reproduction = Reproduction::new();
            reproduction.add(&Constant(1.0), Ok(found));
            let row = reproduction.rows().find(|row| row.id == id).expect("a row");
            (row.verdict, row.note.clone())
        };
        assert_eq!(note("p.d", 5.2, 0.1), (Verdict::Met, "fine".to_owned()));
        assert!(note("p.d", 5.2, 0.3).1.contains("fine; undecided"));
        // Also where what is met lies between two ends that are missed: 9 to 11.
        assert_eq!(note("p.a", 12.0, 0.5), (Verdict::Missed, "off".to_owned()));
        assert!(note("p.a", 12.0, 4.0).1.contains("off; undecided"));
    }

    #[test]
    fn a_quick_run_says_so_everywhere() {
        let mut quick = Reproduction::quick(true);
        quick.add(&Constant(1.0), Constant(1.0).run(&context()));
        assert!(quick.summary().starts_with("QUICK"));
        assert!(quick.to_json().contains("\"quick\": true"));
        assert!(quick.report(true).to_html().contains("not results"));
    }

    #[test]
    fn json_is_a_list_with_exactly_these_fields() {
        let json = reproduced(&[10.5]).to_json();
        let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let first = rows[0].as_object().expect("an object");
        let mut fields: Vec<&str> = first.keys().map(String::as_str).collect();
        let mut expected = "id source quantity published unit ours half_width_95 seeds tolerance \
                            bound basis kind verdict note"
            .split_whitespace()
            .collect::<Vec<_>>();
        fields.sort_unstable();
        expected.sort_unstable();
        assert_eq!(fields, expected);
        assert_eq!((&first["basis"], &first["verdict"]), (&"calibrated".into(), &"met".into()));
        assert_eq!(
            (&rows[2]["ours"], &first["tolerance"]),
            (&serde_json::Value::Null, &1.0.into())
        );
        assert_eq!((&rows[3]["bound"], &rows[3]["kind"]), (&"at_least".into(), &"reading".into()));
        assert_eq!((&rows[3]["seeds"], &rows[3]["half_width_95"]), (&5.into(), &0.25.into()));
        assert_eq!((&rows[0]["seeds"], &rows[0]["half_width_95"]), (&1.into(), &0.0.into()));
        assert_eq!(
            (&rows[4]["basis"], &rows[4]["verdict"]),
            (&"implied".into(), &"not run".into())
        );
        assert_eq!((&rows[4]["seeds"], &rows[1]["half_width_95"]), (&0.into(), &().into()));
    }

    #[test]
    fn what_fails_is_named() {
        let reproduction = reproduced(&[-1.0]);
        assert_eq!(reproduction.failed(), [("p".to_owned(), "negative".to_owned())]);
        assert!(reproduction.summary().ends_with("1 experiment failed"));
    }
}
