//! Parts of a sweep that were computed apart, put together again.
//!
//! Room: what a part leaves in its directory beside what every job does, and one directory made of those of
//! all parts, as one job would have written it. It computes no run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ebb_report::{Report, write_file};
use ebb_scenario::{Document, MemoryFiles, Sweep};
use serde::{Deserialize, Serialize};

use crate::executor::{Finished, Threads, name};
use crate::job::{Job, Program, Watcher};
use crate::key::Used;
use crate::repeat::{Repeat, Until};
use crate::save::save;
use crate::shard::Shard;
use crate::study::Study;
use crate::sweep::{Runs, key};
use crate::{JobError, StudyError};

/// What a part's directory says of it.
const FILE: &str = "shard.json";

/// What a part says of itself.
#[derive(Serialize, Deserialize)]
struct Part {
    shard: String,
    program: String,
}

/// The report of one part, which is written into its directory.
pub(crate) fn report(job: &Job<'_>, shard: Shard, runs: usize) -> Result<Report, JobError> {
    let Some(place) = job.place else {
        return Err(StudyError::in_file("--shard", "needs a directory: add --out").into());
    };
    let part = Part { shard: shard.to_string(), program: job.program.identity()? };
    let text = serde_json::to_string(&part).map_err(StudyError::failed)? + "\n";
    write_file(&place.join(FILE), text.as_bytes())?;
    let text = format!(
        "{runs} runs are finished. When the directories of all shards are there, put them together \
        with `ebb sweep merge`."
    );
    Ok(Report::new(format!("{}: shard {shard}", job.study.name())).text(text).figure("runs", runs))
}

/// What a job left in its directory to be repeated with.
#[derive(Clone, PartialEq, Deserialize)]
struct Kept {
    command: String,
    seed: u64,
    seeds: Option<u32>,
    until: Option<String>,
    set: Vec<String>,
    revision: String,
}

/// A part as it is read.
struct Read {
    place: PathBuf,
    part: Part,
    kept: Kept,
    scenario: String,
    runs: Vec<Finished>,
}

impl Read {
    fn of(place: &Path) -> Result<Read, StudyError> {
        let text = |name: &str| {
            let path = place.join(name);
            std::fs::read_to_string(&path).map_err(|error| {
                let message = format!("cannot read the file: {error}; name directories of --shard");
                StudyError::in_file(path.display().to_string(), message)
            })
        };
        let wrong = |name: &str| {
            let file = place.join(name).display().to_string();
            move |error: serde_json::Error| {
                StudyError::in_file(file, format!("is damaged: {error}"))
            }
        };
        let part = serde_json::from_str(&text(FILE)?).map_err(wrong(FILE))?;
        let kept = serde_json::from_str(&text("run.json")?).map_err(wrong("run.json"))?;
        let lines = text("points.jsonl")?;
        // The last line of a part that was killed may be incomplete: that run is not there.
        let runs = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let scenario = text("scenario.toml")?;
        Ok(Read { place: place.to_owned(), part, kept, scenario, runs })
    }

    fn fault(&self, message: impl fmt::Display) -> StudyError {
        StudyError::in_file(self.place.display().to_string(), message)
    }
}

/// Puts the directories of all parts of a sweep together: `out` becomes what one job would have
/// written, byte for byte. `find` knows the studies by kind and system.
///
/// # Errors
/// When a directory is none of a part, parts are of different jobs, programs or files, or runs are
/// missing.
pub fn merge(
    places: &[PathBuf],
    out: &Path,
    find: &dyn Fn(&str, &str) -> Option<&'static Study>,
    program: Program<'_>,
    watcher: &dyn Watcher,
) -> Result<Report, JobError> {
    let read: Result<Vec<Read>, StudyError> = places.iter().map(|place| Read::of(place)).collect();
    let read = read?;
    let Some(first) = read.first() else {
        return Err(StudyError::whole("there is no directory to merge").into());
    };
    for other in &read {
        if other.kept != first.kept || other.scenario != first.scenario {
            let message = format!("is of another sweep than {}", first.place.display());
            return Err(other.fault(message).into());
        }
        if other.part.program != first.part.program || other.kept.revision != program.revision {
            return Err(other
                .fault("was computed by another build of ebb; use one for all")
                .into());
        }
    }
    let kept = &first.kept;
    let words: Vec<&str> = kept.command.split(' ').collect();
    let study = match words[..] {
        ["ebb", kind, system] => find(kind, system),
        _ => None,
    };
    let study = study.ok_or_else(|| first.fault(format!("`{}` is no study", kept.command)))?;
    let mut document = Document::parse("scenario.toml", &first.scenario)?;
    document.take_seed()?;
    let until = kept.until.as_deref().map(Until::parse).transpose();
    let until = until.map_err(|error| first.fault(error))?;
    let repeat = Repeat::new(kept.seeds, until.as_ref())?;
    let job = Job {
        study,
        document: &document,
        files: &MemoryFiles::new(),
        seed: kept.seed,
        sweep: &Sweep::parse(&kept.set)?,
        repeat: repeat.as_ref(),
        saturation: None,
        shard: None,
        place: Some(out),
        policies: None,
        fresh: false,
        program: Program { identity: Some(&first.part.program), ..program },
        executor: &Threads::new(Some(1)),
        watcher,
    };
    let report = put_together(&job, &read)?;
    let report = report.figure("seed", job.seed).figure("revision", program.revision);
    save(&report, out, &job)?;
    Ok(report)
}

/// The report of all runs, which are written into the job's directory.
fn put_together(job: &Job<'_>, read: &[Read]) -> Result<Report, JobError> {
    let points: BTreeMap<String, _> =
        job.sweep.points().map(|point| (name(&point), point)).collect();
    let mut seen: BTreeMap<&Used, (&String, &Read)> = BTreeMap::new();
    let mut done = BTreeMap::new();
    for part in read {
        for run in &part.runs {
            let Some(settings) = points.get(&run.point) else { continue };
            let known =
                key(job, &part.part.program, (settings, run.seed), (&run.files, &run.digests));
            if known? != run.key {
                let message =
                    format!("the run at {} is not of this sweep; compute it again", run.point);
                return Err(part.fault(message).into());
            }
            for (used, digest) in run.files.iter().zip(&run.digests) {
                let (before, other) = seen.entry(used).or_insert((digest, part));
                if *before != digest {
                    let other = other.place.display();
                    let message = format!("`{}` was another file than in {other}", used.0);
                    return Err(part.fault(message).into());
                }
            }
            done.insert((run.point.clone(), run.seed), run.clone());
        }
    }
    let lines: Result<Vec<String>, _> = done.values().map(serde_json::to_string).collect();
    let lines = lines.map_err(StudyError::failed)?.join("\n") + "\n";
    let runs = Runs::of_finished(job, done);
    let missing = runs.missing()?;
    if let Some(point) = missing.first() {
        let count = missing.len();
        let message = format!("{count} runs are missing, the first at {}", point.name());
        let remedy = "name the directories of all shards, and finish those that were interrupted";
        return Err(StudyError::whole(format!("{message}; {remedy}")).into());
    }
    if let Some(place) = job.place {
        write_file(&place.join("points.jsonl"), lines.as_bytes())?;
    }
    runs.report()
}
