//! The tools of `bench/run`: table, load, forwarder, route changes and plots. Each prints one JSON
//! line; `bench/run` starts them in network namespaces, beside the router or its peer.

mod balance;
mod churn;
mod forward;
mod load;
mod nap;
mod pause;
mod plot;
mod table;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tools of `bench/run`
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load two interfaces with 64-byte packets and count what comes back
    Load(load::Load),
    /// Forward between two interfaces by station address, without any table
    Forward(forward::Forward),
    /// Balance between two interfaces as a cluster's balancer does
    Balance(balance::Balance),
    /// Put the routes of a file into this namespace's kernel
    Table(table::Table),
    /// Change routes at a stated pace
    Churn(churn::Churn),
    /// Sleep as a worker does and count what that costs
    Nap(nap::Nap),
    /// Draw CPU, energy and latency against load
    Plot(plot::Plot),
}

fn main() -> Result<()> {
    let line = match Options::parse().command {
        Command::Load(command) => command.run()?,
        Command::Forward(command) => command.run()?,
        Command::Balance(command) => command.run()?,
        Command::Table(command) => command.run()?,
        Command::Churn(command) => command.run()?,
        Command::Nap(command) => command.run()?,
        Command::Plot(command) => command.run()?,
    };
    println!("{line}");
    Ok(())
}
