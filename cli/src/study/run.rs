//! One job: from what was typed to what is printed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use ebb_report::{Answer, Made, Report, Terminal, Writes};
use ebb_scenario::{Document, Progress, Setting, Sweep};
use ebb_study::{Directory, Job, JobError, Repeat, Study, StudyError, Threads};

use super::args::StudyArgs;
use super::{PROGRAM, Watched};

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit status when a scenario cannot be read or makes no sense.
const UNREADABLE: u8 = 2;
/// What a scenario that is flags alone is called in messages.
const FLAGS: &str = "command line";

/// What a job is made of besides its study.
struct Asked {
    document: Document,
    sweep: Sweep,
    seed: u64,
    repeat: Option<Repeat>,
}

/// Runs one scenario or a sweep, writes its directory, prints the report.
pub(super) fn run(
    study: &Study,
    args: &StudyArgs,
    flags: Result<Vec<Setting>, StudyError>,
) -> Result<ExitCode> {
    let asked = flags.and_then(|flags| prepare(study, args, &flags));
    let outcome = match &asked {
        Ok(asked) => perform(study, args, asked)?,
        Err(error) => Err(JobError::from(StudyError::whole(error))),
    };
    Ok(match outcome {
        Ok(status) => status,
        Err(error) => status(&error),
    })
}

/// Says why there is no report; the exit status for it.
pub(super) fn status(error: &JobError) -> ExitCode {
    eprintln!("ebb: {error}");
    match *error.error {
        StudyError::Scenario(_) => ExitCode::from(UNREADABLE),
        StudyError::Stopped => ExitCode::from(INTERRUPTED),
        StudyError::Failed(_) => ExitCode::FAILURE,
    }
}

fn prepare(study: &Study, args: &StudyArgs, flags: &[Setting]) -> Result<Asked, StudyError> {
    let (name, text) = match &args.scenario {
        Some(path) => (path.display().to_string(), read(study, path)?),
        None if study.arguments.is_empty() => (FLAGS.to_owned(), String::new()),
        None => (String::new(), String::new()),
    };
    let mut document = Document::parse(&name, &text)?.with(flags)?;
    let written = document.take_seed()?;
    let sweep = Sweep::parse(&args.set)?;
    let repeat = Repeat::new(args.seeds, args.until.as_ref())?;
    Ok(Asked { document, sweep, seed: args.seed.or(written).unwrap_or(study.seed), repeat })
}

/// The scenario's text, from another program's file if the catalogue knows how.
fn read(study: &Study, path: &Path) -> Result<String, StudyError> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        StudyError::in_file(name.to_string(), format!("cannot read the file: {error}"))
    })?;
    ebb_catalogue::scenario_text(study, &name.to_string(), text)
}

/// The exit status.
fn perform(study: &Study, args: &StudyArgs, asked: &Asked) -> Result<Result<ExitCode, JobError>> {
    let watched = Watched::start()?;
    let place = place(study, args, !asked.sweep.is_empty());
    let nowhere = PathBuf::new();
    let job = Job {
        study,
        document: &asked.document,
        files: &Directory::of(args.scenario.as_ref().unwrap_or(&nowhere)),
        seed: asked.seed,
        sweep: &asked.sweep,
        repeat: asked.repeat.as_ref(),
        saturation: args.saturation.as_ref(),
        shard: args.shard,
        place: place.as_deref(),
        policies: None,
        fresh: args.fresh,
        program: PROGRAM,
        executor: &Threads::new(args.jobs),
        watcher: &watched,
    };
    let report = job.run();
    watched.clear();
    let stopped = watched.stopped();
    match report {
        Ok(report) if args.emit.is_some() => emit(study, &report, args, place.as_deref())?,
        Ok(report) => match &report.answer {
            Some(answer) => return Ok(Ok(tell(answer, &report, args)?)),
            None => print(&report, args.json, place.as_deref())?,
        },
        Err(_) if stopped => return Ok(Err(StudyError::Stopped.into())),
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(if stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }))
}

/// Writes the file that the report has, and prints the report unless the file goes where it would.
fn emit(study: &Study, report: &Report, args: &StudyArgs, place: Option<&Path>) -> Result<()> {
    let text = report.figures.get(study.emits).and_then(|figure| figure.as_str()).context(
        "--emit: there is no configuration; set `site` (`--site FILE`), and no sweep, in `ebb plan cluster`",
    )?;
    let file = args.emit.as_ref().expect("asked for");
    if file == Path::new("-") {
        std::io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(());
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    print(report, args.json, place)
}

/// Prints an answer, writes what was made; whether what was asked about is as it should be.
fn tell(answer: &Answer, report: &Report, args: &StudyArgs) -> Result<ExitCode> {
    answer.notes.iter().for_each(|note| eprintln!("ebb: {note}"));
    let mut out = std::io::stdout().lock();
    match (&answer.made, &args.out) {
        (Some(Made::File), Some(place)) => std::fs::write(place, &answer.words)?,
        (Some(Made::Files { files, names }), Some(place)) => replace(place, files, names)?,
        _ => {}
    }
    let is_file = answer.made == Some(Made::File) && args.out.is_some();
    if args.json {
        out.write_all(report.to_json().as_bytes())?;
    } else if !is_file {
        out.write_all(answer.words.as_bytes())?;
    }
    out.flush()?;
    Ok(if answer.is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes files into a directory in place of those that another run left: what this one does not have goes.
fn replace(place: &Path, files: &[(&str, Writes)], names: &[&str]) -> Result<()> {
    std::fs::create_dir_all(place)?;
    for name in names {
        for stale in [place.join(name), place.join(format!("{name}.gz"))] {
            match std::fs::remove_file(&stale) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }
    for (name, writes) in files {
        let mut file = std::io::BufWriter::new(std::fs::File::create(place.join(name))?);
        writes.to(&mut file)?;
        file.flush()?;
    }
    Ok(())
}

/// The run's directory; none when only JSON or an answer is wanted.
fn place(study: &Study, args: &StudyArgs, sweep: bool) -> Option<PathBuf> {
    match (sweep, study.arguments.is_empty(), study.makes.is_empty()) {
        (false, false, false) => return None,
        (false, false, true) => return args.out.clone(),
        (false, true, _) if args.json => return args.out.clone(),
        _ => {}
    }
    let stem = args.scenario.as_ref().and_then(|path| path.file_stem()).unwrap_or_default();
    let stem = if stem.is_empty() { String::new() } else { format!("-{}", stem.to_string_lossy()) };
    let points = if sweep { "-sweep" } else { "" };
    let saturation = if args.saturation.is_some() { "-saturation" } else { "" };
    let mut name = format!("{}-{}{stem}{points}{saturation}", study.kind().name(), study.system);
    if let Some(shard) = args.shard {
        name += &format!("-{}", shard.to_string().replace('/', "-of-"));
    }
    Some(args.out.clone().unwrap_or_else(|| Path::new("ebb-runs").join(name)))
}

pub(super) fn print(report: &Report, json: bool, place: Option<&Path>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        out.write_all(report.to_json().as_bytes())?;
    } else {
        out.write_all(report.to_terminal(&Terminal::of_stdout()).as_bytes())?;
        let place = place.context("a run has a directory")?;
        writeln!(out, "\n{}", place.join("report.html").display())?;
    }
    out.flush()?;
    Ok(())
}
