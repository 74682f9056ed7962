//! From facts to a verdict. Where a selector cannot be told apart before a packet is looked at in
//! full, more than it matches goes to the kernel, never less.

use std::collections::BTreeSet;

use ebb_apps::route::ReversePath;
use ebb_host::netlink::policy::{
    Chain, Discipline, Family, Hook, Rule, RuleAction, Switches, Transform,
};
use ebb_host::netlink::{TABLE_LOCAL, TABLE_MAIN};
use ebb_ports::afxdp::Side;
use ipnet::IpNet;

use super::{Facts, Mechanism, Place, Verdict};
use crate::status::{PolicyEffect, PolicyObject};

const TABLE_DEFAULT: u32 = 253;

/// What becomes of packets that come in at `places` under the kernel's policy, but for the
/// mechanisms in `ignored`.
pub fn evaluate(facts: &Facts, places: &[Place], ignored: &BTreeSet<Mechanism>) -> Verdict {
    let mut judge = Judge { places, ignored, verdict: Verdict::default() };
    judge.enslaved();
    judge.forwarding(&facts.switches);
    for v6 in [false, true] {
        judge.rules(&facts.rules, v6);
    }
    judge.transforms(facts);
    facts.chains.iter().for_each(|chain| judge.chain(chain));
    facts.disciplines.iter().for_each(|discipline| judge.discipline(discipline));
    judge.reverse_path(facts);
    judge.verdict
}

struct Judge<'a> {
    places: &'a [Place],
    ignored: &'a BTreeSet<Mechanism>,
    verdict: Verdict,
}

/// Which packets an object concerns.
enum Scope {
    /// All of these families (IPv4, IPv6), wherever they come in.
    Families(bool, bool),
    /// All that come in at one interface; with those of its VLANs if it is a port and `tagged`.
    Place { link: u32, v4: bool, v6: bool, tagged: bool },
    /// From or to a prefix, at these ports' interfaces, or at all.
    Prefix(Side, IpNet, Option<u32>),
}

impl Judge<'_> {
    /// Notes an object of which a packet filter or the like is made, and leaves what it concerns
    /// to the kernel unless it is ignored.
    fn leave(&mut self, mechanism: Mechanism, object: String, concerns: String, scope: &Scope) {
        let ignored = self.ignored.contains(&mechanism);
        if !ignored {
            self.enter(mechanism, scope);
        }
        let effect = if ignored { PolicyEffect::Ignored } else { PolicyEffect::Kernel };
        self.note(mechanism, object, concerns, effect);
    }

    fn note(
        &mut self,
        mechanism: Mechanism,
        object: String,
        concerns: String,
        effect: PolicyEffect,
    ) {
        let mechanism = mechanism.name().to_owned();
        self.verdict.objects.push(PolicyObject { mechanism, object, concerns, effect });
    }

    fn enter(&mut self, mechanism: Mechanism, scope: &Scope) {
        let reason = mechanism as u8;
        for place in self.places {
            let policy = self.verdict.ports.entry(place.port).or_default();
            match *scope {
                Scope::Families(v4, v6) => {
                    for v6 in families(v4, v6).filter(|_| place.vlan == 0) {
                        policy.leave_all(v6, reason);
                    }
                }
                Scope::Place { link, v4, v6, tagged } if link == place.link => {
                    for v6 in families(v4, v6) {
                        match tagged && place.vlan == 0 {
                            true => policy.leave_all(v6, reason),
                            false => policy.leave_vlan(v6, place.vlan, reason),
                        }
                    }
                }
                Scope::Prefix(side, net, at) if at.is_none_or(|link| link == place.link) => {
                    policy.leave_prefix(side, net.addr(), net.prefix_len(), reason);
                }
                _ => {}
            }
        }
        self.verdict.ports.retain(|_, policy| !policy.is_empty());
    }

    fn named(&self, name: &str) -> Option<u32> {
        self.places.iter().find(|place| place.name == name).map(|place| place.link)
    }

    fn enslaved(&mut self) {
        for place in self.places.iter().filter(|place| place.enslaved) {
            let scope = Scope::Place { link: place.link, v4: true, v6: true, tagged: true };
            // No worker has an interface there, so nobody can wish to ignore it.
            self.enter(Mechanism::Vrf, &scope);
            let object = format!("{} belongs to another interface", place.name);
            let concerns = format!("all packets from {}", place.name);
            self.note(Mechanism::Vrf, object, concerns, PolicyEffect::Kernel);
        }
    }

    fn forwarding(&mut self, switches: &[Switches]) {
        let of = |link: Option<u32>, v6: bool| {
            switches.iter().find(|known| known.link == link && known.v6 == v6)
        };
        for place in self.places.iter().filter(|place| !place.enslaved) {
            // IPv4 asks the interface (`IN_DEV_FORWARD`), IPv6 the switch for all unless the
            // interface forces it (`ip6_forward`).
            let v4 = of(Some(place.link), false).is_some_and(|known| known.forwarding);
            let v6 = of(None, true).is_some_and(|all| all.forwarding)
                || of(Some(place.link), true).is_some_and(|known| known.force_forwarding);
            let all4 = of(None, false).is_some_and(|all| all.forwarding);
            let object4 = match all4 {
                true => format!("net.ipv4.conf.{}.forwarding = 0", place.name),
                false => "net.ipv4.ip_forward = 0".to_owned(),
            };
            let object6 = "net.ipv6.conf.all.forwarding = 0".to_owned();
            for (on, v6, object) in [(v4, false, object4), (v6, true, object6)] {
                if !on {
                    let family = if v6 { "IPv6" } else { "IPv4" };
                    let concerns = format!("{family} packets from {}", place.name);
                    let scope = Scope::Place { link: place.link, v4: !v6, v6, tagged: false };
                    self.leave(Mechanism::Forwarding, object, concerns, &scope);
                }
            }
        }
    }

    fn rules(&mut self, rules: &[Rule], v6: bool) {
        let mut tables = Vec::new();
        for rule in rules.iter().filter(|rule| rule.v6 == v6) {
            match rule.action {
                RuleAction::Lookup(table) if is_plain(rule) && !rule.suppresses => {
                    tables.push(table);
                }
                _ => self.rule(rule),
            }
        }
        let usual: &[u32] = match v6 {
            false => &[TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT],
            true => &[TABLE_LOCAL, TABLE_MAIN],
        };
        // Without any rules the family is not there.
        if tables != usual && rules.iter().any(|rule| rule.v6 == v6) {
            let object = format!("tables in the order {tables:?} instead of {usual:?}");
            self.leave(Mechanism::Rules, object, all_of(v6), &Scope::Families(!v6, v6));
        }
    }

    /// A rule that is not one of the usual ones.
    fn rule(&mut self, rule: &Rule) {
        let object = describe(rule);
        let harmless = match rule.action {
            RuleAction::Nop => true,
            // Looks where Ebb looks; what it passes over is found later, or by another rule.
            RuleAction::Lookup(table) => rule.vrf || matches!(table, TABLE_LOCAL | TABLE_MAIN),
            _ => false,
        };
        let never = rule.by_user
            || rule.output.is_some()
            || rule.input.as_deref() == Some("lo")
            || rule.mark.is_some_and(|(mark, mask)| mark & mask != 0);
        let input = rule.input.as_deref().map(|name| self.named(name));
        if harmless || !rule.inverted && (never || input == Some(None)) {
            let concerns = "no packets that Ebb forwards".to_owned();
            return self.note(Mechanism::Rules, object, concerns, PolicyEffect::None);
        }
        let input = input.flatten().filter(|_| !rule.inverted);
        let prefix = longer(rule.from, rule.to).filter(|_| !rule.inverted);
        let (scope, concerns) = match (prefix, input) {
            (Some((side, net)), at) => {
                let word = if side == Side::Source { "from" } else { "to" };
                (Scope::Prefix(side, net, at), format!("packets {word} {net}"))
            }
            (None, Some(link)) => {
                let name = rule.input.as_deref().unwrap_or_default();
                let scope = Scope::Place { link, v4: !rule.v6, v6: rule.v6, tagged: false };
                (scope, format!("packets from {name}"))
            }
            (None, None) => (Scope::Families(!rule.v6, rule.v6), all_of(rule.v6)),
        };
        self.leave(Mechanism::Rules, object, concerns, &scope);
    }

    fn transforms(&mut self, facts: &Facts) {
        if facts.transforms.blocks_by_default {
            let object = "blocked by default".to_owned();
            let scope = Scope::Families(true, true);
            self.leave(Mechanism::Xfrm, object, "all packets".into(), &scope);
        }
        for policy in &facts.transforms.policies {
            self.transform(policy);
        }
    }

    fn transform(&mut self, policy: &Transform) {
        let Transform { direction, from, to, blocks, templates, special } = policy;
        let action = match (blocks, templates) {
            (true, _) => "block",
            (false, 0) => "allow",
            (false, _) => "transform",
        };
        let object = format!("dir {direction} src {from} dst {to} {action}");
        if *special || action == "allow" {
            let concerns = "no packets that Ebb forwards".to_owned();
            return self.note(Mechanism::Xfrm, object, concerns, PolicyEffect::None);
        }
        let some = |net: &IpNet| (net.prefix_len() > 0).then_some(*net);
        let v6 = to.addr().is_ipv6();
        match longer(some(from), some(to)) {
            Some((side, net)) => {
                let word = if side == Side::Source { "from" } else { "to" };
                let concerns = format!("packets {word} {net}");
                self.leave(Mechanism::Xfrm, object, concerns, &Scope::Prefix(side, net, None));
            }
            None => self.leave(Mechanism::Xfrm, object, all_of(v6), &Scope::Families(!v6, v6)),
        }
    }

    fn chain(&mut self, chain: &Chain) {
        let neutral = !chain.drops && chain.rules == 0;
        let policy = if chain.drops { "drop" } else { "accept" };
        let count = match chain.rules {
            1 => "1 rule".to_owned(),
            rules => format!("{rules} rules"),
        };
        let object = format!("{}: policy {policy}, {count}", chain.name);
        let (v4, v6) = (chain.family != Family::V6, chain.family != Family::V4);
        let bound: Vec<u32> = chain.devices.iter().filter_map(|name| self.named(name)).collect();
        let none = match chain.hook {
            Hook::Input | Hook::Output => Some("the host's own packets only"),
            _ if neutral => Some("no packets: it accepts all"),
            Hook::Ingress | Hook::Egress if bound.is_empty() => {
                Some("no packets that Ebb forwards")
            }
            _ => None,
        };
        if let Some(concerns) = none {
            // Chains that are empty are not worth a line but where one would look for them.
            if !(neutral && matches!(chain.hook, Hook::Input | Hook::Output)) {
                self.note(Mechanism::Netfilter, object, concerns.into(), PolicyEffect::None);
            }
            return;
        }
        if chain.hook != Hook::Ingress {
            let concerns = match (v4, v6) {
                (true, true) => "all packets".to_owned(),
                _ => all_of(v6),
            };
            return self.leave(Mechanism::Netfilter, object, concerns, &Scope::Families(v4, v6));
        }
        let ignored = self.ignored.contains(&Mechanism::Netfilter);
        for link in bound.into_iter().filter(|_| !ignored) {
            self.enter(Mechanism::Netfilter, &Scope::Place { link, v4, v6, tagged: true });
        }
        let concerns = format!("packets from {}", chain.devices.join(", "));
        let effect = if ignored { PolicyEffect::Ignored } else { PolicyEffect::Kernel };
        self.note(Mechanism::Netfilter, object, concerns, effect);
    }

    fn discipline(&mut self, discipline: &Discipline) {
        let Discipline { link, kind, ingress, egress } = discipline;
        let Some(place) = self.places.iter().find(|place| place.link == *link) else { return };
        let (link, name) = (*link, place.name.clone());
        if *ingress {
            let scope = Scope::Place { link, v4: true, v6: true, tagged: true };
            let object = format!("{kind} with filters at {name}, receiving");
            self.leave(Mechanism::Tc, object, format!("packets from {name}"), &scope);
        }
        if *egress {
            // Where a packet will leave is not known before it is looked up.
            let object = format!("{kind} at {name}, sending");
            let scope = Scope::Families(true, true);
            self.leave(
                Mechanism::Tc,
                object,
                "all packets, for they may leave there".into(),
                &scope,
            );
        }
    }

    fn reverse_path(&mut self, facts: &Facts) {
        let of = |link: Option<u32>| {
            let known = facts.switches.iter().find(|known| known.link == link && !known.v6);
            known.map_or(0, |known| known.reverse_path)
        };
        let by_rules = facts.rules.iter().any(|rule| !rule.v6 && !is_plain(rule))
            && self.verdict.objects.iter().any(|object| {
                object.mechanism == Mechanism::Rules.name() && object.effect == PolicyEffect::Kernel
            });
        for place in self.places.iter().filter(|place| !place.enslaved) {
            // `IN_DEV_RPFILTER`: the larger of both.
            let value = of(None).max(of(Some(place.link)));
            let mode = match (value, place.has_v4) {
                (0, _) => continue,
                // Without an address of its own an interface takes what it would send back.
                (1, _) | (_, false) => ReversePath::Strict,
                _ => ReversePath::Loose,
            };
            let word = if mode == ReversePath::Strict { "strict" } else { "loose" };
            let object = format!("net.ipv4.conf.{}.rp_filter = {value}, {word}", place.name);
            let concerns = format!("IPv4 packets from {}", place.name);
            if self.ignored.contains(&Mechanism::RpFilter) {
                self.note(Mechanism::RpFilter, object, concerns, PolicyEffect::Ignored);
            } else if by_rules {
                // The way back is looked up by rules that only the kernel follows.
                let scope = Scope::Place { link: place.link, v4: true, v6: false, tagged: false };
                self.leave(Mechanism::Rules, object, concerns, &scope);
            } else {
                self.verdict.reverse_path.insert(place.link, mode);
                self.note(Mechanism::RpFilter, object, concerns, PolicyEffect::Honoured);
            }
        }
    }
}

fn families(v4: bool, v6: bool) -> impl Iterator<Item = bool> {
    [(v4, false), (v6, true)].into_iter().filter(|(on, _)| *on).map(|(_, v6)| v6)
}

fn all_of(v6: bool) -> String {
    format!("all {} packets", if v6 { "IPv6" } else { "IPv4" })
}

/// Whether a rule matches every packet.
fn is_plain(rule: &Rule) -> bool {
    !rule.inverted
        && rule.from.is_none()
        && rule.to.is_none()
        && rule.input.is_none()
        && rule.output.is_none()
        && rule.mark.is_none()
        && !rule.by_user
        && !rule.vrf
        && !rule.further
}

/// The more telling of two selectors.
fn longer(from: Option<IpNet>, to: Option<IpNet>) -> Option<(Side, IpNet)> {
    let length = |net: &Option<IpNet>| net.map_or(0, |net| net.prefix_len());
    if length(&from) >= length(&to) && from.is_some() {
        from.map(|net| (Side::Source, net))
    } else {
        to.map(|net| (Side::Destination, net))
    }
}

fn describe(rule: &Rule) -> String {
    let mut words = vec![format!("{}:", rule.priority)];
    if rule.inverted {
        words.push("not".into());
    }
    words.push(rule.from.map_or("from all".into(), |net| format!("from {net}")));
    words.extend(rule.to.map(|net| format!("to {net}")));
    words.extend(rule.input.as_ref().map(|name| format!("iif {name}")));
    words.extend(rule.output.as_ref().map(|name| format!("oif {name}")));
    words.extend(rule.mark.map(|(mark, mask)| format!("fwmark {mark:#x}/{mask:#x}")));
    if rule.by_user {
        words.push("uidrange".into());
    }
    if rule.further {
        words.push("(further selectors)".into());
    }
    words.push(match rule.action {
        RuleAction::Lookup(_) if rule.vrf => "lookup l3mdev-table".into(),
        RuleAction::Lookup(table) => format!("lookup {table}"),
        RuleAction::Goto(target) => format!("goto {target}"),
        RuleAction::Nop => "nop".into(),
        RuleAction::Discard => "discard".into(),
        RuleAction::Other(action) => format!("action {action}"),
    });
    if rule.v6 { format!("-6 {}", words.join(" ")) } else { words.join(" ") }
}
