//! Simple Reconfiguration (Lysne and others 2004, 2008): tokens that part old packets from new ones
//! on every channel.
//!
//! Room: whether the tokens get through and how many rounds that takes. The rules: each injector
//! sends one token after its last old packet and only new packets after it; an input routes by the
//! old table until the token is at its head, then by the new one and only to outputs whose token has
//! gone; an output sends its token when the inputs it waits for have consumed theirs.

use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, Lane};
use crate::topology::{Peer, Topology};

/// Which inputs an output waits for before it sends its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Those from which old packets go to that output: the rule of the scheme.
    OldDependencies,
    /// All inputs of the switch: wrong. Two neighbours wait for each other's token, always.
    AllInputs,
}

/// How the tokens fare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// All get through; the longest chain of channels that wait for each other's token.
    Through {
        /// Channels in the chain.
        rounds: u32,
    },
    /// These channels never send theirs.
    Stuck {
        /// Its number.
        channels: u64,
        /// Each waits for the next, the last for the first.
        cycle: Vec<Channel>,
    },
}

/// Plays the tokens through the old dependency graph.
#[must_use]
pub fn play(topology: &Topology, old: &DependencyGraph, rule: Rule) -> Tokens {
    match rule {
        Rule::OldDependencies => through(old),
        Rule::AllInputs => through(&all_inputs(topology, old)),
    }
}

/// Kahn's order: a channel's token goes when those of all channels before it have.
fn through(waits: &DependencyGraph) -> Tokens {
    let mut before = vec![0u32; waits.channel_bound()];
    for channel in waits.channels() {
        waits.successors(channel).for_each(|next| before[next.index()] += 1);
    }
    let mut ready: Vec<Channel> =
        waits.channels().filter(|channel| before[channel.index()] == 0).collect();
    let (mut rounds, mut gone) = (0, 0u64);
    while !ready.is_empty() {
        rounds += 1;
        gone += ready.len() as u64;
        let mut then = Vec::new();
        for next in ready.iter().flat_map(|channel| waits.successors(*channel)) {
            before[next.index()] -= 1;
            if before[next.index()] == 0 {
                then.push(next);
            }
        }
        ready = then;
    }
    let channels = waits.channels().count() as u64 - gone;
    if channels == 0 {
        return Tokens::Through { rounds };
    }
    let cycle = crate::dependency::cycle::Cycles::of(waits).example;
    Tokens::Stuck { channels, cycle }
}

fn all_inputs(topology: &Topology, old: &DependencyGraph) -> DependencyGraph {
    let mut waits = DependencyGraph::new(topology);
    let lanes = old.lanes();
    let used = || (0..LANES as Lane).filter(|lane| lanes >> lane & 1 == 1);
    for index in 0..topology.port_count() {
        let Peer::Switch(switch, _) = topology.peer_at(index) else { continue };
        for output in 1..=topology.switch(switch).ports {
            for (from, to) in used().flat_map(|from| used().map(move |to| (from, to))) {
                waits.insert(Channel::at(index, from), output, to);
            }
        }
    }
    waits
}
