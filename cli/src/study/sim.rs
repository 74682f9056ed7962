use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use ebb_system_router::TwinError;

use super::args::StudyArgs;
use super::gating::GatingArgs;
use super::run::run;
use super::{Study, Subject, study};

/// Simulators, one for each system.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// The router: a server with its cores, queues and policies, packet by packet or in slots
    #[command(after_help = "\
Examples:
  ebb sim router examples/router-day.toml
  ebb sim router examples/router-day.toml --set policy.name=poll,napi,powersave
  ebb sim router examples/router-second.toml --set load=0.1..1.0:0.1 --jobs 2 --out sweep
  ebb sim router examples/router-second.toml --seeds 10
  ebb sim router examples/router-second.toml --set load=0.2,0.5 --until latency_us.p99=0.05

What was interrupted, a sweep or the seeds of a run, goes on where it stopped when the same command
runs again.")]
    Router(StudyArgs),
    /// A network on chip, flit by flit: virtual channels or slotted queues, planes with clocks of
    /// their own
    #[command(after_help = "\
Examples:
  ebb sim noc examples/noc-sim-uniform.toml
  ebb sim noc examples/noc-sim-uniform.toml --set load=0.05..0.45:0.05 --out curve
  ebb sim noc examples/noc-sim-uniform.toml --seeds 5 --set output.flows=true
  ebb sim noc examples/noc-sim-uniform.toml --saturation load=0.1..0.9
  ebb sim noc base.cfg --set load=0.2

A file whose name ends in .cfg is a configuration of BookSim 2; the scenario it is run as is in the run's
directory.")]
    Noc(StudyArgs),
    /// A lossless fabric: lanes, credits, links that go on and off under a regulator, changes of
    /// routing tables that cannot deadlock, or do
    #[command(after_help = "\
Examples:
  ebb sim fabric examples/fabric-torus.toml
  ebb sim fabric examples/fabric-collective.toml --set traffic.multipath=first,flow,packet,adaptive
  ebb sim fabric examples/fabric-deadlock.toml")]
    Fabric(StudyArgs),
    /// Programs whose system calls run on another core: cores of different size and clock, five ways of
    /// switching, energy
    #[command(after_help = "\
Examples:
  ebb sim coreswitch examples/coreswitch-web.toml
  ebb sim coreswitch examples/coreswitch-web.toml --set configuration=CC,CS,SS --set kernel=bound,V5")]
    Coreswitch(StudyArgs),
    /// Racks behind an optical circuit switch: queues per destination, days and nights, tokens, UDP
    /// and TCP
    #[command(after_help = "\
Examples:
  ebb sim circuit examples/circuit-sim.toml
  ebb sim circuit examples/circuit-sim.toml --set tokens=naive,aging,pacing
  ebb sim circuit examples/circuit-sim.toml --set day_us=61,100,200,300")]
    Circuit(StudyArgs),
    /// Cores that are power gated while they wait for memory: a trace of memory references through
    /// caches and DRAM, under every controller
    #[command(after_help = "\
Examples:
  ebb sim gating examples/gating-stream.toml
  ebb sim gating examples/gating-profile.toml --set leakage_share=0.1..0.6:0.1 --out sweep
  ebb sim gating --trace mcf.champsim.xz --core ev6 --controller all --json
  ebb sim gating --trace 429.mcf.gz --filtered --core io --controller oracle,tap,counter

Every core runs the trace from its beginning; controllers watch the same run, and each is charged
with the time by which it woke a core late. Exit status 2: a trace is damaged; the error names the
byte.")]
    Gating(Box<GatingArgs>),
    /// A cluster of servers behind balancers through its days: the live policies, flows, wake-ups,
    /// drains, failures and elections
    #[command(after_help = "\
Examples:
  ebb sim cluster examples/cluster-sim.toml
  ebb sim cluster examples/cluster-sim.toml --set policy=all,differential,optimum,predictive
  ebb sim cluster examples/cluster-sim.toml --set settings.headroom=0.1,0.2,0.3 --seeds 5")]
    Cluster(StudyArgs),
}

impl Sim {
    /// Simulates.
    pub fn run(self) -> Result<ExitCode> {
        let (system, study, args): (_, Study, _) = match self {
            Sim::Router(args) => ("router", study!(ebb_system_router::simulate, twin), args),
            Sim::Noc(args) => ("noc", study!(ebb_system_noc::simulate), args),
            Sim::Gating(args) => return args.run(),
            Sim::Fabric(args) => ("fabric", study!(ebb_system_fabric::simulate), args),
            Sim::Coreswitch(args) => ("coreswitch", study!(ebb_system_coreswitch::simulate), args),
            Sim::Circuit(args) => ("circuit", study!(ebb_system_circuit::simulate), args),
            Sim::Cluster(args) => ("cluster", study!(ebb_system_cluster::sim::simulate), args),
        };
        run(Subject { kind: "sim", system, study }, &args)
    }
}

/// What is wrong with a scenario is told apart from what went wrong in a run.
pub(super) fn twin(error: TwinError) -> anyhow::Error {
    match error {
        TwinError::Scenario(error) => error.into(),
        other => other.into(),
    }
}
