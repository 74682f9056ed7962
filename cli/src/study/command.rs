//! The studies of the catalogue as subcommands.

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use ebb_scenario::Setting;
use ebb_study::{Flag, FlagValue, Kind, Study, StudyError};

use super::args::StudyArgs;
use super::run::run;

/// The scenario's argument.
const SCENARIO: &str = "scenario";
/// The option for any setting.
const SET: &str = "set";

/// A study that was asked for.
#[derive(Debug)]
struct Asked {
    study: &'static Study,
    args: StudyArgs,
    /// Flags that were given, with the words behind them.
    flags: Vec<(&'static Flag, Vec<String>)>,
}

/// Simulators, one for each system
#[derive(Debug)]
pub struct Sim(Asked);

/// Planners, one for each system
#[derive(Debug)]
pub struct Plan(Asked);

/// Questions about forwarding tables of fabrics
#[derive(Debug)]
pub struct Fabric(Asked);

macro_rules! commands_of_kind {
    ($command:ident, $kind:expr) => {
        impl $command {
            /// Runs it.
            pub fn run(self) -> Result<ExitCode> {
                let settings = self.0.settings();
                run(self.0.study, &self.0.args, settings)
            }
        }

        impl Subcommand for $command {
            fn augment_subcommands(command: Command) -> Command {
                let studies = ebb_catalogue::of($kind).map(command_of);
                command.subcommands(studies).subcommand_required(true).arg_required_else_help(true)
            }

            fn augment_subcommands_for_update(command: Command) -> Command {
                Self::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                ebb_catalogue::find($kind, name).is_some()
            }
        }

        impl FromArgMatches for $command {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok($command(Asked::read($kind, matches)?))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                self.0 = Asked::read($kind, matches)?;
                Ok(())
            }
        }
    };
}
commands_of_kind!(Sim, Kind::Sim);
commands_of_kind!(Plan, Kind::Plan);
commands_of_kind!(Fabric, Kind::Tools("fabric"));

impl Asked {
    fn read(kind: Kind, matches: &ArgMatches) -> Result<Asked, Error> {
        let missing = || Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (system, matches) = matches.subcommand().ok_or_else(missing)?;
        let study = ebb_catalogue::find(kind, system).ok_or_else(missing)?;
        let given = |flag: &&Flag| {
            matches.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine)
        };
        let words = |flag: &'static Flag| {
            let words = matches.try_get_many::<String>(flag.name).ok().flatten();
            (flag, words.into_iter().flatten().cloned().collect())
        };
        let flags = study.named_settings().filter(given).map(words).collect();
        Ok(Asked { study, args: StudyArgs::from_arg_matches(matches)?, flags })
    }

    fn settings(&self) -> Result<Vec<Setting>, StudyError> {
        self.flags.iter().map(|(flag, words)| flag.setting(self.study, words)).collect()
    }
}

fn command_of(study: &'static Study) -> Command {
    let (name, mut help) = (study.name(), "Examples:".to_owned());
    for example in study.examples {
        help += &format!("\n  ebb {name} {example}");
    }
    if !study.notes.is_empty() {
        help += &format!("\n\n{}", study.notes);
    }
    let command = Command::new(study.system).about(study.about).after_help(help);
    let arguments = study.arguments.iter().map(|flag| {
        let arg = arg_of(study, flag).value_name(flag.name);
        arg.required_unless_present(SCENARIO)
    });
    let flags = study.flags.iter().map(|flag| arg_of(study, flag).long(flag.name));
    let command = StudyArgs::augment_args(command)
        .about(study.about)
        .args(arguments)
        .next_help_heading("Settings of the scenario, without a file")
        .args(flags);
    let command = command.mut_arg("emit", |emit| match study.emits {
        "" => emit.hide(true),
        _ => emit,
    });
    let set = |set: Arg| set.value_parser(AnySetting(study)).hide_possible_values(true);
    let command = command.mut_arg(SET, set);
    if !study.arguments.is_empty() {
        return tool(study, command);
    }
    command.mut_arg(SCENARIO, |scenario| match study.flags.len() {
        0 => scenario.required(true),
        _ => scenario.required_unless_present_any(study.flags.iter().map(|flag| flag.name)),
    })
}

/// A question: its arguments are settings, and a scenario is one more option.
fn tool(study: &Study, command: Command) -> Command {
    let out = |arg: Arg| match study.makes {
        "" => arg.help("Directory for the report; without it none is written"),
        makes => arg.help(makes).value_name("OUT"),
    };
    let json = |arg: Arg| arg.help("Print the answer as JSON");
    let seed = |arg: Arg| arg.help("Seed of what is generated at random [default: 0]");
    let command = command.mut_arg("out", out).mut_arg("json", json).mut_arg("seed", seed);
    command.mut_arg(SCENARIO, |scenario| scenario.long(SCENARIO))
}

/// A setting of a study, told to shells: any text passes, as ranges and lists do.
#[derive(Clone)]
struct AnySetting(&'static Study);

impl TypedValueParser for AnySetting {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let paths = self.0.schema?().paths();
        Some(Box::new(paths.into_iter().map(|path| PossibleValue::new(format!("{path}=")))))
    }
}

fn arg_of(study: &Study, flag: &'static Flag) -> Arg {
    let (value, about) = flag.declared(study);
    let arg = Arg::new(flag.name).help(about);
    match value {
        FlagValue::Text(name)
        | FlagValue::Value(name)
        | FlagValue::List(name)
        | FlagValue::Declared(name) => arg.value_name(name),
        FlagValue::Texts(name) => arg.value_name(name).action(ArgAction::Append),
        FlagValue::Switch(_) | FlagValue::Word(_) => arg.action(ArgAction::SetTrue),
    }
}
