//! Whether packet filters accept a packet whatever else it holds: the proof by which the kernel path forwards packets of
//! established connections without asking the filters.
//!
//! The rules are asked as the kernel asks them, with what is known of the packet: its family, its transport
//! protocol and, where connections are looked up already, that its connection is established. A rule whose outcome
//! depends on anything else may match or not, and both have to end well. A rule that does something beside
//! deciding (counts, logs, marks, limits) ends badly where the packet may reach it: what it does would not be done.

use std::collections::BTreeMap;

use ebb_host::netlink::policy::{
    Chain, Decision, Element, Expression, Hook, Loaded, Place, Ruleset,
};
use ebb_ports::afxdp::CONNECTION_MARK;

/// At prerouting, connections are looked up here (`NF_IP_PRI_CONNTRACK`).
pub(super) const CONNECTIONS: i32 = -200;
/// `NF_CT_STATE_BIT(IP_CT_ESTABLISHED)`.
const ESTABLISHED: [u8; 4] = 2_u32.to_ne_bytes();
/// Chains that one packet may go through; the kernel has 16 levels.
const DEPTH_MAX: u32 = 16;
/// Rules that one proof asks, so that chains which lead to each other cost no more.
const STEPS_MAX: u32 = 200_000;

/// What is known of a packet.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub v6: bool,
    /// `None`: any protocol.
    pub transport: Option<u8>,
    /// Its connection is established; `false`: nothing is known of one.
    pub established: bool,
}

/// Whether the chain accepts all packets of a family without doing anything else.
pub(super) fn accepts_all(chain: &Chain, rules: &Ruleset, v6: bool) -> bool {
    accepts(chain, rules, Known { v6, transport: None, established: false })
}

/// Whether the chain accepts all TCP and UDP packets of established connections without doing anything else.
pub(super) fn accepts_established(chain: &Chain, rules: &Ruleset, v6: bool) -> bool {
    let known = |transport| Known { v6, transport: Some(transport), established: true };
    chain.first_only || [6, 17].into_iter().all(|transport| accepts(chain, rules, known(transport)))
}

/// What rules do that needs no connection.
const WITHOUT_CONNECTION: [&str; 10] =
    ["counter", "log", "limit", "quota", "last", "reject", "queue", "meta", "payload", "notrack"];

/// Whether rules that forwarded packets may meet ask for connections: then the kernel looks them up for all packets, and
/// puts fragments together. Chains of the host's own packets alone decide nothing about others by what they
/// ask; a chain that translates addresses has the kernel see to those of all packets.
pub(super) fn track(chains: &[Chain], rules: &Ruleset) -> bool {
    let own = |chain: &&Chain| matches!(chain.hook, Hook::Input | Hook::Output);
    let places = |wanted: bool| {
        let of = chains.iter().filter(move |chain| own(chain) == wanted);
        rules.reach(of.filter_map(|chain| chain.place.as_ref()))
    };
    let (of_host, of_others) = (places(true), places(false));
    let asks = |one: &Expression| match one {
        Expression::Load(_, Loaded::State | Loaded::Elsewhere) => true,
        Expression::Does(what) => !WITHOUT_CONNECTION.contains(&&what[..]),
        _ => false,
    };
    let met = |place: &Place| of_others.contains(place) || !of_host.contains(place);
    chains.iter().any(|chain| chain.first_only)
        || rules.chains.iter().any(|(place, rules)| met(place) && rules.iter().flatten().any(asks))
}

/// Whether some rule gives connections the mark by which the user says that they need no rule any more.
pub(super) fn marks(rules: &Ruleset) -> bool {
    let value = CONNECTION_MARK.to_ne_bytes();
    let marks = |rule: &Vec<Expression>| {
        rule.iter().any(|one| matches!(one, Expression::Does(what) if what == "ct mark"))
            && rule.iter().any(|one| match one {
                Expression::Value(_, known) => *known == value,
                Expression::Mask(_, _, _, flipped) => *flipped == value,
                _ => false,
            })
    };
    rules.chains.values().flatten().any(marks)
}

fn accepts(chain: &Chain, rules: &Ruleset, known: Known) -> bool {
    let Some(place) = chain.place.as_ref().filter(|_| !chain.strange) else { return false };
    let known = match chain.hook {
        Hook::Prerouting if chain.priority <= CONNECTIONS => Known { established: false, ..known },
        _ => known,
    };
    let mut asking = Asking { rules, known, steps: 0 };
    let ends = asking.chain(place, 0);
    !(ends.badly || ends.behind && chain.drops)
}

/// How asking rules may end: badly, or behind the last one asked. (Accepted is the third way, and needs no word.)
#[derive(Clone, Copy, Default)]
struct Ends {
    badly: bool,
    behind: bool,
    /// Like `behind`, but for the rest of the chain.
    returned: bool,
}

const BADLY: Ends = Ends { badly: true, behind: false, returned: false };

struct Asking<'a> {
    rules: &'a Ruleset,
    known: Known,
    steps: u32,
}

impl<'a> Asking<'a> {
    /// All rules of a chain.
    fn chain(&mut self, place: &Place, depth: u32) -> Ends {
        let mut ends = Ends { behind: true, ..Ends::default() };
        if depth > DEPTH_MAX {
            return BADLY;
        }
        let rules = self.rules;
        let mut returned = false;
        for rule in rules.chains.get(place).map(Vec::as_slice).unwrap_or_default() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return BADLY;
            }
            let of = self.rule(rule, place, depth);
            ends.badly |= of.badly;
            returned |= of.returned;
            ends.behind = of.behind;
            if ends.badly || !ends.behind {
                break;
            }
        }
        ends.behind |= returned;
        ends
    }

    fn rule(&mut self, rule: &[Expression], place: &Place, depth: u32) -> Ends {
        let mut ends = Ends::default();
        let mut values: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (at, one) in rule.iter().enumerate() {
            let is_last = at + 1 == rule.len();
            let matches = match one {
                Expression::Load(to, loaded) => {
                    put(&mut values, *to, self.value_of(*loaded));
                    // Where there is nothing to load, the rule ends.
                    match loaded {
                        Loaded::State | Loaded::Family | Loaded::Protocol | Loaded::Transport => {
                            Some(true)
                        }
                        _ => None,
                    }
                }
                Expression::Value(to, value) => {
                    put(&mut values, *to, Some(value.clone()));
                    Some(true)
                }
                Expression::Mask(from, to, mask, flipped) => {
                    let masked = values.get(from).and_then(|value| masked(value, mask, flipped));
                    put(&mut values, *to, masked);
                    Some(true)
                }
                Expression::MapInto(_, to) => {
                    put(&mut values, *to, None);
                    None
                }
                Expression::Equal(register, value, wanted) => {
                    let found = values.get(register).filter(|found| found.len() == value.len());
                    found.map(|found| (found == value) == *wanted)
                }
                Expression::Sometimes | Expression::Between(..) => None,
                Expression::In(register, set, inverted) => {
                    let elements = self.elements(place, set);
                    let found = values.get(register).zip(elements);
                    found.map(|(value, all)| all.iter().any(|(key, _)| key == value) != *inverted)
                }
                Expression::Map(register, set) => {
                    let Some(all) = self.elements(place, set) else { return BADLY };
                    let value = values.get(register);
                    let mut found = false;
                    for (_, decision) in
                        all.iter().filter(|(key, _)| value.is_none_or(|value| value == key))
                    {
                        found = true;
                        let Some(decision) = decision else { return BADLY };
                        let decision = decision.in_rule(is_last);
                        ends = ends.or(self.decide(decision, place, depth));
                    }
                    // It does not match where the map has nothing.
                    if value.is_none() || !found {
                        ends.behind = true;
                    }
                    return ends;
                }
                Expression::Decide(decision) => {
                    return ends.or(self.decide(decision.in_rule(is_last), place, depth));
                }
                Expression::Does(_) => return BADLY,
            };
            match matches {
                Some(true) => {}
                Some(false) => return Ends { behind: true, ..ends },
                None => ends.behind = true,
            }
        }
        Ends { behind: true, ..ends }
    }

    fn decide(&mut self, decision: &Decision, place: &Place, depth: u32) -> Ends {
        let mut other = |chain: &String| {
            let other = (place.0, place.1.clone(), chain.clone());
            self.chain(&other, depth + 1)
        };
        match decision {
            Decision::Accept => Ends::default(),
            Decision::Continue => Ends { behind: true, ..Ends::default() },
            Decision::Return => Ends { returned: true, ..Ends::default() },
            Decision::Jump(chain) => other(chain),
            Decision::Goto(chain) => {
                let ends = other(chain);
                Ends { returned: ends.behind, behind: false, ..ends }
            }
            Decision::Other => BADLY,
        }
    }

    fn value_of(&self, loaded: Loaded) -> Option<Vec<u8>> {
        match loaded {
            Loaded::State => self.known.established.then(|| ESTABLISHED.to_vec()),
            Loaded::Family => Some(vec![if self.known.v6 { 10 } else { 2 }]),
            Loaded::Transport => self.known.transport.map(|transport| vec![transport]),
            Loaded::Header { .. }
            | Loaded::Interface { .. }
            | Loaded::Protocol
            | Loaded::Packet
            | Loaded::Elsewhere => None,
        }
    }

    fn elements(&self, place: &Place, set: &str) -> Option<&'a [Element]> {
        let place = (place.0, place.1.clone(), set.to_owned());
        self.rules.sets.get(&place).map(Vec::as_slice)
    }
}

impl Ends {
    fn or(self, other: Ends) -> Ends {
        Ends {
            badly: self.badly | other.badly,
            behind: self.behind | other.behind,
            returned: self.returned | other.returned,
        }
    }
}

/// Puts a value into a register, or something that is not known; what began there or behind may be overwritten.
fn put(values: &mut BTreeMap<u32, Vec<u8>>, to: u32, value: Option<Vec<u8>>) {
    values.retain(|register, known| {
        *register < to && register + (known.len() as u32).div_ceil(4) <= to
    });
    if let Some(value) = value.filter(|_| to != u32::MAX) {
        values.insert(to, value);
    }
}

/// A value of which `mask` is kept and `flipped` turned over; what is behind the mask stays unknown.
fn masked(value: &[u8], mask: &[u8], flipped: &[u8]) -> Option<Vec<u8>> {
    let same = value.len() == mask.len() && value.len() == flipped.len();
    let bytes = || value.iter().zip(mask).zip(flipped).map(|((v, m), f)| v & m ^ f);
    same.then(|| bytes().collect())
}

#[cfg(test)]
mod tests;
