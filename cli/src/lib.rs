//! The `ebb` command.
//!
//! Room: the outermost. It turns arguments into calls of the daemons and libraries and their
//! answers into text; one file per command holds its arguments, its help and its run. A library, with a program that
//! calls it: cargo compiles it beside the last of the crates below, where a program would wait for all of them.

#[cfg(feature = "systems")]
mod bench;
mod calibrate;
#[cfg(feature = "systems")]
mod cluster;
mod completion;
#[cfg(feature = "systems")]
mod dashboard;
mod demo;
mod doctor;
mod generator;
mod log;
mod manual;
#[cfg(feature = "systems")]
mod reproduce;
mod router;
#[cfg(feature = "systems")]
mod schema;
mod stage;
#[cfg(feature = "systems")]
mod study;
#[cfg(feature = "systems")]
mod switch;
#[cfg(feature = "systems")]
mod tor;
#[cfg(feature = "systems")]
mod trace;
mod traffic;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Packet switching whose power follows its traffic.
#[derive(Debug, Parser)]
#[command(name = "ebb", version, about, propagate_version = true, after_help = EXAMPLES)]
struct Ebb {
    #[command(subcommand)]
    command: Command,
}

#[cfg(not(feature = "systems"))]
const EXAMPLES: &str = "\
Examples:
  ebb demo                              see in a minute what it saves on this machine
  ebb doctor                            what this machine allows, and what would go wrong
  ebb router check -c router.toml       check a configuration
  sudo ebb router run -c router.toml    forward packets

This build contains the router, its test traffic and its calibration only.
`make build` builds the whole program with simulators, planners and reproductions.";

#[cfg(feature = "systems")]
const EXAMPLES: &str = "\
Examples:
  ebb demo                              see in a minute what it saves on this machine
  ebb doctor                            what this machine allows, and what would go wrong
  ebb router check -c router.toml       check a configuration
  sudo ebb router run -c router.toml    forward packets
  ebb router top                        watch a running router
  ebb sim router day.toml               try a policy on a simulated server
  ebb reproduce                         published numbers beside ours

Exit status: 0 success, 1 failure, 2 wrong usage or an invalid scenario, 3 packets lost
(traffic ... --strict), 4 sent less than requested (traffic send), 130 interrupted.
Messages go to standard error; EBB_LOG (error, warn, info, debug, trace) sets their level.";

#[derive(Debug, Subcommand)]
enum Command {
    /// The router: run, check a configuration, watch, replay captures
    #[command(subcommand)]
    Router(router::Command),
    #[cfg(feature = "systems")]
    /// One router made of many machines: run a member, watch, drain back-ends
    #[command(subcommand)]
    Cluster(cluster::Command),
    #[cfg(feature = "systems")]
    /// The top-of-rack switch for microsecond circuits: run, watch
    #[command(subcommand)]
    Tor(tor::Tor),
    #[cfg(feature = "systems")]
    /// An emulated optical circuit switch and the controller of its circuits
    #[command(subcommand)]
    Ocs(tor::Ocs),
    /// Send and receive test traffic
    #[command(subcommand)]
    Traffic(traffic::Command),
    #[cfg(feature = "systems")]
    /// Forwarding tables of InfiniBand fabrics: check, compare, compute, convert
    #[command(subcommand)]
    Fabric(study::Fabric),
    #[cfg(feature = "systems")]
    /// Traces of memory references: record from a program, convert, show
    #[command(subcommand)]
    Trace(trace::Command),
    /// Run a compressed working day through the router under each policy and compare their costs
    Demo(demo::Demo),
    #[cfg(feature = "systems")]
    /// Simulate a system that a scenario file describes, or a sweep over its values
    #[command(subcommand)]
    Sim(study::Sim),
    #[cfg(feature = "systems")]
    /// Plan a system: least power, cheapest operation, bounds
    #[command(subcommand)]
    Plan(study::Plan),
    #[cfg(feature = "systems")]
    #[command(subcommand)]
    Sweep(study::Sweep),
    #[cfg(feature = "systems")]
    Schema(schema::Schema),
    #[cfg(feature = "systems")]
    Dashboard(dashboard::Dashboard),
    #[cfg(feature = "systems")]
    /// Measure moving work between this machine's cores
    #[command(subcommand)]
    Bench(bench::Command),
    #[cfg(feature = "systems")]
    /// Run unmodified programs with their long system calls on another core
    #[command(subcommand)]
    Switch(switch::Command),
    #[cfg(feature = "systems")]
    /// Compute published results again and show both numbers side by side
    Reproduce(reproduce::Reproduce),
    /// Fit a model of this machine's power and speed, for the governor and the simulator
    Calibrate(calibrate::Calibrate),
    Doctor(doctor::Doctor),
    /// Print the completion script of a shell
    Completion(completion::Completion),
    /// Write the manual pages to a directory
    Manual(manual::Manual),
}

/// Does what the program's arguments say, and returns its exit status.
pub fn main() -> ExitCode {
    let ebb = Ebb::parse();
    log::start();
    let result = match ebb.command {
        Command::Router(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Tor(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Ocs(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Cluster(command) => command.run(),
        Command::Traffic(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Fabric(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Trace(command) => command.run(),
        Command::Demo(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Sim(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Plan(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Sweep(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Schema(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Dashboard(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Bench(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Switch(command) => command.run(),
        #[cfg(feature = "systems")]
        Command::Reproduce(command) => command.run(),
        Command::Calibrate(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Completion(command) => command.run(),
        Command::Manual(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            log::complain(&format_error(&error));
            ExitCode::FAILURE
        }
    }
}

/// Whether a program of this name can be found.
#[cfg(feature = "systems")]
fn is_installed(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|one| one.join(program).is_file())
}

/// An error with its causes, each said once: some errors quote their cause themselves.
fn format_error(error: &anyhow::Error) -> String {
    let mut out = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if out.contains(&cause) {
            continue;
        }
        out += if out.is_empty() { "" } else { ": " };
        out += &cause;
    }
    out
}

/// Says what a look at a configuration found.
#[cfg(feature = "systems")]
fn verdict(checked: anyhow::Result<()>) -> ExitCode {
    match checked {
        Ok(()) => {
            println!("configuration OK");
            ExitCode::SUCCESS
        }
        Err(error) => {
            log::complain(&format_error(&error));
            ExitCode::from(2)
        }
    }
}

/// Whoever read our output has had enough of it (`ebb ... | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_cause_is_said_once() {
        let quoted = anyhow::anyhow!("no such file").context("a.toml: no such file");
        assert_eq!(format_error(&quoted), "a.toml: no such file");
        let told = anyhow::anyhow!("no such file").context("a.toml").context("cannot start");
        assert_eq!(format_error(&told), "cannot start: a.toml: no such file");
    }

    #[test]
    fn the_arguments_are_consistent() {
        Ebb::command().debug_assert();
    }

    /// Every command a user can type explains itself with examples.
    #[test]
    fn every_command_has_examples() {
        fn visit(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if !command.has_subcommands() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:"), "`{}` shows no example", path.trim());
            }
            command.get_subcommands().for_each(|inner| visit(inner, &path));
        }
        visit(&Ebb::command(), "");
    }
}
