//! What a system declares about one thing that can be done with it.

use ebb_report::{Experiment, Report};
use ebb_scenario::schema::{Kind as ValueKind, Presence};
use ebb_scenario::{Document, Files, Progress, Schema, Setting};

use crate::StudyError;
use crate::outside::{Governed, Policies};

/// What a point's `status` is where nothing went wrong.
pub(crate) const STABLE: &str = "stable";

/// A simulator or planner: a function of its scenario, the files it names and a seed.
pub type Run = fn(&Document, &dyn Files, u64, &dyn Progress) -> Result<Report, StudyError>;

/// One thing that can be done with a system, with all that faces have to know about it.
#[derive(Debug)]
pub struct Study {
    /// The system: `router`.
    pub system: &'static str,
    /// What it is, in a sentence without a full stop.
    pub about: &'static str,
    /// Command lines that show it, without the program, the kind and the system.
    pub examples: &'static [&'static str],
    /// What is to be said beside the examples; may be empty.
    pub notes: &'static str,
    /// Settings that make a run of any scenario short, for those who only try whether it runs.
    pub quick: &'static [&'static str],
    /// Figures that matter most: drawn first, watched by `--until`.
    pub headlines: &'static [&'static str],
    /// What its scenario may hold, where that is declared.
    pub schema: Option<fn() -> Schema>,
    /// What it may hold instead, where one study answers two questions.
    pub other: Option<fn() -> Schema>,
    /// Settings that are arguments of the command line, in their order.
    pub arguments: &'static [Flag],
    /// Settings that are flags of the command line, too.
    pub flags: &'static [Flag],
    /// What it makes at the place that the user names; empty where that is the directory of its report.
    pub makes: &'static str,
    /// The figure of its report that is a file by itself, which `--emit` writes; empty where there is none.
    pub emits: &'static str,
    /// The seed where none is given.
    pub seed: u64,
    /// How it runs under a policy from outside, where it can.
    pub governed: Option<Governed>,
    /// What is done.
    pub work: Work,
}

/// What a study does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Simulates what a scenario describes.
    Sim(Run),
    /// Plans what a scenario describes.
    Plan(Run),
    /// Computes what was published.
    Reproduce(fn() -> Vec<&'static dyn Experiment>),
    /// Reads another program's file as a scenario.
    Import(Import),
    /// Answers a question about files: a command of the group of this name.
    Tool(&'static str, Run),
}

/// How another program's file becomes a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// How names of such files end, without the dot.
    pub extension: &'static str,
    /// Whether a text is such a file, whatever its name; never for what only names tell.
    pub recognises: fn(&str) -> bool,
    /// What the scenario is for.
    pub kind: Kind,
    /// The scenario, in TOML, from the file's text.
    pub read: fn(&str) -> Result<String, StudyError>,
}

/// Kinds of studies, by which faces sort them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Simulators.
    Sim,
    /// Planners.
    Plan,
    /// Published numbers.
    Reproduce,
    /// Readers of other programs' files.
    Import,
    /// Answers to questions, a group of commands under this name.
    Tools(&'static str),
}

impl Kind {
    /// As the command line says it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Sim => "sim",
            Kind::Plan => "plan",
            Kind::Reproduce => "reproduce",
            Kind::Import => "import",
            Kind::Tools(group) => group,
        }
    }
}

impl Study {
    /// A study with nothing but its name and what it does.
    pub const fn new(system: &'static str, about: &'static str, work: Work) -> Study {
        let (examples, quick, headlines): (&[&str], &[&str], &[&str]) = (&[], &[], &[]);
        Study {
            system,
            about,
            examples,
            notes: "",
            quick,
            headlines,
            schema: None,
            other: None,
            arguments: &[],
            flags: &[],
            makes: "",
            emits: "",
            seed: 1,
            governed: None,
            work,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.work {
            Work::Sim(_) => Kind::Sim,
            Work::Plan(_) => Kind::Plan,
            Work::Reproduce(_) => Kind::Reproduce,
            Work::Import(_) => Kind::Import,
            Work::Tool(group, _) => Kind::Tools(group),
        }
    }

    /// Kind and system, as the command line says them: `sim router`.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind().name(), self.system)
    }

    /// What runs it, where it has a scenario.
    fn runs(&self) -> Option<Run> {
        match self.work {
            Work::Sim(run) | Work::Plan(run) | Work::Tool(_, run) => Some(run),
            Work::Reproduce(_) | Work::Import(_) => None,
        }
    }

    /// Settings that the command line names by themselves: arguments, then flags.
    pub fn named_settings(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.arguments.iter().chain(self.flags)
    }

    /// Whether it has a scenario and can be run.
    pub fn has_scenario(&self) -> bool {
        self.runs().is_some()
    }

    /// Runs it once.
    ///
    /// # Errors
    /// What is wrong with the scenario, with its place; that it was stopped; or why it failed.
    ///
    /// # Panics
    /// When it is of a kind that has no scenario.
    pub fn run(
        &self,
        document: &Document,
        files: &dyn Files,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Report, StudyError> {
        let Some(run) = self.runs() else { panic!("{} has no scenario", self.name()) };
        run(document, files, seed, progress).map_err(|error| error.within(document))
    }

    /// Runs it once, under a policy from outside where there is one.
    ///
    /// # Errors
    /// As of [`Study::run`]; when it takes no such policy, and what the policy failed with.
    ///
    /// # Panics
    /// When it is of a kind that has no scenario.
    pub fn run_under(
        &self,
        policies: Option<&dyn Policies>,
        document: &Document,
        files: &dyn Files,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Report, StudyError> {
        let Some(policies) = policies else { return self.run(document, files, seed, progress) };
        let governed = self.governed()?;
        let outcome = (governed.run)(document, files, seed, progress, policies);
        outcome.map_err(|error| error.within(document))
    }

    /// Shows a policy, the scenario's own where none is brought, the record of this name.
    ///
    /// # Errors
    /// What is wrong with the scenario or the record; when it takes no such policy, and what the policy
    /// failed with.
    pub fn replay(
        &self,
        policies: Option<&dyn Policies>,
        document: &Document,
        files: &dyn Files,
        record: &str,
        progress: &dyn Progress,
    ) -> Result<Report, StudyError> {
        let outcome = (self.governed()?.replay)(document, files, record, progress, policies);
        outcome.map_err(|error| error.within(document))
    }

    fn governed(&self) -> Result<Governed, StudyError> {
        let message = || format!("`{}` is governed by no policy from outside", self.name());
        self.governed.ok_or_else(|| StudyError::whole(message()))
    }
}

/// A setting of the scenario that the command line has a flag of its own for.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The setting.
    pub path: &'static str,
    /// What follows it.
    pub value: FlagValue,
    /// What it does, in a sentence without a full stop; empty where the schema says it.
    pub about: &'static str,
}

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlagValue {
    /// A text, called so in the help.
    Text(&'static str),
    /// A number or another value that TOML knows, called so in the help.
    Value(&'static str),
    /// Numbers with commas between, called so in the help.
    List(&'static str),
    /// A text; the flag may be there several times.
    Texts(&'static str),
    /// What the schema says, called so in the help; nothing where that is a switch, which is turned on.
    Declared(&'static str),
    /// Nothing: the setting becomes this switch.
    Switch(bool),
    /// Nothing: the setting becomes this word.
    Word(&'static str),
}

impl Flag {
    /// A flag for a setting that the schema declares, with the name of what follows it.
    pub const fn of(name: &'static str, path: &'static str, value: &'static str) -> Flag {
        Flag { name, path, value: FlagValue::Declared(value), about: "" }
    }

    /// The same with everything that the study's schema says of its setting.
    ///
    /// # Panics
    /// When it is left to the schema, which does not know the setting.
    pub fn declared(&self, study: &Study) -> (FlagValue, String) {
        if !self.about.is_empty() {
            return (self.value, self.about.to_owned());
        }
        let schema = study.schema.expect("a schema that declares the flag's setting")();
        let field = schema.find(self.path);
        let field = field.unwrap_or_else(|| panic!("{}: no setting `{}`", study.name(), self.path));
        let value = match (self.value, &field.kind) {
            (FlagValue::Declared(_), ValueKind::Switch) => FlagValue::Switch(true),
            (FlagValue::Declared(name), ValueKind::Number | ValueKind::Whole) => {
                FlagValue::Value(name)
            }
            (FlagValue::Declared(name), ValueKind::List(..)) => FlagValue::List(name),
            (FlagValue::Declared(name), _) => FlagValue::Text(name),
            (other, _) => other,
        };
        let mut about = field.about.trim_end_matches('.').to_owned();
        if let ValueKind::Choice(words) = &field.kind {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            about += &format!(": {}", words.join(", "));
        }
        if let Presence::Default(default) = &field.presence
            && !matches!(field.kind, ValueKind::Switch)
            && default.as_array().is_none_or(|list| !list.is_empty())
        {
            about += &match default.as_str() {
                Some(word) => format!(" [default: {word}]"),
                None => format!(" [default: {default}]"),
            };
        }
        (value, about)
    }

    /// The setting that the flag makes of the words that followed it.
    ///
    /// # Errors
    /// When they are no values.
    pub fn setting(&self, study: &Study, words: &[String]) -> Result<Setting, StudyError> {
        let text = words.first().map_or("", String::as_str);
        let several = |words: Vec<String>| toml_list(&words);
        let written = match self.declared(study).0 {
            FlagValue::Text(_) | FlagValue::Declared(_) => quoted(text),
            FlagValue::Value(_) => text.to_owned(),
            FlagValue::List(_) => format!("[{text}]"),
            FlagValue::Texts(_) => several(words.iter().map(|word| quoted(word)).collect()),
            FlagValue::Switch(value) => value.to_string(),
            FlagValue::Word(word) => quoted(word),
        };
        let setting = Setting::parse(&format!("{}={written}", self.path))?;
        Ok(setting.by(format!("--{}", self.name)))
    }
}

fn toml_list(words: &[String]) -> String {
    format!("[{}]", words.join(", "))
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_setting() {
        let study = Study::new("s", "", Work::Reproduce(Vec::new));
        let flag = |value| Flag { name: "x", path: "a.b", value, about: "x" };
        let set = |value, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            flag(value).setting(&study, &words).expect("a setting").to_string()
        };
        assert_eq!(set(FlagValue::Text("T"), &["5"]), "a.b=5");
        assert_eq!(set(FlagValue::Text("T"), &["a \"b\" \\ c"]), "a.b=a \"b\" \\ c");
        assert_eq!(set(FlagValue::Value("N"), &["0.5"]), "a.b=0.5");
        assert_eq!(set(FlagValue::List("N,N"), &["1.5,3"]), "a.b=[1.5, 3]");
        assert_eq!(set(FlagValue::Texts("F"), &["x", "y"]), "a.b=[\"x\", \"y\"]");
        assert_eq!(set(FlagValue::Switch(false), &[]), "a.b=false");
        assert_eq!(set(FlagValue::Word("program"), &[]), "a.b=program");
    }
}
