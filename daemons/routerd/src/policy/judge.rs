//! Which packets an object concerns, and what is left to the kernel for the sake of all of them together.
//!
//! The work is linear in objects: prefixes that concern all ports are gathered once, whatever the number of
//! ports and VLANs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ebb_graph::PortId;
use ebb_ports::afxdp::{Decision, KernelPolicy, PREFIXES_MAX, Side};
use ipnet::IpNet;

use super::objects::Objects;
use super::{Mechanism, RouterInterface};
use crate::status::{PolicyEffect, PolicyObject};

/// Which packets an object concerns.
pub(super) enum Scope {
    /// All of these families (IPv4, IPv6), wherever they come in.
    Families(bool, bool),
    /// All that come in at one interface; with those of its VLANs if it is a port and `tagged`.
    RouterInterface { link: u32, v4: bool, v6: bool, tagged: bool },
    /// From or to a prefix, at these ports' interfaces, or at all.
    Prefix(Side, IpNet, Option<u32>),
}

/// What has been judged so far.
pub(super) struct Judge<'a> {
    pub(super) places: &'a [RouterInterface],
    ignored: &'a BTreeSet<Mechanism>,
    by_name: HashMap<&'a str, u32>,
    by_link: HashMap<u32, &'a RouterInterface>,
    ports: BTreeMap<PortId, KernelPolicy>,
    /// Prefixes for all ports.
    common: KernelPolicy,
    /// The same two of ports on the kernel path.
    carried: BTreeMap<PortId, KernelPolicy>,
    common_carried: KernelPolicy,
    objects: Objects,
    /// Families (IPv4, IPv6) of which rules leave something to the kernel.
    pub(super) by_rules: [bool; 2],
    /// Links at whose sending side something looks at packets or holds them back.
    pub(super) sending: BTreeSet<u32>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        places: &'a [RouterInterface],
        ignored: &'a BTreeSet<Mechanism>,
    ) -> Judge<'a> {
        Judge {
            places,
            ignored,
            by_name: places.iter().map(|place| (&place.name[..], place.link)).collect(),
            by_link: places.iter().map(|place| (place.link, place)).collect(),
            ports: places.iter().map(|place| (place.port, KernelPolicy::default())).collect(),
            common: KernelPolicy::default(),
            carried: places.iter().map(|place| (place.port, KernelPolicy::default())).collect(),
            common_carried: KernelPolicy::default(),
            objects: Objects::default(),
            by_rules: [false; 2],
            sending: BTreeSet::new(),
        }
    }

    /// Notes an object of which a packet filter or the like is made, and leaves what it concerns
    /// to the kernel unless it is ignored.
    pub(super) fn leave(
        &mut self,
        mechanism: Mechanism,
        scope: &Scope,
        words: impl FnOnce() -> (String, String),
    ) {
        self.concern(PolicyEffect::Kernel, mechanism, scope, words);
    }

    /// The same for an object that the kernel path carries out: only from ports of workers is what it concerns left to the
    /// kernel.
    pub(super) fn carry(
        &mut self,
        mechanism: Mechanism,
        scope: &Scope,
        words: impl FnOnce() -> (String, String),
    ) {
        self.concern(PolicyEffect::Carried, mechanism, scope, words);
    }

    fn concern(
        &mut self,
        effect: PolicyEffect,
        mechanism: Mechanism,
        scope: &Scope,
        words: impl FnOnce() -> (String, String),
    ) {
        if self.is_ignored(mechanism) {
            return self.note(mechanism, PolicyEffect::Ignored, words);
        }
        self.enter_into(false, mechanism, scope);
        if effect == PolicyEffect::Kernel {
            self.enter_into(true, mechanism, scope);
        }
        self.note(mechanism, effect, words);
    }

    /// Notes an object: what it is, and which packets it concerns.
    pub(super) fn note(
        &mut self,
        mechanism: Mechanism,
        effect: PolicyEffect,
        words: impl FnOnce() -> (String, String),
    ) {
        self.objects.add(mechanism, effect, words);
    }

    pub(super) fn is_ignored(&self, mechanism: Mechanism) -> bool {
        self.ignored.contains(&mechanism)
    }

    /// On the kernel path, of these families only packets of connections pass, or where `marked` of marked ones.
    pub(super) fn only_connections(&mut self, v6: bool, marked: bool, reason: u8) {
        self.carried.values_mut().for_each(|policy| policy.only_connections(v6, marked, reason));
    }

    /// On the kernel path, of the decision's families only packets pass that it lets.
    pub(super) fn only_by(&mut self, decision: &Arc<Decision>, reason: u8) {
        self.carried.values_mut().for_each(|policy| policy.only_by(decision.clone(), reason));
    }

    /// Leaves what an object concerns to the kernel.
    pub(super) fn enter(&mut self, mechanism: Mechanism, scope: &Scope) {
        self.enter_into(false, mechanism, scope);
        self.enter_into(true, mechanism, scope);
    }

    /// The same from ports of workers, or from those on the kernel path.
    fn enter_into(&mut self, carried: bool, mechanism: Mechanism, scope: &Scope) {
        let reason = mechanism as u8;
        let (ports, common) = match carried {
            false => (&mut self.ports, &mut self.common),
            true => (&mut self.carried, &mut self.common_carried),
        };
        match *scope {
            Scope::Families(v4, v6) => {
                for v6 in families(v4, v6) {
                    ports.values_mut().for_each(|policy| policy.leave_all(v6, reason));
                }
            }
            Scope::RouterInterface { link, v4, v6, tagged } => {
                let Some(place) = self.by_link.get(&link) else { return };
                let policy = ports.entry(place.port).or_default();
                for v6 in families(v4, v6) {
                    match tagged && place.vlan == 0 {
                        true => policy.leave_all(v6, reason),
                        false => policy.leave_vlan(v6, place.vlan, reason),
                    }
                }
            }
            Scope::Prefix(side, net, at) => {
                let policy = match at {
                    None => common,
                    Some(link) => {
                        let Some(place) = self.by_link.get(&link) else { return };
                        ports.entry(place.port).or_default()
                    }
                };
                policy.leave_prefix(side, net.addr(), net.prefix_len(), reason);
            }
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn place(&self, link: u32) -> Option<&'a RouterInterface> {
        self.by_link.get(&link).copied()
    }

    /// What each port leaves to the kernel, on either path, and the objects.
    pub(super) fn finish(mut self) -> ([BTreeMap<PortId, KernelPolicy>; 2], Vec<PolicyObject>) {
        let paths = [(self.ports, self.common), (self.carried, self.common_carried)];
        let policies = paths.map(|(mut ports, mut common)| {
            fit(&mut common, "all ports", &mut self.objects);
            for (port, policy) in &mut ports {
                policy.leave_families_of(&common);
                policy.leave_prefixes_of(&common);
                fit(policy, &format!("port {}", port.0), &mut self.objects);
            }
            ports
        });
        (policies, self.objects.finish())
    }
}

/// Leaves all of a family to the kernel where a policy has more prefixes than a port's program takes.
fn fit(policy: &mut KernelPolicy, whose: &str, objects: &mut Objects) {
    let count = [false, true].map(|v6| policy.prefixes(v6).0);
    let mut rest = count[0] + count[1];
    // The larger family is given up first.
    let larger = count[1] > count[0];
    for v6 in [larger, !larger] {
        if rest <= PREFIXES_MAX {
            return;
        }
        let (own, reason) = policy.prefixes(v6);
        let Some(reason) = reason else { continue };
        policy.forget_prefixes(v6);
        policy.leave_all(v6, reason);
        rest -= own;
        let object = format!(
            "{own} prefixes on {whose}, more than the {PREFIXES_MAX} that can be distinguished"
        );
        objects.insist(Mechanism::of(reason), object, all_of(v6));
    }
}

pub(super) fn families(v4: bool, v6: bool) -> impl Iterator<Item = bool> {
    [(v4, false), (v6, true)].into_iter().filter(|(on, _)| *on).map(|(_, v6)| v6)
}

pub(super) fn all_of(v6: bool) -> String {
    format!("all {} packets", if v6 { "IPv6" } else { "IPv4" })
}
