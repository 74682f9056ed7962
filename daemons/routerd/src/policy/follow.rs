//! Keeps the verdict in step with the kernel, whose policy and time are an argument ([`Policies`]): `schedules` tries it
//! beside a kernel that changes all the time and fails.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_graph::PortId;
use ebb_host::clock::monotonic;
use ebb_host::netlink::policy::{
    Chain, Discipline, Rule, Ruleset, SOCKETS, Source, Switches, Transforms, Watch,
};
use ebb_host::netlink::{Error, Monitor, Part};
use ebb_ports::afxdp::announced;
use ebb_units::Time;
use ipnet::IpNet;
use tracing::warn;

use super::objects::say;
use super::{Facts, Mechanism, RouterInterface, Verdict, evaluate, transforms};
use crate::rib::{Nowhere, Rib};
use crate::status::PolicyObject;

/// When ports are told again what they could not hold.
const AGAIN: Duration = Duration::from_secs(1);

type Read<T> = Result<T, Error>;

/// What the kernel tells of its policy: [`Watch`], and the time.
pub(super) trait Policies {
    fn now(&self) -> Time;
    fn changed(&mut self) -> Read<BTreeSet<Source>>;
    /// How many changes the kernel has announced, all that have been heard of and those that are about to be.
    fn announced(&mut self) -> u64;
    /// Whether [`Policies::changed`] has told of all that [`Policies::announced`] counted last.
    fn has_told(&self) -> bool;
    /// The ports hold what follows from so many.
    fn judged(&mut self, announced: u64);
    fn touch(&mut self, source: Source);
    fn try_again(&mut self, source: Source);
    fn rest(&mut self);
    fn forget_v6(&mut self);
    fn without_v6(&mut self, names: &[&str]) -> BTreeSet<String>;
    fn rules(&mut self) -> Read<Vec<Rule>>;
    fn switches(&mut self) -> Read<Vec<Switches>>;
    fn transforms(&mut self) -> Read<Transforms>;
    /// Nothing while the kernel is in the midst of a change.
    fn chains(&mut self) -> Read<Option<(Vec<Chain>, Ruleset)>>;
    fn disciplines(&mut self, links: &[u32]) -> Read<Vec<Discipline>>;
}

/// The kernel's, with its own count of what it announces, by which the ports' programs leave everything to it that nobody
/// has judged yet.
struct Counted {
    watch: Watch,
    /// By socket, as counted last.
    announced: [u64; SOCKETS],
}

impl Counted {
    fn open() -> Result<Counted> {
        let watch =
            Watch::open_with(announced::count).context("cannot watch the kernel's policy")?;
        Ok(Counted { watch, announced: [0; SOCKETS] })
    }
}

impl Policies for Counted {
    fn now(&self) -> Time {
        monotonic()
    }
    fn changed(&mut self) -> Read<BTreeSet<Source>> {
        self.watch.changed()
    }
    fn announced(&mut self) -> u64 {
        let all = announced::counted();
        // Later: it holds at least what all of them hold.
        self.announced = announced::counted_by_socket();
        all
    }
    fn has_told(&self) -> bool {
        self.watch.has_told(self.announced)
    }
    fn judged(&mut self, announced: u64) {
        announced::are_judged(announced);
    }
    fn touch(&mut self, source: Source) {
        self.watch.touch(source);
    }
    fn try_again(&mut self, source: Source) {
        self.watch.try_again(source);
    }
    fn rest(&mut self) {
        self.watch.rest();
    }
    fn forget_v6(&mut self) {
        self.watch.forget_v6();
    }
    fn without_v6(&mut self, names: &[&str]) -> BTreeSet<String> {
        self.watch.without_v6(names)
    }
    fn rules(&mut self) -> Read<Vec<Rule>> {
        self.watch.rules()
    }
    fn switches(&mut self) -> Read<Vec<Switches>> {
        self.watch.switches()
    }
    fn transforms(&mut self) -> Read<Transforms> {
        self.watch.transforms()
    }
    fn chains(&mut self) -> Read<Option<(Vec<Chain>, Ruleset)>> {
        self.watch.chains()
    }
    fn disciplines(&mut self, links: &[u32]) -> Read<Vec<Discipline>> {
        self.watch.disciplines(links)
    }
}

/// Reads the kernel's policy when it says that it changed.
pub struct Follower(Following<Counted>);

impl Follower {
    /// Subscribes; the first [`Follower::turn`] reads everything.
    ///
    /// # Errors
    /// When netlink is refused.
    pub fn open() -> Result<Follower> {
        Ok(Follower(Following::new(Counted::open()?)))
    }

    /// See [`Watch::fds`].
    pub fn fds(&self) -> Vec<RawFd> {
        self.0.watch.watch.fds()
    }

    /// The operator wants these mechanisms to be passed over.
    pub fn ignore(&mut self, ignored: &[Mechanism]) {
        self.0.ignore(ignored);
    }

    /// Tunnels that [`ebb_host::netlink::xfrm`] tells are carried by somebody else.
    pub fn leave_out_tunnels(&mut self) {
        self.0.leaves_out_tunnels = true;
    }

    /// Where packets come in now.
    pub fn set_places(&mut self, places: Vec<RouterInterface>) {
        self.0.set_places(places);
    }

    /// IPv4 networks whose every address is the host's own.
    pub fn set_local_networks(&mut self, networks: Vec<IpNet>) {
        self.0.set_local_networks(networks);
    }

    /// The verdict is told at the next turn even if it is the same.
    pub fn repeat(&mut self) {
        self.0.moved = true;
    }

    /// A port could not hold the verdict: it is told once more, after a while.
    pub fn tell_again(&mut self) {
        self.0.tell_again();
    }

    /// The verdict, when it is another one than at the last call. When the ports hold it, and when there is none,
    /// [`Follower::settle`] is to be called.
    ///
    /// # Errors
    /// When netlink fails for good.
    pub fn turn(&mut self) -> Result<Option<&Verdict>> {
        self.0.turn()
    }

    /// The ports hold the last verdict, or leave everything to the kernel: where nothing was announced since what it follows
    /// from was read, packets may go by it from now on.
    pub fn settle(&mut self) {
        self.0.settle();
    }
}

/// The decisions of a [`Follower`].
pub(super) struct Following<W> {
    pub(super) watch: W,
    pub(super) facts: Facts,
    places: Vec<RouterInterface>,
    ignored: BTreeSet<Mechanism>,
    leaves_out_tunnels: bool,
    verdict: Verdict,
    /// Something changed since the last verdict.
    stale: bool,
    /// The places changed since: the verdict is told again even if it is the same.
    moved: bool,
    /// When it is told again because a port could not hold it.
    again: Option<Time>,
    /// Announcements that the verdict follows from; nothing where it does not follow from all of them.
    judged: Option<u64>,
}

impl<W: Policies> Following<W> {
    pub(super) fn new(watch: W) -> Following<W> {
        Following {
            watch,
            facts: Facts::default(),
            places: Vec::new(),
            ignored: BTreeSet::new(),
            leaves_out_tunnels: false,
            verdict: Verdict::default(),
            stale: true,
            moved: false,
            again: None,
            judged: None,
        }
    }

    fn ignore(&mut self, ignored: &[Mechanism]) {
        self.ignored = ignored.iter().copied().collect();
        self.stale = true;
    }

    pub(super) fn set_places(&mut self, places: Vec<RouterInterface>) {
        if self.places == places {
            return;
        }
        let known: BTreeSet<(u32, &str)> =
            self.places.iter().map(|place| (place.link, &place.name[..])).collect();
        let renamed = places.iter().filter(|place| !known.contains(&(place.link, &place.name)));
        let renamed: Vec<&str> = renamed.map(|place| &place.name[..]).collect();
        if !renamed.is_empty() {
            // Nobody says that what is bound to an interface has its new name now.
            self.watch.touch(Source::Netfilter);
            self.facts.without_v6.extend(self.watch.without_v6(&renamed));
        }
        self.places = places;
        self.stale = true;
        self.moved = true;
        // What traffic control does is read for these interfaces only.
        self.read(Source::TrafficControl);
    }

    fn set_local_networks(&mut self, networks: Vec<IpNet>) {
        if self.facts.local_networks != networks {
            self.facts.local_networks = networks;
            self.stale = true;
        }
    }

    pub(super) fn tell_again(&mut self) {
        self.again = Some(self.watch.now() + AGAIN);
    }

    pub(super) fn turn(&mut self) -> Result<Option<&Verdict>> {
        // First of all: what is heard and read from now on holds these.
        let announced = self.watch.announced();
        let changed = self.watch.changed().context("cannot watch the kernel's policy")?;
        self.judged = self.watch.has_told().then_some(announced);
        for source in &changed {
            self.read(*source);
        }
        if self.again.is_some_and(|at| self.watch.now() >= at) {
            self.again = None;
            self.moved = true;
        }
        if changed.is_empty() && !std::mem::take(&mut self.stale) && !self.moved {
            return Ok(None);
        }
        self.stale = false;
        let verdict = evaluate(&self.facts, &self.places, &self.ignored);
        if !changed.is_empty() {
            self.watch.rest();
        }
        if verdict == self.verdict && !std::mem::take(&mut self.moved) {
            return Ok(None);
        }
        self.moved = false;
        say(&self.verdict.objects, &verdict.objects);
        self.verdict = verdict;
        Ok(Some(&self.verdict))
    }

    /// See [`Follower::settle`].
    pub(super) fn settle(&mut self) {
        self.judged.take().into_iter().for_each(|announced| self.watch.judged(announced));
    }

    fn read(&mut self, source: Source) {
        let links: Vec<u32> = self.places.iter().map(|place| place.link).collect();
        let (watch, facts) = (&mut self.watch, &mut self.facts);
        let result = match source {
            Source::Rules => watch.rules().map(|rules| facts.rules = rules),
            Source::Switches => {
                let names: Vec<&str> = self.places.iter().map(|place| &place.name[..]).collect();
                watch.forget_v6();
                facts.without_v6 = watch.without_v6(&names);
                watch.switches().map(|switches| facts.switches = switches)
            }
            Source::Transforms => watch.transforms().map(|mut found| {
                if self.leaves_out_tunnels {
                    found.policies = transforms::of_the_kernel(found.policies);
                }
                facts.transforms = found;
            }),
            Source::Netfilter => match watch.chains() {
                // What is known is of before the change, if it is known.
                Ok(None) => return self.judged = None,
                found => found.map(|found| (facts.chains, facts.ruleset) = found.expect("it is")),
            },
            Source::TrafficControl => {
                watch.disciplines(&links).map(|found| facts.disciplines = found)
            }
        };
        let Err(error) = result else {
            facts.unread.remove(&source);
            return;
        };
        watch.try_again(source);
        let error = error.to_string();
        let known = facts.unread.insert(source, error.clone());
        if known.as_ref() != Some(&error) {
            warn!(
                ?source,
                error,
                code = "EBB-R065",
                "the kernel's policy cannot be read: packets that it may concern are left to the \
                kernel"
            );
        }
    }
}

/// What a router with these ports would find now, without running it, and without telling the log what is returned.
///
/// # Errors
/// When netlink is refused.
pub fn survey(ports: &[(PortId, String)], ignored: &[Mechanism]) -> Result<Vec<PolicyObject>> {
    let mut monitor = Monitor::open().context("netlink")?;
    let mut rib = Rib::new(ports);
    for part in [Part::Links, Part::Addresses] {
        monitor.dump_part(part, &mut |event| rib.apply(&event, &mut Nowhere)).context("netlink")?;
    }
    let watch = Watch::open().context("cannot watch the kernel's policy")?;
    let mut follower = Follower(Following::new(Counted { watch, announced: [0; SOCKETS] }));
    follower.ignore(ignored);
    follower.set_places(rib.places());
    let silent = tracing::subscriber::NoSubscriber::default();
    let verdict = tracing::subscriber::with_default(silent, || follower.turn())?;
    Ok(verdict.map_or_else(Vec::new, |verdict| verdict.objects.clone()))
}
