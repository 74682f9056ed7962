use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use ebb_report::{Report, Section, Terminal, write_file};
use ebb_scenario::{Document, Sweep};

use super::args::StudyArgs;
use super::place::Directory;
use super::sweep::{self, Points};
use super::{Subject, Unreadable, Watched};

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit status when a scenario cannot be read or makes no sense.
const UNREADABLE: u8 = 2;

/// What to repeat a run with.
pub(super) struct Origin<'a> {
    pub(super) document: &'a Document,
    pub(super) seed: u64,
    pub(super) settings: &'a [String],
}

/// Runs one scenario or a sweep, writes its directory, prints the report.
pub(super) fn run(subject: Subject, args: &StudyArgs) -> Result<ExitCode> {
    match prepared(args) {
        Err(error) => {
            eprintln!("ebb: {}", crate::said(&error));
            Ok(ExitCode::from(UNREADABLE))
        }
        Ok((document, sweep, seed)) => perform(subject, args, &document, &sweep, seed),
    }
}

fn prepared(args: &StudyArgs) -> Result<(Document, Sweep, u64)> {
    let name = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario)
        .with_context(|| format!("{name}: cannot be read"))?;
    let mut document = Document::parse(&name, &text)?;
    let written = document.take_seed()?;
    let sweep = Sweep::parse(&args.set)?;
    Ok((document, sweep, args.seed.or(written).unwrap_or(1)))
}

fn perform(
    subject: Subject,
    args: &StudyArgs,
    document: &Document,
    sweep: &Sweep,
    seed: u64,
) -> Result<ExitCode> {
    let files = Directory::of(&args.scenario);
    let watched = Watched::start()?;
    let origin = Origin { document, seed, settings: &args.set };
    let place = place(subject, args, !sweep.is_empty());
    let report = if sweep.is_empty() {
        let point = sweep.points().next().unwrap_or_default();
        document
            .with(&point)
            .map_err(anyhow::Error::from)
            .and_then(|document| (subject.study)(&document, &files, seed, &watched))
    } else {
        let points = Points { subject, origin: &origin, sweep, files: &files, watched: &watched };
        sweep::run(&points, place.as_deref(), args)
    };
    watched.clear();
    let stopped = ebb_scenario::Progress::stopped(&watched);
    let report = match report {
        Ok(report) => report,
        Err(_) if stopped => {
            eprintln!("ebb: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(error) if error.is::<ebb_scenario::ScenarioError>() || error.is::<Unreadable>() => {
            eprintln!("ebb: {}", crate::said(&error));
            return Ok(ExitCode::from(UNREADABLE));
        }
        Err(error) => return Err(error),
    };
    let report = report.figure("seed", seed).figure("revision", env!("EBB_REVISION"));
    if let Some(place) = &place {
        save(&report, place, subject, &origin)?;
    }
    print(&report, args.json, place.as_deref())?;
    Ok(if stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The run's directory; none when only JSON is wanted.
fn place(subject: Subject, args: &StudyArgs, sweep: bool) -> Option<PathBuf> {
    if args.json && !sweep {
        return args.out.clone();
    }
    let stem = args.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let points = if sweep { "-sweep" } else { "" };
    let name = format!("{}-{}-{stem}{points}", subject.kind, subject.system);
    Some(args.out.clone().unwrap_or_else(|| Path::new("ebb-runs").join(name)))
}

/// Report, tables and what to repeat the run with.
fn save(report: &Report, place: &Path, subject: Subject, origin: &Origin<'_>) -> Result<()> {
    report.save(place)?;
    let tables = report.sections.iter().filter_map(|section| match section {
        Section::Table(table) if !table.rows.is_empty() => Some(table),
        _ => None,
    });
    let mut names = std::collections::BTreeSet::new();
    for (index, table) in tables.enumerate() {
        let mut name = file_name(&table.title).unwrap_or_else(|| format!("table-{}", index + 1));
        if !names.insert(name.clone()) {
            write!(name, "-{}", index + 1)?;
        }
        write_file(&place.join(name + ".csv"), table.to_csv().as_bytes())?;
    }
    write_file(&place.join("scenario.toml"), origin.document.to_toml().as_bytes())?;
    let Origin { seed, settings, .. } = origin;
    let run = serde_json::json!({
        "command": format!("ebb {} {}", subject.kind, subject.system),
        "seed": seed,
        "set": settings,
        "revision": env!("EBB_REVISION"),
        "version": env!("CARGO_PKG_VERSION"),
    });
    write_file(&place.join("run.json"), (run.to_string() + "\n").as_bytes())?;
    Ok(())
}

/// Lower case words with dashes between.
fn file_name(title: &str) -> Option<String> {
    let lower = title.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    (!name.is_empty()).then_some(name)
}

fn print(report: &Report, json: bool, place: Option<&Path>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        out.write_all(report.to_json().as_bytes())?;
    } else {
        out.write_all(report.to_terminal(&Terminal::of_stdout()).as_bytes())?;
        let place = place.ok_or_else(|| anyhow!("a run has a directory"))?;
        writeln!(out, "\n{}", place.join("report.html").display())?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_file_names() {
        assert_eq!(
            file_name("Watts by component (mean)").as_deref(),
            Some("watts-by-component-mean")
        );
        assert_eq!(file_name("–"), None);
    }
}
