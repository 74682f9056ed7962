//! The kernel's packet policy as data: rules, filters, switches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

/// Where policy comes from; each can be read on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Routing rules (`ip rule`).
    Rules,
    /// Forwarding switches and reverse-path filters (`sysctl net.ipv4.conf`).
    Switches,
    /// IPsec policies (`ip xfrm policy`).
    Transforms,
    /// Packet filters: nftables, and the older iptables.
    Netfilter,
    /// Queueing disciplines and their filters (`tc`).
    TrafficControl,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 5] = [
        Source::Rules,
        Source::Switches,
        Source::Transforms,
        Source::Netfilter,
        Source::TrafficControl,
    ];
}

/// What a routing rule does with packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Looks the destination up in a table.
    Lookup(u32),
    /// Goes on with another rule.
    Goto(u32),
    /// Nothing.
    Nop,
    /// Discards, silently or with an ICMP error.
    Discard,
    /// Something else.
    Other(u8),
}

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// IPv6 or IPv4.
    pub v6: bool,
    /// Rules are asked in ascending order.
    pub priority: u32,
    /// Matches sources in this prefix only.
    pub from: Option<IpNet>,
    /// Matches destinations in this prefix only.
    pub to: Option<IpNet>,
    /// Matches packets received on this interface only; `lo`: the host's own.
    pub input: Option<String>,
    /// Matches packets whose outgoing interface is fixed beforehand, which forwarded ones' is not.
    pub output: Option<String>,
    /// What it does.
    pub action: RuleAction,
    /// Matches what its selectors do not.
    pub inverted: bool,
    /// The mark that packets must carry, under its mask.
    pub mark: Option<(u32, u32)>,
    /// Matches packets of sockets of some users only, never forwarded ones.
    pub by_user: bool,
    /// Looks up the table of the VRF concerned.
    pub vrf: bool,
    /// Has further selectors: type of service, protocol, ports, tunnel, flow label.
    pub further: bool,
    /// Has parts that are not known here: it may concern any packet, in any way.
    pub strange: bool,
    /// Passes over what the table finds in short prefixes or through some interfaces.
    pub suppresses: bool,
}

/// Switches of one interface and family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Interface index; `None`: those for all interfaces.
    pub link: Option<u32>,
    /// IPv6 or IPv4.
    pub v6: bool,
    /// `forwarding`.
    pub forwarding: bool,
    /// `force_forwarding`: IPv6 forwards what comes in here although it does not in general.
    pub force_forwarding: bool,
    /// `rp_filter`: 0 off, 1 strict, 2 loose. IPv4 only.
    pub reverse_path: u32,
    /// A switch that is not known here is on.
    pub strange: bool,
}

/// An IPsec policy that forwarded packets may meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// `out` or `fwd`.
    pub direction: &'static str,
    /// Sources concerned.
    pub from: IpNet,
    /// Destinations concerned.
    pub to: IpNet,
    /// Discards; otherwise transforms or, without templates, passes.
    pub blocks: bool,
    /// Transformations that it asks for.
    pub templates: u32,
    /// For packets of an XFRM interface, or with a mark, only.
    pub special: bool,
    /// Has parts that are not known here: it may do anything to the packets it concerns.
    pub strange: bool,
    /// The least goes first.
    pub priority: u32,
    /// Is a tunnel, or allows, as [`crate::netlink::xfrm::Tunnels`] tells.
    pub told: bool,
    /// Allows what a tunnel would take that somebody else carries; never as it is read.
    pub goes_before_tunnels: bool,
}

/// All IPsec policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transforms {
    /// In the kernel's order.
    pub policies: Vec<Transform>,
    /// What no policy matches is discarded (`ip xfrm policy setdefault`).
    pub blocks_by_default: bool,
    /// Policies whose selectors are not understood: each may concern any packet.
    pub not_understood: u32,
}

/// Protocols that a chain sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Both.
    Both,
}

/// Where in the kernel a chain is hooked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Before a driver's packet reaches the stack, on some interfaces.
    Ingress,
    /// Before an interface sends.
    Egress,
    /// Before routing.
    Prerouting,
    /// To the host itself.
    Input,
    /// Through the host.
    Forward,
    /// From the host itself.
    Output,
    /// After routing.
    Postrouting,
    /// One that is not known here.
    Other(u32),
}

/// Interfaces that a chain is bound to, present or to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The one of this name.
    Exact(String),
    /// All whose names begin so.
    Prefix(String),
    /// Which ones is not known here: any.
    Any,
}

impl DeviceName {
    /// Whether an interface of this name is one of them.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            DeviceName::Exact(exact) => exact == name,
            DeviceName::Prefix(prefix) => name.starts_with(prefix.as_str()),
            DeviceName::Any => true,
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Exact(name) => f.write_str(name),
            DeviceName::Prefix(prefix) => write!(f, "{prefix}*"),
            DeviceName::Any => f.write_str("any interface"),
        }
    }
}

/// A chain of a packet filter that is hooked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// As `nft list chains` or `iptables -t` would name it: family or program, table, chain.
    pub name: String,
    /// Which packets it sees.
    pub family: Family,
    /// Where.
    pub hook: Hook,
    /// Interfaces that an ingress or egress chain is bound to.
    pub devices: Vec<DeviceName>,
    /// Discards what its rules do not decide.
    pub drops: bool,
    /// Number of rules.
    pub rules: u32,
    /// Only first packets of a connection see it (type `nat`).
    pub first_only: bool,
    /// Chains of a hook are asked in ascending order.
    pub priority: i32,
    /// Where its rules are in a [`Ruleset`]; none of iptables-legacy.
    pub place: Option<Place>,
    /// Has parts that are not known here: it may do anything to the packets it sees.
    pub strange: bool,
}

/// A chain or set by its table's family, as the kernel numbers it, its table and its name.
pub type Place = (u8, String, String);

/// An element of a set: its key, and in a map of decisions what it decides.
pub type Element = (Vec<u8>, Option<Decision>);

/// Rules of nftables, as far as they can be told apart here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// The rules of each chain in order.
    pub chains: BTreeMap<Place, Vec<Vec<Expression>>>,
    /// Elements of sets and maps that nobody can change, by their keys; others are absent.
    pub sets: BTreeMap<Place, Vec<Element>>,
    /// Elements of all sets and maps of which a change is announced, as far as rules ask them; others are absent.
    pub ranges: BTreeMap<Place, Arc<Vec<Range>>>,
}

impl Ruleset {
    /// The chains that packets may come to from these on.
    pub fn reach<'a>(&'a self, from: impl IntoIterator<Item = &'a Place>) -> BTreeSet<&'a Place> {
        let mut found: BTreeSet<&Place> = BTreeSet::new();
        let mut ahead: Vec<&Place> = from.into_iter().collect();
        let mut targets: BTreeMap<(u8, &str, &str), &Place> = BTreeMap::new();
        for place in self.chains.keys() {
            targets.insert((place.0, &place.1, &place.2), place);
        }
        while let Some(place) = ahead.pop() {
            if !found.insert(place) {
                continue;
            }
            let to = |decision: &Decision| match decision {
                Decision::Jump(name) | Decision::Goto(name) => {
                    targets.get(&(place.0, &place.1[..], &name[..])).copied()
                }
                _ => None,
            };
            for one in self.chains.get(place).into_iter().flatten().flatten() {
                match one {
                    Expression::Decide(decision) => ahead.extend(to(decision)),
                    Expression::Map(_, set) => {
                        let set = (place.0, place.1.clone(), set.clone());
                        let of_table = |one: &&Place| one.0 == place.0 && one.1 == place.1;
                        match self.ranges.get(&set) {
                            Some(all) => {
                                let decisions = all.iter().filter_map(|one| one.decision.as_ref());
                                ahead.extend(decisions.filter_map(to));
                            }
                            // It may lead to any chain of the table.
                            None => ahead.extend(self.chains.keys().filter(of_table)),
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// An element of a set: keys from the first to the last, byte by byte as they are compared, and what it decides in a map of
/// decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub first: Vec<u8>,
    /// The last key; in a set of concatenations the last of each part.
    pub last: Vec<u8>,
    /// What it decides.
    pub decision: Option<Decision>,
}

/// A part of a rule: they are asked in order until one does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Puts something into a register (in units of 4 bytes).
    Load(u32, Loaded),
    /// Puts a value into a register.
    Value(u32, Vec<u8>),
    /// Masks the first register into the second, and flips bits.
    Mask(u32, u32, Vec<u8>, Vec<u8>),
    /// Matches a register that equals a value, or does not.
    Equal(u32, Vec<u8>, bool),
    /// Matches a register from a first to a last value, compared byte by byte, or one outside.
    Between(u32, Vec<u8>, Vec<u8>, bool),
    /// Matches sometimes.
    Sometimes,
    /// Matches a register that is in a set, or is not.
    In(u32, String, bool),
    /// Decides by what a map has for a register; does not match where it has nothing.
    Map(u32, String),
    /// Puts what a map has for a register into another one.
    MapInto(u32, u32),
    /// Decides.
    Decide(Decision),
    /// Does something beside matching: counts, logs, limits, changes.
    Does(String),
}

/// What is put into a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The state of the packet's connection.
    State,
    /// The family, in one byte.
    Family,
    /// The protocol above IP, in one byte.
    Transport,
    /// Bytes of a header.
    Header {
        /// Above IP, not IP itself.
        transport: bool,
        /// Where they begin.
        at: u16,
        /// How many there are.
        len: u16,
    },
    /// An interface: its index, or its name in 16 bytes.
    Interface {
        /// The one by which the packet leaves.
        sending: bool,
        /// By name.
        named: bool,
    },
    /// The family by the number that Ethernet has for it, in two bytes.
    Protocol,
    /// Anything else of the packet or its interfaces.
    Packet,
    /// Something that is not in the packet: what other parts of the kernel know of it.
    Elsewhere,
}

/// What a rule decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The packet passes this hook's chain.
    Accept,
    /// The next rule is asked.
    Continue,
    /// The rule behind the one that led here is asked.
    Return,
    /// Another chain's rules are asked, then the next one.
    Jump(String),
    /// Another chain's rules are asked instead.
    Goto(String),
    /// Anything else: dropped, queued.
    Other,
}

impl Decision {
    /// What it is where more of the same rule stands behind it, as behind a map: there `continue` goes on in the rule
    /// (`nft_do_chain`), which nobody here follows. All others end the rule.
    pub fn in_rule(&self, is_last: bool) -> &Decision {
        if *self == Decision::Continue && !is_last { &Decision::Other } else { self }
    }
}

/// What traffic control does at an interface beyond queueing packets as they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// Interface index.
    pub link: u32,
    /// Its kind: `htb`, `clsact`, ...
    pub kind: String,
    /// There is something at the receiving side.
    pub ingress: bool,
    /// There is something at the sending side.
    pub egress: bool,
    /// What is at the sending side may look at more than the packet and its interfaces, or is not known here.
    pub looks_elsewhere: bool,
}
