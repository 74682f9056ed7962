//! `ebb reproduce`: what the papers published beside what comes out here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use ebb_report::{Column, Context, Experiment, Report, Reproduction, Table, Terminal, write_file};
use ebb_scenario::{Files, Progress};
use ebb_study::{Directory, Threads, reproduce};

use crate::study::{PROGRAM, Watched};

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Where a checkout has data that others measured.
const DATA_BESIDE: &str = "../shared/data";
/// Exit status when no experiment has the name.
const UNKNOWN: u8 = 2;

/// Compute published results again and show both numbers side by side
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb reproduce                              every experiment, a terminal table and report.html
  ebb reproduce niccolini2012                the experiments of one paper
  ebb reproduce niccolini2012.fig15 --json   one, as JSON
  ebb reproduce --list

A number that is not reproduced is shown as missed, with the reason. The exit status is 1 only when
an experiment cannot run, and 2 when there is no experiment of that name.")]
pub struct Reproduce {
    /// Experiments, or prefixes of their names; default: all
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Show the names of all experiments
    #[arg(long)]
    list: bool,
    /// Print the claims as a JSON list; writes no directory without --out
    #[arg(long)]
    json: bool,
    /// Directory for report.html, report.json and claims.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory with measured data of others, for the experiments that use it [default: ../shared/data, if
    /// it is there]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Experiments computed at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Short runs to check that everything works; the numbers are not results
    #[arg(long)]
    quick: bool,
}

impl Reproduce {
    /// Runs the experiments.
    pub fn run(self) -> Result<ExitCode> {
        let mut chosen = ebb_catalogue::experiments();
        for id in &self.ids {
            if !chosen.iter().any(|experiment| matches(experiment.id(), id)) {
                eprintln!(
                    "ebb: there is no experiment `{id}`; list all with `ebb reproduce --list`"
                );
                return Ok(ExitCode::from(UNKNOWN));
            }
        }
        let wanted =
            |id: &str| self.ids.is_empty() || self.ids.iter().any(|name| matches(id, name));
        chosen.retain(|experiment| wanted(experiment.id()));
        if self.list {
            return list(&chosen);
        }
        let watched = Watched::start()?;
        let reproduction = self.compute(&chosen, &watched);
        watched.clear();
        if watched.stopped() {
            eprintln!("ebb: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        self.conclude(&reproduction)
    }

    fn compute(&self, chosen: &[&'static dyn Experiment], watched: &Watched) -> Reproduction {
        let beside = Path::new(DATA_BESIDE);
        let data = self.data.as_deref().or(beside.is_dir().then_some(beside)).map(Directory::at);
        let context = Context {
            seed: self.seed,
            jobs: 1,
            quick: self.quick,
            data: data.as_ref().map(|data| data as &dyn Files),
            progress: watched,
        };
        reproduce(chosen, &context, Threads::new(self.jobs))
    }

    fn conclude(&self, reproduction: &Reproduction) -> Result<ExitCode> {
        let named = self.out.clone();
        let place = named.or_else(|| (!self.json).then(|| PathBuf::from("ebb-reproduction")));
        if let Some(place) = &place {
            let whole = reproduction.report(false).figure("seed", self.seed);
            whole.figure("revision", PROGRAM.revision).save(place)?;
            write_file(&place.join("claims.json"), reproduction.to_json().as_bytes())?;
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            out.write_all(reproduction.to_json().as_bytes())?;
        } else {
            let report = reproduction.report(true);
            out.write_all(report.to_terminal(&Terminal::of_stdout()).as_bytes())?;
            let place = place.context("a directory was chosen")?;
            writeln!(out, "\n{}\n{}", reproduction.summary(), place.join("report.html").display())?;
        }
        out.flush()?;
        for (id, error) in reproduction.failed() {
            eprintln!("ebb: {id} failed: {error}");
        }
        let failed = !reproduction.failed().is_empty();
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn matches(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn list(chosen: &[&'static dyn Experiment]) -> Result<ExitCode> {
    let columns = [Column::text("experiment"), Column::text("shows"), Column::count("claims")];
    let mut table = Table::new("", columns);
    for experiment in chosen {
        let claims = experiment.claims().len() as u64;
        table.row([experiment.id().into(), experiment.title().into(), claims.into()]);
    }
    let text = Report::new("Experiments").table(table).to_terminal(&Terminal::of_stdout());
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_experiment_and_no_claim_has_the_name_of_another() {
        let all = ebb_catalogue::experiments();
        let ids: BTreeSet<&str> = all.iter().map(|experiment| experiment.id()).collect();
        assert_eq!(ids.len(), all.len());
        let claims = all.iter().flat_map(|experiment| experiment.claims());
        let mut seen = BTreeSet::new();
        for claim in claims {
            assert!(seen.insert(claim.id), "`{}` twice", claim.id);
            assert!(!claim.source.is_empty() && claim.tolerance >= 0.0, "{}", claim.id);
        }
    }

    const AGAIN: &str = "ebb reproduce --json >docs/claims.json";

    fn recorded() -> Vec<serde_json::Value> {
        serde_json::from_str(include_str!("../../docs/claims.json")).expect("a list of claims")
    }

    /// What is recorded was computed for the claims as they are marked now.
    #[test]
    fn the_record_is_of_these_claims() {
        let rows = recorded();
        let all = ebb_catalogue::experiments();
        let mut claims = all.iter().flat_map(|experiment| experiment.claims());
        for row in &rows {
            let claim =
                claims.next().unwrap_or_else(|| panic!("{} is no claim: {AGAIN}", row["id"]));
            let marked = serde_json::json!([
                claim.id,
                claim.published as f32,
                claim.tolerance as f32,
                claim.basis,
                claim.kind(),
                claim.bound
            ]);
            let kept = serde_json::json!([
                row["id"],
                row["published"].as_f64().unwrap_or(f64::NAN) as f32,
                row["tolerance"].as_f64().unwrap_or(f64::NAN) as f32,
                row["basis"],
                row["kind"],
                row["bound"]
            ]);
            assert_eq!(marked, kept, "{AGAIN}");
            assert!(row.get("quick").is_none(), "a quick run is no record: {AGAIN}");
            assert_ne!(row["verdict"], "not run", "{}: the record is complete", row["id"]);
        }
        assert_eq!(claims.map(|claim| claim.id).next(), None, "{AGAIN}");
    }

    /// The page on reproduction counts what the record says.
    #[test]
    fn the_page_counts_the_record() {
        let rows = recorded();
        let count = |basis: &str, kind: &str| {
            let of = |row: &&serde_json::Value| row["basis"] == basis && row["kind"] == kind;
            let all = || rows.iter().filter(of).filter(|row| row["verdict"] != "not run");
            let met = all().filter(|row| row["verdict"] == "met").count();
            format!("{met} of {}", all().count())
        };
        let page = include_str!("../../docs/reproduction.md");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = format!(
            "{} printed numbers predicted, {} implied by what was fitted, {} fitted; of words read as numbers {} predicted, {} implied, {} fitted",
            count("predicted", "literal"),
            count("implied", "literal"),
            count("calibrated", "literal"),
            count("predicted", "reading"),
            count("implied", "reading"),
            count("calibrated", "reading"),
        );
        assert!(page.contains(&expected), "docs/reproduction.md is to say: {expected}");
    }

    /// So does the table by document.
    #[test]
    fn the_table_by_document_counts_the_record() {
        let rows = recorded();
        let text = include_str!("../../docs/reproduction.md");
        let paper = |row: &serde_json::Value| {
            row["id"].as_str().and_then(|id| id.split('.').next()).unwrap_or_default().to_owned()
        };
        let papers: BTreeSet<String> = rows.iter().map(paper).collect();
        for name in papers {
            let count = |wanted: &dyn Fn(&serde_json::Value) -> bool| {
                let of = || rows.iter().filter(|row| paper(row) == name && wanted(row));
                let met = of().filter(|row| row["verdict"] == "met").count();
                if of().count() == 0 {
                    "–".to_owned()
                } else {
                    format!("{met} of {}", of().count())
                }
            };
            let literal = |basis: &'static str| {
                count(&move |row| row["basis"] == basis && row["kind"] == "literal")
            };
            let counts = ["predicted", "implied", "calibrated"]
                .map(literal)
                .into_iter()
                .chain([count(&|row| row["kind"] == "reading")]);
            let cells = counts.collect::<Vec<_>>().join(" | ");
            let line = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let line = line.unwrap_or_else(|| panic!("docs/reproduction.md: no line for {name}"));
            assert!(line.ends_with(&format!("| {cells} |")), "{name} is to end with: {cells}");
        }
    }

    /// The page says of every predicted number that is missed why, and counts them as the record has them.
    #[test]
    fn every_miss_has_its_reason() {
        let page = include_str!("../../docs/reproduction.md");
        let (_, page) = page.split_once("## Why predictions are missed").expect("the section");
        let (page, _) = page.split_once("\n## ").expect("another section");
        let mut rows: Vec<(&str, usize, &str, usize)> = Vec::new();
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
            let [claims, missed, kind, why] = cells[..] else { panic!("{line}") };
            assert!(["print", "input", "model"].contains(&kind) && !why.is_empty(), "{line}");
            rows.push((claims.trim_matches('`'), missed.parse().expect("a count"), kind, 0));
        }
        let recorded = recorded();
        let all = || {
            recorded.iter().filter(|row| row["basis"] == "predicted" && row["kind"] == "literal")
        };
        for row in all().filter(|row| row["verdict"] == "missed") {
            let id = row["id"].as_str().expect("a name");
            let of = rows.iter_mut().filter(|(claims, ..)| id.starts_with(claims));
            let of = of.max_by_key(|(claims, ..)| claims.len());
            of.unwrap_or_else(|| panic!("{id} is missed, and no row says why")).3 += 1;
        }
        for (claims, written, _, counted) in &rows {
            assert!(written == counted && *counted > 0, "{claims}: {counted} are missed");
        }
        let of =
            |kind: &str| rows.iter().filter(|row| row.2 == kind).map(|row| row.3).sum::<usize>();
        let met = all().filter(|row| row["verdict"] == "met").count();
        let (all, models) = (all().count(), of("model"));
        let wanted = (7 * all).div_ceil(10);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let reach = 100.0 * (met + models) as f64 / all as f64;
        for expected in [
            format!("(`print`: {} of {})", of("print"), all - met),
            format!("(`input`: {})", of("input")),
            format!("(`model`: {models})"),
            format!("{wanted} of {all}: {} more than now", wanted - met),
            format!("can reach {models} more ({reach:.1} %)"),
        ] {
            assert!(words.contains(&expected), "docs/reproduction.md is to say: {expected}");
        }
    }

    /// Rows of the page's tables of figures: section, place, claims or the reason.
    fn coverage() -> Vec<(&'static str, &'static str, &'static str)> {
        let page = include_str!("../../docs/reproduction.md");
        let (_, page) = page.split_once("## Every figure and table").expect("the section");
        let mut section = "";
        let mut rows = Vec::new();
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("### ") {
                section = title;
            }
            let cells: Vec<&str> =
                line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
            if let [place, what] = cells[..]
                && !place.is_empty()
                && place != "where"
            {
                rows.push((section, place, what));
            }
        }
        rows
    }

    /// Names in back quotes.
    fn named(cell: &str) -> impl Iterator<Item = &str> {
        cell.split('`').skip(1).step_by(2)
    }

    /// The page says of every figure and table which claims it has, or why it has none.
    #[test]
    fn every_claim_is_in_the_table_of_figures() {
        let rows = coverage();
        let all = ebb_catalogue::experiments();
        let ids: Vec<&str> =
            all.iter().flat_map(|experiment| experiment.claims()).map(|claim| claim.id).collect();
        let prefixes: Vec<&str> = rows.iter().flat_map(|(_, _, what)| named(what)).collect();
        for prefix in &prefixes {
            assert!(ids.iter().any(|id| id.starts_with(prefix)), "no claim begins with {prefix}");
        }
        for id in &ids {
            assert!(prefixes.iter().any(|prefix| id.starts_with(prefix)), "{id} is in no row");
        }
        for (section, place, what) in &rows {
            assert!(!what.is_empty(), "{section}, {place}: neither a claim nor a reason");
        }
    }

    /// Numbers of figures and tables that have a caption in a document's text.
    fn captions(text: &str) -> BTreeSet<String> {
        let caption = |line: &str| {
            let line = line.trim_start().trim_start_matches('*');
            let kind = ["Figure ", "Table "].into_iter().find(|kind| line.starts_with(kind))?;
            let rest = &line[kind.len()..];
            let number = rest.split(|at: char| !at.is_ascii_digit() && at != '.').next()?;
            let ends = number.ends_with('.') || rest[number.len()..].starts_with([':', '*']);
            let number = number.trim_end_matches('.');
            (ends && !number.is_empty()).then(|| format!("{kind}{number}"))
        };
        text.lines().filter_map(caption).collect()
    }

    /// The documents beside the checkout and the sections that are about them.
    const DOCUMENTS: [(&str, &str); 5] = [
        ("000_", "(Li 2012)"),
        ("001_", "(Niccolini et al. 2012)"),
        ("002_", "(Strong 2013)"),
        ("003_", "(Bolla, Bruschi and Ranieri)"),
        ("004_", "(Montañana et al. 2010)"),
    ];

    #[test]
    fn every_caption_of_the_documents_has_a_row() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/seeds");
        let Ok(files) = std::fs::read_dir(place) else {
            eprintln!("skipped: the documents are not beside the checkout");
            return;
        };
        let rows = coverage();
        for file in files.filter_map(Result::ok) {
            let name = file.file_name().to_string_lossy().into_owned();
            let known = DOCUMENTS.iter().find(|(start, _)| name.starts_with(start));
            let Some((_, section)) = known else { continue };
            let text = String::from_utf8_lossy(&std::fs::read(file.path()).expect("readable"))
                .into_owned();
            let places: BTreeSet<&str> =
                rows.iter().filter(|row| row.0.ends_with(section)).map(|row| row.1).collect();
            assert!(places.len() > 3, "no section ends with {section}");
            for caption in captions(&text) {
                assert!(places.contains(caption.as_str()), "{section} {caption}: no row");
            }
        }
    }

    #[test]
    fn names_match_whole_parts() {
        assert!(matches("niccolini2012.fig1", "niccolini2012.fig1"));
        assert!(matches("niccolini2012.fig1", "niccolini2012"));
        assert!(!matches("niccolini2012.fig15", "niccolini2012.fig1"));
    }
}
