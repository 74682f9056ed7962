//! `ebb fabric`: forwarding tables of InfiniBand fabrics, checked, compared, made and converted.
//!
//! Room: arguments, files and words; what is judged and made is `ebb_system_fabric`'s. Every command
//! answers with the same exit status: 0 safe or done, 1 unsafe, 2 the input cannot be read.

mod check;
mod check_transition;
mod convert;
mod files;
mod route;

use std::process::ExitCode;

use clap::Subcommand;

/// The commands on fabrics.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check one set of tables: reachable, loop-free, deadlock-free
    Check(check::Check),
    /// Check whether one set of tables can replace another while packets flow
    CheckTransition(check_transition::CheckTransition),
    /// Compute tables for a fabric and prove them sound
    Route(route::Route),
    /// Convert a fabric between formats, or write a generated fabric
    Convert(convert::Convert),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Check(command) => command.run(),
            Command::CheckTransition(command) => command.run(),
            Command::Route(command) => command.run(),
            Command::Convert(command) => command.run(),
        }
    }
}

/// Exit status of input that cannot be read.
const UNREADABLE: u8 = 2;

/// Says what is wrong with the input.
fn unreadable(error: &impl std::fmt::Display) -> ExitCode {
    eprintln!("ebb: {error}");
    ExitCode::from(UNREADABLE)
}

/// Exit status of a verdict.
fn verdict(safe: bool) -> ExitCode {
    if safe { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// GUID, LID and cable of each hop, where that is asked for.
fn hops(
    out: &mut impl std::io::Write,
    places: &[ebb_system_fabric::dependency::ChannelLabel],
    details: bool,
) -> std::io::Result<()> {
    for hop in places.iter().filter(|_| details) {
        let ebb_system_fabric::dependency::ChannelLabel {
            switch,
            port,
            lane,
            guid,
            lid,
            to,
            to_port,
        } = hop;
        writeln!(
            out,
            "                 {switch} (GUID {guid}, LID {lid}) port {port} -> {to} port {to_port}, lane {lane}"
        )?;
    }
    Ok(())
}

/// Channels as a line: each waits for the next, the last for the first.
fn chain(places: &[ebb_system_fabric::dependency::ChannelLabel]) -> String {
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" -> ")
}
