use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use ebb_report::{Column, Replications, Report, Section, Table, Terminal, write_file};
use ebb_scenario::{Document, Sweep};

use super::args::StudyArgs;
use super::place::Directory;
use super::points::{Origin, Points};
use super::repeat::Repeat;
use super::saturation;
use super::sweep;
use super::{Subject, Unreadable, Watched};

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit status when a scenario cannot be read or makes no sense.
const UNREADABLE: u8 = 2;

/// Runs one scenario or a sweep, writes its directory, prints the report.
pub(super) fn run(subject: Subject, args: &StudyArgs) -> Result<ExitCode> {
    match prepared(subject, args) {
        Err(error) => {
            eprintln!("ebb: {}", crate::said(&error));
            Ok(ExitCode::from(UNREADABLE))
        }
        Ok((document, sweep, seed)) => perform(subject, args, &document, &sweep, seed),
    }
}

fn prepared(subject: Subject, args: &StudyArgs) -> Result<(Document, Sweep, u64)> {
    let name = args.scenario.display().to_string();
    let mut text = std::fs::read_to_string(&args.scenario)
        .with_context(|| format!("{name}: cannot be read"))?;
    let named = args.scenario.extension().is_some_and(|extension| extension == "cfg");
    let foreign = named || ebb_system_noc::booksim::is_config(&text);
    if foreign && (subject.kind, subject.system) == ("sim", "noc") {
        text = ebb_system_noc::booksim::to_toml(&text).with_context(|| name.clone())?;
    }
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
    let origin = Origin { document, seed, args };
    let place = place(subject, args, !sweep.is_empty());
    let point = sweep.points().next().unwrap_or_default();
    let once = || {
        let document = document.with(&point).map_err(anyhow::Error::from);
        document.and_then(|document| (subject.study)(&document, &files, seed, &watched))
    };
    let repeat = Repeat::new(args.seeds, args.until.as_ref());
    let points = |repeat| Points {
        subject,
        origin: &origin,
        sweep,
        files: &files,
        watched: &watched,
        repeat,
    };
    let report = match (&args.saturation, repeat, sweep.is_empty()) {
        (_, Err(error), _) => Err(Unreadable::because(error)),
        (Some(interval), ..) => {
            let jobs = args.jobs.map_or_else(sweep::processors, usize::from);
            saturation::find(&points(None), interval, jobs)
        }
        (None, Ok(None), true) => once(),
        (None, Ok(repeat @ Some(_)), true) => {
            repeated(&points(repeat), place.as_deref(), args, once)
        }
        (None, Ok(repeat), false) => sweep::run(&points(repeat), place.as_deref(), args),
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

/// One scenario with several seeds: the figures of all, then what the run with the first seed says.
fn repeated(
    points: &Points<'_>,
    place: Option<&Path>,
    args: &StudyArgs,
    once: impl FnOnce() -> Result<Report>,
) -> Result<Report> {
    let swept = sweep::compute(points, place, args)?;
    let Some((_, all)) = swept.rows.first() else { bail!("interrupted") };
    let first = once()?;
    let columns = Replications::columns(&swept.columns, &[&all.figures]);
    let seed = points.origin.seed;
    let words = points.repeat.as_ref().map(Repeat::words).unwrap_or_default();
    let mut report = Report::new(first.title)
        .text(format!(
            "Means over {} runs with seeds from {seed} on{words}; intervals are 95 % of Student's. What \
             follows the first table is of the run with seed {seed}.",
            all.figures["seeds"]
        ))
        .table(over_seeds(all, &columns));
    if swept.wide > 0 {
        report = report.text("The interval stayed wider than asked after the most seeds.");
    }
    report.sections.extend(first.sections);
    report.attachments = first.attachments;
    (report.figures, report.columns) = (all.figures.clone(), columns);
    Ok(report)
}

/// Every number with its interval.
fn over_seeds(all: &Replications, columns: &[(String, String)]) -> Table {
    let heads = [
        Column::text("figure"),
        Column::text("unit"),
        Column::number("mean", "", 6),
        Column::number("half-width, 95 %", "", 6),
        Column::number("least", "", 6),
        Column::number("most", "", 6),
    ];
    let mut table = Table::new("Over all seeds", heads);
    for (name, unit) in columns.iter().filter(|(name, _)| !name.ends_with(".half_width_95")) {
        let Some((_, seen)) = all.numbers.iter().find(|(other, _)| other == name) else { continue };
        let values = all.figures["by_seed"][name].as_array();
        let values = || values.into_iter().flatten().filter_map(serde_json::Value::as_f64);
        table.row([
            name.as_str().into(),
            unit.as_str().into(),
            seen.mean().into(),
            seen.half_width_95().into(),
            values().reduce(f64::min).into(),
            values().reduce(f64::max).into(),
        ]);
    }
    table
}

/// The run's directory; none when only JSON is wanted.
fn place(subject: Subject, args: &StudyArgs, sweep: bool) -> Option<PathBuf> {
    if args.json && !sweep {
        return args.out.clone();
    }
    let stem = args.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let points = if sweep { "-sweep" } else { "" };
    let saturation = if args.saturation.is_some() { "-saturation" } else { "" };
    let name = format!("{}-{}-{stem}{points}{saturation}", subject.kind, subject.system);
    Some(args.out.clone().unwrap_or_else(|| Path::new("ebb-runs").join(name)))
}

/// Report, tables and what to repeat the run with.
fn save(report: &Report, place: &Path, subject: Subject, origin: &Origin<'_>) -> Result<()> {
    report.save(place)?;
    let tables = report.sections.iter().filter_map(|section| match section {
        Section::Table(table) if !table.rows.is_empty() => Some(table),
        _ => None,
    });
    let tables = report.attachments.iter().chain(tables);
    let mut names = std::collections::BTreeSet::new();
    for (index, table) in tables.enumerate() {
        let mut name = file_name(&table.title).unwrap_or_else(|| format!("table-{}", index + 1));
        if !names.insert(name.clone()) {
            write!(name, "-{}", index + 1)?;
        }
        #[cfg(feature = "parquet")]
        write_file(
            &place.join(format!("{name}.parquet")),
            &table.to_parquet().with_context(|| format!("table `{}` as Parquet", table.title))?,
        )?;
        write_file(&place.join(name + ".csv"), table.to_csv().as_bytes())?;
    }
    write_file(&place.join("scenario.toml"), origin.document.to_toml().as_bytes())?;
    let Origin { seed, args, .. } = origin;
    let run = serde_json::json!({
        "command": format!("ebb {} {}", subject.kind, subject.system),
        "seed": seed,
        "seeds": args.seeds,
        "until": args.until.as_ref().map(ToString::to_string),
        "set": args.set,
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
