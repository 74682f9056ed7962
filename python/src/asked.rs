//! What Python asks for, as a job.
//!
//! Room: from texts and JSON to a document, a sweep and the rest of a job, with the faults of each in
//! its place. What is convenient to write is the package's affair (`../ebb`). It runs nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ebb_scenario::{Document, Setting, Sweep};
use ebb_study::{FlagValue, Interval, Repeat, Study, StudyError, Until};
use pyo3::prelude::*;
use serde::Deserialize;
use toml::Value;

use crate::catalog::find;
use crate::errors;
use crate::files::Given;

/// A job as the package describes it, in JSON.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// `sim`, `plan` or the group of a command.
    kind: String,
    /// Its system.
    system: String,
    /// What the scenario is called in messages.
    name: String,
    /// The scenario: TOML, or another program's file.
    text: String,
    /// Where the files are that it names.
    directory: PathBuf,
    /// Flags of the command and what follows them.
    #[serde(default)]
    flags: Vec<(String, Value)>,
    /// Settings, each as it is written for `--set` or with its values.
    #[serde(default)]
    over: Vec<Over>,
    /// The seed, if not the scenario's.
    seed: Option<u64>,
    /// How many seeds.
    seeds: Option<u32>,
    /// How well figures are to be known.
    until: Option<String>,
    /// The setting of which the most that is stable is looked for.
    saturation: Option<String>,
    /// The directory for what is kept.
    out: Option<PathBuf>,
    /// Whether to compute again what is kept.
    #[serde(default)]
    fresh: bool,
    /// Threads.
    jobs: Option<u16>,
    /// What results of this program are told by.
    program: Option<String>,
    /// The file of a record that is shown to a policy, instead of a run.
    record: Option<String>,
}

/// A setting with its values.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Over {
    Written(String),
    Values(String, Vec<Value>),
}

/// What a job is made of.
pub(crate) struct Asked {
    pub(crate) study: &'static Study,
    pub(crate) document: Document,
    pub(crate) files: Given,
    pub(crate) sweep: Sweep,
    pub(crate) seed: u64,
    pub(crate) repeat: Option<Repeat>,
    pub(crate) saturation: Option<Interval>,
    pub(crate) place: Option<PathBuf>,
    pub(crate) fresh: bool,
    pub(crate) jobs: Option<u16>,
    pub(crate) program: Option<String>,
    pub(crate) record: Option<String>,
}

impl Asked {
    /// Reads a description and the files handed over with it.
    pub(crate) fn read(
        py: Python<'_>,
        description: &str,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> PyResult<Asked> {
        let read: Description = serde_json::from_str(description).map_err(|error| {
            errors::refused(py, "", &format!("cannot be read: {error}"), "see help(ebb.sim)")
        })?;
        let study = find(py, &read.kind, &read.system)?;
        read.prepare(study, files).map_err(|error| errors::of_study(py, &error, ""))
    }
}

impl Description {
    fn prepare(
        self,
        study: &'static Study,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Asked, StudyError> {
        let text = ebb_catalogue::scenario_text(study, &self.name, self.text)?;
        let flags: Result<Vec<Setting>, StudyError> =
            self.flags.iter().map(|(name, value)| of_flag(study, name, value)).collect();
        let mut document = Document::parse(&self.name, &text)?.with(&flags?)?;
        let written = document.take_seed()?;
        let mut sweep = Sweep::default();
        for over in self.over {
            sweep = match over {
                Over::Written(text) => sweep.setting(&text)?,
                Over::Values(path, values) => sweep.axis(&path, values)?,
            };
        }
        let wrong = |what: &str| {
            let what = what.to_owned();
            move |message: String| StudyError::in_file(what, message)
        };
        let until = self.until.as_deref().map(Until::parse).transpose().map_err(wrong("until"))?;
        let saturation = self.saturation.as_deref().map(Interval::parse).transpose();
        Ok(Asked {
            study,
            document,
            files: Given::new(files, &self.directory),
            sweep,
            seed: self.seed.or(written).unwrap_or(study.seed),
            repeat: Repeat::new(self.seeds, until.as_ref())?,
            saturation: saturation.map_err(wrong("saturation"))?,
            place: self.out,
            fresh: self.fresh,
            jobs: self.jobs,
            program: self.program,
            record: self.record,
        })
    }
}

/// The setting of a flag: texts are read as on the command line, other values are taken as they are.
fn of_flag(study: &Study, name: &str, value: &Value) -> Result<Setting, StudyError> {
    let flag = study.flags.iter().find(|flag| flag.name == name);
    let Some(flag) = flag else {
        return Err(StudyError::whole(format!("{} has no flag `{name}`", study.name())));
    };
    let texts = |value: &Value| value.as_str().map(str::to_owned);
    match (flag.declared(study).0, value) {
        (FlagValue::Switch(_) | FlagValue::Word(_), Value::Boolean(true)) => {
            flag.setting(study, &[])
        }
        (_, Value::String(text)) => flag.setting(study, std::slice::from_ref(text)),
        (FlagValue::Texts(_), Value::Array(all)) if all.iter().all(Value::is_str) => {
            flag.setting(study, &all.iter().filter_map(texts).collect::<Vec<_>>())
        }
        _ => Ok(Setting::new(flag.path, value.clone()).by(format!("--{name}"))),
    }
}
