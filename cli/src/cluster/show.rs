//! `ebb cluster show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_clusterd::status::ClusterStatus;
use ebb_service::client;

use crate::watch::panel::scaled;

/// Show the state of a running cluster once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster show
  ebb cluster show --json | jq '.back_ends[] | select(.power == \"on\")'")]
pub struct Show {
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: super::Target,
}

impl Show {
    pub(super) fn run(self) -> Result<ExitCode> {
        let status: ClusterStatus = client(&self.target.socket)?.status()?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&status)?);
        } else {
            print!("{}", panel(&status));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A cluster's state in lines.
fn panel(now: &ClusterStatus) -> String {
    let mut text = format!(
        "cluster {} on {}, up {:.0} s; leader {}, plan {}, speaker {}, policy {}\n",
        now.cluster,
        now.member,
        now.uptime_seconds,
        now.leader.as_deref().unwrap_or("none"),
        now.version,
        now.speaker.as_deref().unwrap_or("none"),
        now.policy,
    );
    let energy = &now.energy;
    _ = write!(text, "the cluster draws {:.0} W ({})", energy.watts, energy.basis());
    if let Some(joules) = energy.joules_per_packet {
        _ = write!(text, ", {} per packet", scaled(joules, "J"));
    }
    text.push('\n');
    if !energy.unknown.is_empty() {
        let names = energy.unknown.join(" ");
        _ = writeln!(
            text,
            "without the balancers {names}: set `meter` or `power_w` of these members"
        );
    }
    if let Some(why) = &now.meter_failed {
        _ = writeln!(text, "the meter says nothing: {why}");
    }
    if let Some(why) = &now.store_failed {
        _ = writeln!(text, "the store does not answer: {why}");
    }
    for why in &now.store_refused {
        _ = writeln!(text, "{why}");
    }
    _ = writeln!(text, "\nback-end         power     up   share %  held  dead to");
    for one in &now.back_ends {
        let yes = |yes| if yes { "yes" } else { "no" };
        let dead = if one.dead_to.is_empty() { "-".to_owned() } else { one.dead_to.join(" ") };
        _ = writeln!(
            text,
            "{:<16} {:<9} {:<4} {:>7.1}  {:<5} {dead}",
            one.name,
            one.power,
            yes(one.up),
            100.0 * one.share,
            yes(one.held)
        );
    }
    _ = writeln!(text, "\nbalancer         acknowledged  packets/s");
    for one in &now.balancers {
        _ = writeln!(text, "{:<16} {:>12} {:>10.0}", one.name, one.version, one.load_pps);
    }
    if let Some(own) = &now.balancer {
        own_balancer(&mut text, own);
    }
    if !now.events.is_empty() {
        _ = writeln!(text, "\n{}", now.events.join("\n"));
    }
    text
}

fn own_balancer(text: &mut String, own: &ebb_clusterd::status::OwnBalancer) {
    let list = |names: &[String]| {
        if names.is_empty() { "nobody".to_owned() } else { names.join(" ") }
    };
    _ = writeln!(
        text,
        "\n\
         this balancer receives for {}; other live balancers: {}; took over {} times",
        list(&own.accepted),
        list(&own.peers),
        own.takeovers
    );
    for link in own.links.iter().filter(|link| !link.is_up()) {
        _ = writeln!(text, "{link}; the other links keep working");
    }
    let now = own.counters;
    _ = writeln!(
        text,
        "{} packets to back-ends, {} back; {} without a back-end, {} lost to full queues, {} \
        held; drains: {} complete, {} timed out; {} back-ends found dead",
        now.balanced,
        now.returned,
        now.homeless,
        now.overrun,
        now.held,
        now.drains,
        now.drains_cut,
        own.deaths
    );
    let lines = [
        (now.link_down, "frames for links that are down"),
        (now.probes_refused, "invalid answers to probes"),
        (now.claims, "claims of the cluster's addresses by other hosts"),
    ];
    for (count, what) in lines.into_iter().filter(|(count, _)| *count > 0) {
        _ = writeln!(text, "{count} {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_clusterd::status::{BackEndStatus, EnergyStatus, OwnBalancer};

    #[test]
    fn the_state_names_back_ends_and_counts() {
        let one = BackEndStatus {
            name: "r0".to_owned(),
            power: "on".to_owned(),
            up: true,
            share: 0.5,
            dead_to: vec!["m2".to_owned()],
            ..BackEndStatus::default()
        };
        let mut own = OwnBalancer { accepted: vec!["m1".to_owned()], ..OwnBalancer::default() };
        own.counters.balanced = 3000;
        let text = panel(&ClusterStatus {
            cluster: "edge".to_owned(),
            back_ends: vec![one],
            balancer: Some(own),
            energy: EnergyStatus {
                watts: 95.0,
                joules_per_packet: Some(1.25e-6),
                unknown: vec!["m1".to_owned()],
                ..EnergyStatus::default()
            },
            ..ClusterStatus::default()
        });
        assert!(text.contains("the cluster draws 95 W (modelled), 1.25 uJ per packet\n"), "{text}");
        assert!(text.contains("without the balancers m1: set `meter` or `power_w`"), "{text}");
        assert!(text.contains("r0               on        yes     50.0  no    m2"), "{text}");
        assert!(
            text.contains("3000 packets to back-ends") && text.contains("receives for m1"),
            "{text}"
        );
    }
}
