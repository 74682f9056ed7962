//! Chains of packet filters: which packets they concern, and which they accept whatever the packets hold.

use std::sync::Arc;

use ebb_host::netlink::policy::{Chain, DeviceName, Family, Hook, Ruleset};

use super::Mechanism;
use super::RouterInterface;
use super::accepted::{accepts_all, accepts_established, marks, track};
use super::compile::{Task, compile, decision};
use super::evaluate::STRANGE;
use super::judge::{Judge, Scope, all_of, families};
use crate::status::PolicyEffect;

/// What a chain that all packets pass makes of them.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Accepts,
    Established,
    /// Some packets, by what they hold; packets of established connections where connections are looked up.
    Rules,
    Asks,
}

impl Judge<'_> {
    /// All chains. What one of them may decide otherwise than by a connection is the kernel's.
    pub(super) fn chains(&mut self, chains: &[Chain], rules: &Ruleset) {
        let tracked = track(chains, rules);
        let of = |chain: &Chain| [false, true].map(|v6| way(chain, rules, tracked, v6));
        let ways: Vec<[Way; 2]> = chains.iter().map(of).collect();
        let marked = marks(rules);
        let ignored = self.is_ignored(Mechanism::Netfilter);
        let mut how = [Way::Accepts; 2];
        let mut compiled = [None, None];
        for (v6, how) in [false, true].into_iter().zip(&mut how) {
            let through = chains.iter().zip(&ways).filter(|(chain, _)| passes(chain, v6));
            let has =
                |wanted: Way| through.clone().any(|(_, ways)| ways[usize::from(v6)] == wanted);
            // Where nobody looks connections up there are none.
            let asks = has(Way::Asks) || !tracked && has(Way::Established);
            *how = match (asks, has(Way::Established)) {
                (true, _) => Way::Asks,
                (false, true) => Way::Established,
                (false, false) => Way::Accepts,
            };
            if ignored {
                continue;
            }
            if *how == Way::Asks {
                let asking: Vec<&Chain> = through
                    .filter(|(chain, ways)| match ways[usize::from(v6)] {
                        Way::Accepts => false,
                        Way::Established => !tracked,
                        _ => !(tracked && chain.first_only),
                    })
                    .map(|(chain, _)| chain)
                    .collect();
                let places = self.places;
                let task = Task { chains: &asking, rules, places, v6, established: tracked };
                compiled[usize::from(v6)] = compile(task);
            }
        }
        let mut decided = [false; 2];
        if let Some(decision) = decision(compiled.each_ref().map(Option::as_ref)) {
            decided = decision.families();
            self.only_by(&Arc::new(decision), Mechanism::Netfilter as u8);
        }
        for (v6, how) in [false, true].into_iter().zip(&mut how) {
            if decided[usize::from(v6)] {
                *how = Way::Rules;
            }
            let connections = match *how {
                Way::Accepts => false,
                Way::Established => true,
                Way::Rules => tracked,
                Way::Asks => marked,
            };
            if connections && !ignored {
                let by_mark = *how == Way::Asks || *how == Way::Rules && marked;
                self.only_connections(v6, by_mark, Mechanism::Netfilter as u8);
            }
        }
        for (chain, ways) in chains.iter().zip(ways) {
            self.chain(chain, ways, how, (marked, tracked));
        }
    }

    fn chain(
        &mut self,
        chain: &Chain,
        ways: [Way; 2],
        how: [Way; 2],
        (marked, tracked): (bool, bool),
    ) {
        let neutral = !chain.drops && chain.rules == 0 && !chain.strange;
        let (v4, v6) = (chain.family != Family::V6, chain.family != Family::V4);
        let fits =
            |place: &&RouterInterface| chain.devices.iter().any(|device| device.fits(&place.name));
        let bound: Vec<u32> = self.places.iter().filter(fits).map(|place| place.link).collect();
        let through = matches!(chain.hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting);
        let of_families = || families(v4, v6).map(|v6| ways[usize::from(v6)]);
        let none = match chain.hook {
            Hook::Input | Hook::Output => Some("only packets of this host"),
            _ if neutral => Some("no packets, as it accepts all"),
            Hook::Ingress | Hook::Egress if bound.is_empty() => Some("no forwarded packets"),
            _ if through && of_families().all(|way| way == Way::Accepts) => {
                Some("no packets, as it accepts all")
            }
            _ => None,
        };
        if let Some(concerns) = none {
            // Chains that are empty are not worth a line but where one would look for them.
            if !(neutral && matches!(chain.hook, Hook::Input | Hook::Output)) {
                let words = || (words_for(chain), concerns.to_owned());
                self.note(Mechanism::Netfilter, PolicyEffect::None, words);
            }
            return;
        }
        let concerns = || if v4 && v6 { "all packets".to_owned() } else { all_of(v6) };
        let scope = Scope::Families(v4, v6);
        if through {
            // Once for each family of which something else comes.
            let alike = how[0] == how[1];
            let parts: &[(bool, bool)] = match (v4, v6) {
                (true, true) if !alike => &[(true, false), (false, true)],
                both => &[both],
            };
            for (v4, v6) in parts.iter().copied() {
                self.through(chain, (v4, v6), how[usize::from(!v4)], (marked, tracked));
            }
            return;
        }
        // Those of the sending side do not see what a program before the network stack sends (`nf_skip_egress`).
        if chain.hook != Hook::Ingress {
            return self.leave(Mechanism::Netfilter, &scope, || (words_for(chain), concerns()));
        }
        let ignored = self.is_ignored(Mechanism::Netfilter);
        for link in bound.into_iter().filter(|_| !ignored) {
            self.enter(
                Mechanism::Netfilter,
                &Scope::RouterInterface { link, v4, v6, tagged: true },
            );
        }
        let effect = if ignored { PolicyEffect::Ignored } else { PolicyEffect::Kernel };
        self.note(Mechanism::Netfilter, effect, || {
            let devices: Vec<String> = chain.devices.iter().map(DeviceName::to_string).collect();
            (words_for(chain), format!("packets from {}", devices.join(", ")))
        });
    }
}

impl Judge<'_> {
    /// A chain that packets of these families pass.
    fn through(
        &mut self,
        chain: &Chain,
        (v4, v6): (bool, bool),
        how: Way,
        (marked, tracked): (bool, bool),
    ) {
        let scope = Scope::Families(v4, v6);
        let concerns = if v4 && v6 { "all packets".to_owned() } else { all_of(v6) };
        let family = if v4 && v6 { "" } else { of_family(v6) };
        let of = match how {
            Way::Asks if !marked => {
                let words = || (words_for(chain), concerns);
                return self.leave(Mechanism::Netfilter, &scope, words);
            }
            Way::Asks => "packets of marked connections",
            Way::Rules if tracked => "packets of established connections that rules accept",
            Way::Rules => "packets that rules accept",
            Way::Established => "packets of established connections",
            Way::Accepts => {
                let none = format!("no {family}packets, as it accepts all");
                let words = || (words_for(chain), none);
                return self.note(Mechanism::Netfilter, PolicyEffect::None, words);
            }
        };
        let carried = format!("{family}{of} (all others: left to the kernel)");
        let ignored = self.is_ignored(Mechanism::Netfilter);
        let words = || (words_for(chain), if ignored { concerns } else { carried });
        self.carry(Mechanism::Netfilter, &scope, words);
    }
}

fn of_family(v6: bool) -> &'static str {
    if v6 { "IPv6 " } else { "IPv4 " }
}

/// Whether all forwarded packets of the family pass the chain.
fn passes(chain: &Chain, v6: bool) -> bool {
    let of_family = match chain.family {
        Family::V4 => !v6,
        Family::V6 => v6,
        Family::Both => true,
    };
    of_family && matches!(chain.hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting)
}

fn way(chain: &Chain, rules: &Ruleset, tracked: bool, v6: bool) -> Way {
    let neutral = !chain.drops && chain.rules == 0 && !chain.strange;
    if !passes(chain, v6) || neutral || !tracked && accepts_all(chain, rules, v6) {
        Way::Accepts
    } else if accepts_established(chain, rules, v6) {
        Way::Established
    } else {
        Way::Asks
    }
}

fn words_for(chain: &Chain) -> String {
    let policy = if chain.drops { "drop" } else { "accept" };
    let count = match chain.rules {
        1 => "1 rule".to_owned(),
        rules => format!("{rules} rules"),
    };
    let more = if chain.strange { STRANGE } else { "" };
    format!("{}: policy {policy}, {count}{more}", chain.name)
}
