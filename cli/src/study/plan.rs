use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use super::args::StudyArgs;
use super::circuit::CircuitArgs;
use super::cluster::ClusterArgs;
use super::noc::NocArgs;
use super::run::run;
use super::sim::twin;
use super::{Study, Subject, study};

/// Planners, one for each system.
#[derive(Debug, Subcommand)]
pub enum Plan {
    /// The router: the cheapest cores and frequency for each load, what each policy would draw on
    /// your traffic, and the least that anybody could
    #[command(after_help = "\
Examples:
  ebb plan router examples/router-my-traffic.toml
  ebb plan router examples/router-my-traffic.toml --set headroom=0.1,0.2,0.3 --json")]
    Router(StudyArgs),
    /// A network on chip: the least power that is possible, and how close routings and planes come
    #[command(after_help = "\
Examples:
  ebb plan noc --mesh 5x5 --traffic hotspot
  ebb plan noc --mesh 8x8 --traffic transpose --planes 2 --json
  ebb plan noc --mesh 4x4 --traffic task:mpeg4.csv --normalise xy
  ebb plan noc --mesh 5x5 --traffic uniform --normalise xy --planes 2 --alphas 1.5,3
  ebb plan noc --mesh 5x5 --traffic normal --certificate --json | docs/verify_bound.py -
  ebb plan noc examples/noc-hotspot.toml --set load=0.2..1.0:0.2")]
    Noc(Box<NocArgs>),
    /// A lossless fabric: the fewest links that carry the traffic, and what a regulator leaves on
    #[command(after_help = "\
Examples:
  ebb plan fabric examples/fabric-plan.toml
  ebb plan fabric examples/fabric-plan.toml --json")]
    Fabric(StudyArgs),
    /// Core switching: from which length of a system call on it pays to run it on another core, in time
    /// and in energy
    #[command(after_help = "\
Examples:
  ebb plan coreswitch examples/coreswitch-web.toml
  ebb plan coreswitch examples/coreswitch-measured.toml --json")]
    Coreswitch(StudyArgs),
    /// A cluster of servers behind a balancer: which to buy, which to run, and how far that is from
    /// the least
    #[command(after_help = "\
Examples:
  ebb plan cluster --catalogue examples/cluster-catalogue.csv --demand examples/cluster-demand.csv
  ebb plan cluster --catalogue servers.csv --demand day.csv --budget 5000 --json
  ebb plan cluster examples/cluster-plan.toml --set budget=5000..6500:500

A server whose power_full_w and power_idle_w differ draws between them in proportion to its load.")]
    Cluster(Box<ClusterArgs>),
    /// An optical circuit switch: when which input is connected to which output, by seven schedulers,
    /// and the most that any could serve
    #[command(after_help = "\
Examples:
  ebb plan circuit --demand csv:examples/circuit-demand.csv --delta 0.01 --window 1 --scheduler all --json
  ebb plan circuit --demand sparse:64 --delta 0.02 --scheduler eclipse,tms-bottleneck
  ebb plan circuit examples/circuit-plan.toml --set delta=0.01,0.02,0.05

JSON: schedulers.NAME has served (share of the demand), direct (share by direct circuits), days,
longest_day and schedule, a list of { duration, matching } in order: matching[i] is the output of input
i, and each day comes after a night of delta. bound is the most that any schedule serves directly.")]
    Circuit(Box<CircuitArgs>),
    /// Power gating of cores that wait for memory: which controller pays from which leakage share,
    /// wake-up time and number of cores on
    #[command(after_help = "\
Examples:
  ebb plan gating examples/gating-plan.toml
  ebb plan gating examples/gating-plan.toml --json")]
    Gating(StudyArgs),
}

impl Plan {
    /// Plans.
    pub fn run(self) -> Result<ExitCode> {
        let (system, study, args): (_, Study, _) = match self {
            Plan::Router(args) => ("router", study!(ebb_system_router::plan::plan, twin), args),
            Plan::Noc(args) => return args.run(),
            Plan::Cluster(args) => return args.run(),
            Plan::Circuit(args) => return args.run(),
            Plan::Gating(args) => ("gating", study!(ebb_system_gating::plan), args),
            Plan::Fabric(args) => ("fabric", study!(ebb_system_fabric::plan), args),
            Plan::Coreswitch(args) => ("coreswitch", study!(ebb_system_coreswitch::plan), args),
        };
        run(Subject { kind: "plan", system, study }, &args)
    }
}
