//! From facts to a verdict. Where a selector cannot be told apart before a packet is looked at in
//! full, more than it matches goes to the kernel, never less; so does whatever an object could concern
//! that could not be read or has parts that are not known here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ebb_apps::route::ReversePath;
use ebb_host::netlink::policy::{Discipline, Switches, Transform};
use ebb_ports::afxdp::Side;
use ipnet::IpNet;

use super::judge::{Judge, Scope, all_of};
use super::rules::longer;
use super::{Facts, Mechanism, RouterInterface, Verdict};
use crate::status::PolicyEffect;

/// Added to the words for an object with parts that are not known here.
pub(super) const STRANGE: &str = ", partly unknown to Ebb";

/// What becomes of packets that come in at `places` under the kernel's policy, but for the
/// mechanisms in `ignored`.
pub fn evaluate(
    facts: &Facts,
    places: &[RouterInterface],
    ignored: &BTreeSet<Mechanism>,
) -> Verdict {
    let mut judge = Judge::new(places, ignored);
    judge.unread(facts);
    judge.enslaved();
    judge.forwarding(facts);
    for v6 in [false, true] {
        judge.rules(&facts.rules, v6);
    }
    judge.transforms(facts);
    judge.chains(&facts.chains, &facts.ruleset);
    facts.disciplines.iter().for_each(|discipline| judge.discipline(discipline));
    facts.local_networks.iter().for_each(|network| judge.local_network(*network));
    let reverse_path = judge.reverse_path(facts);
    let sending = std::mem::take(&mut judge.sending);
    let ([ports, kernel_path], objects) = judge.finish();
    Verdict { ports, kernel_path, sending, reverse_path, objects }
}

impl Judge<'_> {
    /// Which packets a source concerns that could not be read nobody knows.
    fn unread(&mut self, facts: &Facts) {
        for (source, error) in &facts.unread {
            let mechanism = Mechanism::of_source(*source);
            // The switches are those of two mechanisms.
            let whole = mechanism != Mechanism::Forwarding || self.is_ignored(Mechanism::RpFilter);
            let words = || (format!("cannot be read: {error}"), "all packets".to_owned());
            let scope = Scope::Families(true, true);
            match whole {
                true => self.leave(mechanism, &scope, words),
                false => self.leave(Mechanism::Unheld, &scope, words),
            }
        }
    }

    fn enslaved(&mut self) {
        for place in self.places.iter().filter(|place| place.enslaved) {
            let scope =
                Scope::RouterInterface { link: place.link, v4: true, v6: true, tagged: true };
            // No worker has an interface there, so nobody can wish to ignore it.
            self.enter(Mechanism::Vrf, &scope);
            self.note(Mechanism::Vrf, PolicyEffect::Kernel, || {
                let object = format!("{} is a port of another interface", place.name);
                (object, format!("all packets from {}", place.name))
            });
        }
    }

    fn forwarding(&mut self, facts: &Facts) {
        let of = |link: Option<u32>, v6: bool| {
            let mut of = facts.switches.iter();
            of.find(|known| known.link == link && known.v6 == v6)
        };
        let known = Known { v4: of(None, false), v6: of(None, true) };
        let by_link =
            facts.switches.iter().filter_map(|known| Some(((known.link?, known.v6), known)));
        let by_link: HashMap<(u32, bool), &Switches> = by_link.collect();
        for place in self.places.iter().filter(|place| !place.enslaved) {
            let own = |v6: bool| by_link.get(&(place.link, v6)).copied();
            // IPv4 asks the interface (`IN_DEV_FORWARD`), IPv6 the switch for all unless the
            // interface forces it (`ip6_forward`).
            let v4 = own(false).is_some_and(|known| known.forwarding);
            let v6 = known.v6.is_some_and(|all| all.forwarding)
                || own(true).is_some_and(|known| known.force_forwarding);
            if !v4 {
                self.off(place, false, || match known.v4.is_some_and(|all| all.forwarding) {
                    true => format!("net.ipv4.conf.{}.forwarding = 0", place.name),
                    false => "net.ipv4.ip_forward = 0".to_owned(),
                });
            }
            if !v6 {
                self.off(place, true, || "net.ipv6.conf.all.forwarding = 0".to_owned());
            } else if facts.without_v6.contains(&place.name) {
                self.off(place, true, || format!("net.ipv6.conf.{}.disable_ipv6 = 1", place.name));
            }
            for (v6, all) in [(false, known.v4), (true, known.v6)] {
                let strange = |known: &Switches| known.strange;
                if own(v6).is_some_and(strange) || all.is_some_and(strange) {
                    let family = if v6 { "ipv6" } else { "ipv4" };
                    let object = || format!("net.{family}.conf.{}{STRANGE}", place.name);
                    self.off(place, v6, object);
                }
            }
        }
    }

    /// A switch keeps packets of a family from being forwarded that come in at a place.
    fn off(&mut self, place: &RouterInterface, v6: bool, object: impl FnOnce() -> String) {
        let scope = Scope::RouterInterface { link: place.link, v4: !v6, v6, tagged: false };
        self.leave(Mechanism::Forwarding, &scope, || {
            let family = if v6 { "IPv6" } else { "IPv4" };
            (object(), format!("{family} packets from {}", place.name))
        });
    }

    fn transforms(&mut self, facts: &Facts) {
        let scope = Scope::Families(true, true);
        if facts.transforms.blocks_by_default {
            let words = || ("blocked by default".to_owned(), "all packets".to_owned());
            self.leave(Mechanism::Xfrm, &scope, words);
        }
        if facts.transforms.not_understood > 0 {
            let object = format!("{} of an unknown form", facts.transforms.not_understood);
            self.leave(Mechanism::Xfrm, &scope, || (object, "all packets".to_owned()));
        }
        for policy in &facts.transforms.policies {
            self.transform(policy);
        }
    }

    fn transform(&mut self, policy: &Transform) {
        let Transform { direction, from, to, blocks, templates, special, strange, .. } = policy;
        let action = match (blocks, templates) {
            (true, _) => "block",
            (false, 0) => "allow",
            (false, _) => "transform",
        };
        let more = if *strange { STRANGE } else { "" };
        let object = || format!("dir {direction} src {from} dst {to} {action}{more}");
        let is_of_no_effect = action == "allow" && !policy.goes_before_tunnels;
        if !*strange && (*special || is_of_no_effect) {
            let words = || (object(), "no forwarded packets".to_owned());
            return self.note(Mechanism::Xfrm, PolicyEffect::None, words);
        }
        let some = |net: &IpNet| (net.prefix_len() > 0).then_some(*net);
        let v6 = to.addr().is_ipv6();
        match longer(some(from), some(to)) {
            Some((side, net)) => {
                self.leave(Mechanism::Xfrm, &Scope::Prefix(side, net, None), || {
                    let word = if side == Side::Source { "from" } else { "to" };
                    (object(), format!("packets {word} {net}"))
                });
            }
            None => {
                let scope = Scope::Families(!v6, v6);
                self.leave(Mechanism::Xfrm, &scope, || (object(), all_of(v6)));
            }
        }
    }

    fn discipline(&mut self, discipline: &Discipline) {
        let Discipline { link, kind, ingress, egress, looks_elsewhere } = discipline;
        let Some(place) = self.place(*link) else { return };
        let (link, name) = (*link, &place.name);
        if *ingress {
            let scope = Scope::RouterInterface { link, v4: true, v6: true, tagged: true };
            self.leave(Mechanism::Tc, &scope, || {
                (
                    format!("{kind} with filters at {name}, receiving"),
                    format!("packets from {name}"),
                )
            });
        }
        if *egress {
            // Where a packet will leave is not known before it is looked up.
            let words = || {
                let concerns = "all packets, as they may leave there";
                (format!("{kind} at {name}, sending"), concerns.to_owned())
            };
            self.sending.insert(link);
            match looks_elsewhere {
                false => self.carry(Mechanism::Tc, &Scope::Families(true, true), words),
                true => self.leave(Mechanism::Tc, &Scope::Families(true, true), words),
            }
        }
    }

    /// Who names one of the host's own networks as its source is refused, unless `accept_local` is on
    /// (`__fib_validate_source`). Single addresses the ports know.
    fn local_network(&mut self, network: IpNet) {
        self.leave(Mechanism::RpFilter, &Scope::Prefix(Side::Source, network, None), || {
            (format!("local {network}"), format!("packets from {network}"))
        });
    }

    fn reverse_path(&mut self, facts: &Facts) -> BTreeMap<u32, ReversePath> {
        let of = facts.switches.iter().filter(|known| !known.v6);
        let values: HashMap<Option<u32>, u32> =
            of.map(|known| (known.link, known.reverse_path)).collect();
        let of = |link: Option<u32>| values.get(&link).copied().unwrap_or_default();
        let mut filters = BTreeMap::new();
        for place in self.places.iter().filter(|place| !place.enslaved) {
            // `IN_DEV_RPFILTER`: the larger of both.
            let value = of(None).max(of(Some(place.link)));
            let mode = match (value, place.has_v4) {
                (0, _) => continue,
                // Without an address of its own an interface takes what it would send back.
                (1, _) | (_, false) => ReversePath::Strict,
                _ => ReversePath::Loose,
            };
            let words = || {
                let word = if mode == ReversePath::Strict { "strict" } else { "loose" };
                let object = format!("net.ipv4.conf.{}.rp_filter = {value}, {word}", place.name);
                (object, format!("IPv4 packets from {}", place.name))
            };
            if self.is_ignored(Mechanism::RpFilter) {
                self.note(Mechanism::RpFilter, PolicyEffect::Ignored, words);
            } else if self.by_rules[0] {
                // The way back is looked up by rules that only the kernel follows.
                let scope =
                    Scope::RouterInterface { link: place.link, v4: true, v6: false, tagged: false };
                self.leave(Mechanism::Rules, &scope, words);
            } else {
                filters.insert(place.link, mode);
                self.note(Mechanism::RpFilter, PolicyEffect::Honoured, words);
            }
        }
        filters
    }
}

/// What the switches for all interfaces say.
struct Known<'a> {
    v4: Option<&'a Switches>,
    v6: Option<&'a Switches>,
}
