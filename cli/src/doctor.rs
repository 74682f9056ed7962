//! `ebb doctor`.

#[cfg(feature = "systems")]
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ebb_doctor::{Finding, Machine, Purpose, State};
use ebb_graph::PortId;
use ebb_host::Sysfs;
use ebb_ports::afxdp;
use ebb_routerd::config::{Config, ConfigError};
use ebb_routerd::status::{PolicyEffect, PolicyObject};
use ebb_routerd::{live, policy};
use serde_json::json;

/// Say what this machine allows, what would go wrong, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb doctor
  ebb doctor --all --json | jq '.findings[] | select(.state == \"warning\")'
  ebb doctor --for router eth1 eth2
  ebb doctor --for router --config /etc/ebb/router.toml
  ebb doctor --for measure

It reads and changes nothing. Each finding has an identifier that stays the same, what was found, what that
means for Ebb and, after an arrow, what to do about it. States: ok, note, unknown (the machine does not say,
or this user may not ask: try as root), warning (works, worse than it could), problem (does not work). Without
interfaces and without a configuration all devices of this network namespace are examined. The firewall, rules
and other policy of the kernel are judged as the router judges them (docs/policy.md).

Exit status: 0 no problem, 1 a problem, 2 wrong usage.")]
pub struct Doctor {
    /// Interfaces to examine; those of the configuration, or all devices, if none is named
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// What the machine is to do
    #[arg(long = "for", value_name = "PURPOSE", default_value = "router")]
    purpose: For,
    /// Also check this configuration, and examine its interfaces
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also show what is as it should be
    #[arg(short, long)]
    all: bool,
    /// Print all findings as JSON
    #[arg(long)]
    json: bool,
    /// Examine the machine whose /proc and /sys are below this directory, with no interfaces
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    root: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum For {
    /// Forward packets (ebb router)
    Router,
    /// Be a member of a cluster (ebb cluster)
    Cluster,
    /// Be a top-of-rack or an optical switch (ebb tor, ebb ocs)
    Tor,
    /// Measure what forwarding costs (ebb calibrate)
    Measure,
}

impl For {
    fn purpose(self) -> Purpose {
        match self {
            For::Router => Purpose::Router,
            For::Cluster => Purpose::Cluster,
            For::Tor => Purpose::Tor,
            For::Measure => Purpose::Measure,
        }
    }
}

impl Doctor {
    /// Examines the machine and prints what was found.
    pub fn run(self) -> Result<ExitCode> {
        let mut names = self.interfaces.clone();
        let mut findings = Vec::new();
        let mut router = None;
        if let Some(path) = &self.config {
            let (own, of_file, config) = of_configuration(path, self.purpose);
            names.extend(own.into_iter().filter(|name| !self.interfaces.contains(name)));
            findings = of_file;
            router = config;
        }
        let interfaces = match &self.root {
            Some(_) => Vec::new(),
            None => ebb_doctor::here(&names).context("cannot list the interfaces")?,
        };
        let files = Sysfs::new(self.root.clone().unwrap_or_else(|| "/".into()));
        let machine = Machine { files, interfaces, mtu_whole: afxdp::MTU_WHOLE };
        findings.extend(ebb_doctor::examine(&machine, self.purpose.purpose()));
        if matches!(self.purpose, For::Router) && self.root.is_none() {
            findings.extend(of_policy(&machine, router.as_ref()));
        }
        self.print(&findings)?;
        let bad = findings.iter().any(|finding| finding.state == State::Problem);
        Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn print(&self, findings: &[Finding]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let count = |state| findings.iter().filter(|finding| finding.state == state).count();
        if self.json {
            let good = count(State::Problem) == 0;
            writeln!(out, "{:#}", json!({ "good": good, "findings": findings }))?;
            return Ok(());
        }
        for finding in findings.iter().filter(|one| self.all || one.state != State::Ok) {
            writeln!(out, "{finding}")?;
        }
        let fine = count(State::Ok);
        let hint = if self.all || !out.is_terminal() { "" } else { " (--all shows them)" };
        writeln!(
            out,
            "{} problems, {} warnings, {} unknown, {} notes, {fine} as they should be{hint}",
            count(State::Problem),
            count(State::Warning),
            count(State::Unknown),
            count(State::Note)
        )?;
        Ok(())
    }
}

/// The interfaces that a configuration names, what its own check says of it, and the router's.
fn of_configuration(path: &Path, purpose: For) -> (Vec<String>, Vec<Finding>, Option<Config>) {
    #[cfg(feature = "systems")]
    let good = |names| {
        let words = format!("{} is valid", path.display());
        (names, vec![Finding::ok("config.valid", words)], None)
    };
    let bad = |error: anyhow::Error| {
        let words = crate::format_error(&error);
        (Vec::new(), vec![Finding::new("config.valid", State::Problem, words)], None)
    };
    match purpose {
        For::Router | For::Measure => of_router(path),
        #[cfg(feature = "systems")]
        For::Cluster => match ebb_clusterd::config::ClusterConfig::load(path) {
            Ok(config) => good(of_members(&config)),
            Err(error) => bad(error),
        },
        #[cfg(feature = "systems")]
        For::Tor => match ebb_tord::config::TorConfig::load(path) {
            Ok(config) => good(of_racks(&config)),
            Err(error) => bad(error),
        },
        #[cfg(not(feature = "systems"))]
        For::Cluster | For::Tor => bad(anyhow::anyhow!("this build contains the router only")),
    }
}

/// The balancers' interfaces that this machine has: the file is that of all members.
#[cfg(feature = "systems")]
fn of_members(config: &ebb_clusterd::config::ClusterConfig) -> Vec<String> {
    let balancers = config.member.iter().filter_map(|member| member.balancer.as_ref());
    let names = balancers.flat_map(|one| one.outside.iter().chain(&one.inside));
    let here: BTreeSet<String> =
        names.filter(|name| ebb_host::link::number(name).is_some()).cloned().collect();
    here.into_iter().collect()
}

#[cfg(feature = "systems")]
fn of_racks(config: &ebb_tord::config::TorConfig) -> Vec<String> {
    let mut names = vec![config.tor.control.clone()];
    for rack in &config.rack {
        names.push(rack.uplink.clone());
        names.extend(rack.host.iter().map(|host| host.name.clone()));
    }
    names
}

fn of_router(path: &Path) -> (Vec<String>, Vec<Finding>, Option<Config>) {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(ConfigError::Invalid(problems)) => {
            let found = problems.iter().map(|problem| {
                let said = format!(
                    "{}:{}: {}: {}",
                    problem.file, problem.line, problem.field, problem.message
                );
                let finding = Finding::new("config.valid", State::Problem, said);
                if problem.remedy.is_empty() { finding } else { finding.remedy(&problem.remedy) }
            });
            return (Vec::new(), found.collect(), None);
        }
        Err(other) => {
            let found = Finding::new("config.valid", State::Problem, other.to_string());
            return (Vec::new(), vec![found], None);
        }
    };
    let text = |state, words: &String, id: &str| Finding::new(id, state, words.clone());
    let check = live::preflight(&config);
    let mut found = vec![Finding::ok("config.valid", format!("{} is valid", path.display()))];
    found.extend(check.problems.iter().map(|words| {
        text(State::Problem, words, "config.start").meaning("the router would not start")
    }));
    found.extend(check.warnings.iter().map(|words| text(State::Warning, words, "config.start")));
    found.extend(check.paths.iter().map(|words| text(State::Ok, words, "config.path")));
    let names = config.ports.iter().map(|port| port.name.clone()).collect();
    (names, found, Some(config))
}

/// Forwarding switches of the whole machine.
const SWITCHES: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];

/// What the kernel's own policy does to packets between these interfaces, as the router sees it.
fn of_policy(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    let names = machine.interfaces.iter().filter(|one| one.index != 0).map(|one| &one.name);
    let ports: Vec<_> =
        (0u8..).zip(names).map(|(slot, name)| (PortId(slot), name.clone())).collect();
    let ignored = config.map(|config| config.kernel.ignore.clone()).unwrap_or_default();
    match policy::survey(&ports, &ignored) {
        Err(error) => vec![Finding::new("policy", State::Unknown, format!("{error:#}"))],
        Ok(mut objects) => {
            // The whole machine's switches are found as settings.
            objects.retain(|object| !SWITCHES.iter().any(|name| object.object.starts_with(name)));
            if objects.is_empty() {
                let found = "nothing else in the kernel decides on forwarded packets";
                return vec![Finding::ok("policy", found)];
            }
            objects.iter().map(of_object).collect()
        }
    }
}

/// One object of it.
fn of_object(object: &PolicyObject) -> Finding {
    let found = format!("{}; {}: {}", object.object, object.concerns, object.effect.words());
    let id = format!("policy.{}", object.mechanism);
    match object.effect {
        PolicyEffect::Kernel => Finding::new(&id, State::Warning, found)
            .meaning("these packets cost what the kernel's own forwarding costs")
            .remedy("see docs/policy.md: what Ebb carries out itself, and [kernel] ignore"),
        PolicyEffect::Ignored => Finding::new(&id, State::Note, found)
            .meaning("[kernel] ignore: packets that it would drop are forwarded"),
        _ => Finding::ok(&id, found),
    }
}
