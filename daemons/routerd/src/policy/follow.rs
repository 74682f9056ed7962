//! Keeps the verdict in step with the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;

use anyhow::{Context, Result};
use ebb_graph::PortId;
use ebb_host::netlink::policy::{Source, Watch};
use ebb_host::netlink::{Monitor, Part};
use tracing::{info, warn};

use super::{Facts, Mechanism, Place, Verdict, evaluate};
use crate::rib::{Nowhere, Rib};
use crate::status::{PolicyEffect, PolicyObject};

/// Reads the kernel's policy when it says that it changed.
pub struct Follower {
    watch: Watch,
    facts: Facts,
    places: Vec<Place>,
    ignored: BTreeSet<Mechanism>,
    verdict: Verdict,
    /// Sources that could not be read, and why.
    unread: BTreeMap<Source, String>,
    /// Something changed since the last verdict.
    stale: bool,
    /// The places changed since: the verdict is told again even if it is the same.
    moved: bool,
}

impl Follower {
    /// Subscribes; the first [`Follower::turn`] reads everything.
    ///
    /// # Errors
    /// When netlink is refused.
    pub fn open() -> Result<Follower> {
        Ok(Follower {
            watch: Watch::open().context("the kernel's policy")?,
            facts: Facts::default(),
            places: Vec::new(),
            ignored: BTreeSet::new(),
            verdict: Verdict::default(),
            unread: BTreeMap::new(),
            stale: true,
            moved: false,
        })
    }

    /// See [`Watch::fds`].
    pub fn fds(&self) -> Vec<RawFd> {
        self.watch.fds()
    }

    /// The operator wants these mechanisms to be passed over.
    pub fn ignore(&mut self, ignored: &[Mechanism]) {
        self.ignored = ignored.iter().copied().collect();
        self.stale = true;
    }

    /// Where packets come in now.
    pub fn set_places(&mut self, places: Vec<Place>) {
        if self.places != places {
            self.places = places;
            self.stale = true;
            self.moved = true;
            // What traffic control does is read for these interfaces only.
            self.read(Source::TrafficControl);
        }
    }

    /// The verdict, when it is another one than at the last call.
    ///
    /// # Errors
    /// When netlink fails for good.
    pub fn turn(&mut self) -> Result<Option<&Verdict>> {
        let changed = self.watch.changed().context("the kernel's policy")?;
        for source in &changed {
            self.read(*source);
        }
        if changed.is_empty() && !std::mem::take(&mut self.stale) {
            return Ok(None);
        }
        self.stale = false;
        let mut verdict = evaluate(&self.facts, &self.places, &self.ignored);
        verdict.objects.extend(self.unread.iter().map(not_read));
        if verdict == self.verdict && !std::mem::take(&mut self.moved) {
            return Ok(None);
        }
        say(&self.verdict.objects, &verdict.objects);
        self.verdict = verdict;
        Ok(Some(&self.verdict))
    }

    fn read(&mut self, source: Source) {
        let links: Vec<u32> = self.places.iter().map(|place| place.link).collect();
        let (watch, facts) = (&mut self.watch, &mut self.facts);
        let result = match source {
            Source::Rules => watch.rules().map(|rules| facts.rules = rules),
            Source::Switches => watch.switches().map(|switches| facts.switches = switches),
            Source::Transforms => watch.transforms().map(|found| facts.transforms = found),
            Source::Netfilter => watch.chains().map(|chains| facts.chains = chains),
            Source::TrafficControl => {
                watch.disciplines(&links).map(|found| facts.disciplines = found)
            }
        };
        self.unread.remove(&source);
        if let Err(error) = result {
            warn!(?source, %error, "the kernel's policy cannot be read: it stays as it was");
            self.unread.insert(source, error.to_string());
        }
    }
}

/// A source that could not be read, as an object: the packets it may concern are not known.
fn not_read((source, error): (&Source, &String)) -> PolicyObject {
    let mechanism = match source {
        Source::Rules => Mechanism::Rules,
        Source::Switches => Mechanism::Forwarding,
        Source::Transforms => Mechanism::Xfrm,
        Source::Netfilter => Mechanism::Netfilter,
        Source::TrafficControl => Mechanism::Tc,
    };
    PolicyObject {
        mechanism: mechanism.name().to_owned(),
        object: format!("not read: {error}"),
        concerns: "nobody knows which packets".to_owned(),
        effect: PolicyEffect::None,
    }
}

/// Tells what begins and what ends to matter.
fn say(before: &[PolicyObject], after: &[PolicyObject]) {
    let matters = |object: &&PolicyObject| object.effect != PolicyEffect::None;
    for object in after.iter().filter(|object| !before.contains(object)).filter(matters) {
        match object.effect {
            PolicyEffect::Kernel => warn!("policy: {object}"),
            _ => info!("policy: {object}"),
        }
    }
    for object in before.iter().filter(|object| !after.contains(object)).filter(matters) {
        info!("policy: no more: {object}");
    }
}

/// What a router with these ports would find now, without running it.
///
/// # Errors
/// When netlink is refused.
pub fn survey(ports: &[(PortId, String)], ignored: &[Mechanism]) -> Result<Vec<PolicyObject>> {
    let mut monitor = Monitor::open().context("netlink")?;
    let mut rib = Rib::new(ports);
    for part in [Part::Links, Part::Addresses] {
        monitor.dump_part(part, &mut |event| rib.apply(&event, &mut Nowhere)).context("netlink")?;
    }
    let mut follower = Follower::open()?;
    follower.ignore(ignored);
    follower.set_places(rib.places());
    let verdict = follower.turn()?;
    Ok(verdict.map_or_else(Vec::new, |verdict| verdict.objects.clone()))
}
