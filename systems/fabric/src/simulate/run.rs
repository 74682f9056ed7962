//! A run: a network, the changes that are asked for or that the regulator wants, and the account.

use ebb_control::Policy;
use ebb_des::Seed;
use ebb_report::Details;
use ebb_scenario::Progress;
use ebb_units::Time;

use crate::Fabric;
use crate::dependency::ChannelLabel;
use crate::regulator::power::{Account, Energy, LinkState, PortPower};
use crate::regulator::threshold::{LinkUse, Switching, Threshold, Thresholds};
use crate::routing::{self, Options, Routing, RoutingError};
use crate::schemes::{Case, Promise, Proposal, Scheme, choose};
use crate::sim::{
    Audit, Meter, Multipath, Network, Notes, Pause, Physics, Setup, StageTime, Traffic,
};
use crate::tables::Tables;
use crate::topology::{HostId, Link, PortNumber, SwitchId, Topology};
use crate::transition;

use super::{Moment, SimulateError};

/// Longest time that is simulated without a look whether to end.
const LOOK_NS: u64 = 200_000;

/// A change of links at a given time.
#[derive(Clone)]
pub struct Change {
    /// When, ns.
    pub at_ns: u64,
    /// Links that go off when the tables have changed.
    pub off: Vec<Link>,
    /// Links that are woken first.
    pub on: Vec<Link>,
    /// Tables to change to, instead of the routing function's; `off` and `on` are then theirs.
    pub to: Option<Moment>,
    /// The schemes to try, best first.
    pub schemes: Vec<&'static dyn Scheme>,
    /// Runs the first scheme even where its proofs fail, to see what happens.
    pub without_proof: bool,
}

/// Everything a run depends on.
pub struct Run<'a> {
    /// Every switch, host and link.
    pub topology: &'a Topology,
    /// Links, buffers and switches.
    pub physics: Physics,
    /// Traffic of the hosts.
    pub traffic: Traffic,
    /// How tables are made.
    pub routing: &'static dyn Routing,
    /// Whether entries whose paths crossed no link that goes off stay.
    pub keep: bool,
    /// What the routing function is told.
    pub options: Options,
    /// Tables to begin with, instead of the routing function's.
    pub tables: Option<Tables>,
    /// Host of the manager.
    pub manager: HostId,
    /// How long the manager computes, ns.
    pub compute_ns: u64,
    /// Changes in order of time.
    pub changes: Vec<Change>,
    /// The regulator and the schemes its changes may use.
    pub regulator: Option<(Thresholds, Vec<&'static dyn Scheme>)>,
    /// Power of ports.
    pub power: PortPower,
    /// Length of the run, ns.
    pub end_ns: u64,
    /// Packets before results are collected.
    pub transient: u64,
    /// Length of the spans reported, ns.
    pub bin_ns: u64,
    /// Tables of single links, flows and packets.
    pub details: Details,
    /// Decides all randomness.
    pub seed: Seed,
}

/// What one direction of a link carried.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkBytes {
    /// Host, or switch and port.
    pub from: String,
    /// Host, or switch and port.
    pub to: String,
    /// Of all packets, those of the manager included.
    pub bytes: u64,
    /// What the link could carry in the same time.
    pub bytes_max: f64,
}

/// What became of one change.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The scheme; `None` when all were refused.
    pub scheme: Option<&'static str>,
    /// Links that went off, and on.
    pub off: usize,
    /// Links that came on.
    pub on: usize,
    /// When it was asked for, ns.
    pub asked_ns: u64,
    /// When the manager began, links being awake, ns.
    pub began_ns: u64,
    /// When it ended, ns; `None` when the run ended first.
    pub ended_ns: Option<u64>,
    /// Its stages.
    pub stages: Vec<StageTime>,
    /// What was promised.
    pub promise: Option<Promise>,
    /// Why schemes were refused.
    pub refused: Vec<String>,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything counted.
    pub meter: Meter,
    /// The changes in order.
    pub changes: Vec<Changed>,
    /// The ring of a deadlock.
    pub deadlock: Option<Vec<ChannelLabel>>,
    /// What was drawn.
    pub energy: Energy,
    /// The books.
    pub audit: Audit,
    /// When it ended, ns.
    pub ended_ns: u64,
    /// When every host had finished its collective operation, ns, if it has.
    pub collective_ns: Option<u64>,
    /// Links that are off at the end.
    pub off: usize,
    /// What every direction of every link carried, if it was asked for.
    pub links: Vec<LinkBytes>,
    /// Single flows and packets, if they were asked for.
    pub notes: Option<Notes>,
}

/// A change on its way.
struct Pending {
    proposal: Proposal,
    off: Vec<Link>,
    on: Vec<Link>,
    gone: Vec<HostId>,
    begin_ns: u64,
    begun: bool,
    record: usize,
}

struct Driver<'a> {
    run: &'a Run<'a>,
    network: Network,
    links: Vec<Link>,
    off: Vec<Link>,
    gone: Vec<HostId>,
    tables: Tables,
    account: Account,
    pending: Option<Pending>,
    records: Vec<Changed>,
    deadlock: Option<Vec<ChannelLabel>>,
    /// The tables while all links are on.
    first: Tables,
}

impl Run<'_> {
    /// Carries the run out.
    ///
    /// # Errors
    /// When there are no sound tables or the network cannot be simulated.
    pub fn carry_out(&self, progress: &dyn Progress) -> Result<Outcome, SimulateError> {
        let tables = match &self.tables {
            Some(tables) => tables.clone(),
            None => routing::route(self.routing, self.topology, &self.options)?.0,
        };
        if self.traffic.multipath == Multipath::Adaptive {
            crate::spread::prove(self.topology, &tables)?;
        }
        let later = self.later_tables(&tables);
        let later: Vec<&Tables> = later.iter().collect();
        let setup = Setup {
            topology: self.topology,
            physics: &self.physics,
            traffic: &self.traffic,
            tables: &tables,
            later: &later,
            off: &[],
            gone: &[],
            manager: self.manager,
            seed: self.seed,
            bin_ns: self.bin_ns,
            transient: self.transient,
        };
        let links: Vec<Link> = self.topology.links().collect();
        let states = vec![LinkState::On; links.len()];
        let (hosts, switches) = (self.topology.hosts().len(), self.topology.switches().len());
        let mut network = Network::new(&setup)?;
        if self.details.of_packets() {
            network.note(Notes::new(self.details.packets as usize));
        }
        let account = Account::new(&self.power, states, hosts, switches);
        let mut driver = Driver {
            run: self,
            network,
            links,
            off: Vec::new(),
            gone: Vec::new(),
            account,
            pending: None,
            records: Vec::new(),
            deadlock: None,
            first: tables.clone(),
            tables,
        };
        driver.drive(progress)?;
        let ended_ns = driver.network.now();
        let links = if self.details.links { self.link_bytes(&driver.network) } else { Vec::new() };
        Ok(Outcome {
            links,
            notes: driver.network.take_notes(),
            audit: driver.network.audit(),
            meter: driver.network.meter().clone(),
            changes: driver.records,
            deadlock: driver.deadlock,
            energy: driver.account.close(ended_ns),
            collective_ns: driver.network.collective_done_ns(),
            ended_ns,
            off: driver.off.len(),
        })
    }

    /// Links between switches, then those of hosts.
    fn link_bytes(&self, network: &Network) -> Vec<LinkBytes> {
        let topology = self.topology;
        let span = network.now() as f64;
        let place = |(switch, port): (SwitchId, PortNumber)| {
            format!("{}:{port}", topology.switch(switch).name)
        };
        let between = topology.links().flat_map(|link| {
            [(link.a, link.b), (link.b, link.a)].map(|(from, to)| LinkBytes {
                from: place(from),
                to: place(to),
                bytes: network.port_bytes(from.0, from.1),
                bytes_max: network.port_bytes_in(from.0, from.1, span),
            })
        });
        let of_hosts = topology.hosts().iter().enumerate().flat_map(|(index, host)| {
            let (own, there) = (host.name.clone(), place((host.switch, host.port)));
            let sent = network.host_bytes(HostId(index as u32));
            let received = network.port_bytes(host.switch, host.port);
            let bytes_max = network.host_bytes_in(HostId(index as u32), span);
            [
                LinkBytes { from: own.clone(), to: there.clone(), bytes: sent, bytes_max },
                LinkBytes { from: there, to: own, bytes: received, bytes_max },
            ]
        });
        between.chain(of_hosts).collect()
    }

    /// Tables of changes that are known beforehand: they decide how many lanes there must be.
    fn later_tables(&self, first: &Tables) -> Vec<Tables> {
        let mut off: Vec<Link> = Vec::new();
        let mut tables = Vec::new();
        for change in &self.changes {
            if let Some(moment) = &change.to {
                off.clone_from(&moment.off);
                tables.push(moment.tables.clone());
                continue;
            }
            off.retain(|link| !change.on.contains(link));
            off.extend(&change.off);
            tables.extend(self.routed(&off, first));
        }
        tables
    }

    /// Tables while some links are off, which went off in this order; `first` while all are on.
    fn routed(&self, off: &[Link], first: &Tables) -> Result<Tables, RoutingError> {
        let anew = || {
            let topology = self.topology.without(off);
            routing::route(self.routing, &topology, &self.options).map(|(tables, _)| tables)
        };
        if !self.keep {
            return anew();
        }
        let home = Fabric { topology: self.topology.clone(), tables: first.clone() };
        routing::keep::keep(&home, off, &self.options)
            .map_or_else(|_| anew(), |(tables, _)| Ok(tables))
    }
}

impl Driver<'_> {
    fn drive(&mut self, progress: &dyn Progress) -> Result<(), SimulateError> {
        let run = self.run;
        let mut policy =
            run.regulator.as_ref().map(|(settings, _)| Threshold::new(settings, run.topology));
        let mut next_change = 0;
        let step = (run.end_ns / 100).clamp(1, LOOK_NS);
        while self.network.now() < run.end_ns && !progress.stopped() {
            let now = self.network.now();
            let mut until = run.end_ns.min((now / step + 1) * step);
            if let Some(pending) = self.pending.as_ref().filter(|pending| !pending.begun) {
                until = until.min(pending.begin_ns.max(now + 1));
            }
            if self.pending.is_none()
                && let Some(change) = run.changes.get(next_change)
            {
                until = until.min(change.at_ns.max(now + 1));
            }
            if let Some(at) = policy.as_ref().and_then(Policy::next_at) {
                until = until.min(at.as_nanos().max(now + 1));
            }
            match self.network.run_until(until) {
                Pause::Reached => {}
                Pause::Settled => self.settled(),
                Pause::Deadlock(ring) => {
                    self.deadlock = Some(ring);
                    return Ok(());
                }
            }
            let now = self.network.now();
            progress.at(now as f64 / run.end_ns as f64, "simulating");
            self.begin_pending(now)?;
            if self.pending.is_none()
                && let Some(change) = run.changes.get(next_change).filter(|it| it.at_ns <= now)
            {
                next_change += 1;
                self.ask_for(change)?;
                self.begin_pending(now)?;
            }
            if let Some(policy) = &mut policy
                && policy.next_at().is_some_and(|at| at.as_nanos() <= now)
            {
                self.regulate(policy, now)?;
            }
        }
        Ok(())
    }

    fn regulate(&mut self, policy: &mut Threshold, now: u64) -> Result<(), SimulateError> {
        let Some((settings, schemes)) = &self.run.regulator else { return Ok(()) };
        let period_ns = settings.period_us * 1e3;
        let used = (0..self.links.len()).map(|link| {
            let (switch, port) = self.links[link].a;
            let most = self.network.port_bytes_in(switch, port, period_ns);
            let bytes = self.network.take_link_bytes(self.links[link]);
            bytes[0].max(bytes[1]) as f64 / most
        });
        let used = used.collect();
        let on = self.links.iter().map(|link| !self.off.contains(link)).collect();
        let seen = LinkUse { used, on, changing: self.pending.is_some() };
        let Switching { off, on } = policy.decide(Time::from_nanos(now), &seen);
        if !(off.is_empty() && on.is_empty()) {
            let links =
                |which: Vec<usize>| which.into_iter().map(|link| self.links[link]).collect();
            let (off, on) = (links(off), links(on));
            self.ask((off, on), None, schemes, false)?;
            self.begin_pending(now)?;
        }
        Ok(())
    }

    fn ask_for(&mut self, change: &Change) -> Result<(), SimulateError> {
        let Some(moment) = &change.to else {
            let links = (change.off.clone(), change.on.clone());
            return self.ask(links, None, &change.schemes, change.without_proof);
        };
        let lacking = |of: &[Link], all: &[Link]| -> Vec<Link> {
            all.iter().copied().filter(|link| !of.contains(link)).collect()
        };
        let links = (lacking(&self.off, &moment.off), lacking(&moment.off, &self.off));
        self.ask(links, Some(moment), &change.schemes, change.without_proof)
    }

    /// Makes tables, unless they are given, chooses a scheme, wakes links.
    fn ask(
        &mut self,
        (off, on): (Vec<Link>, Vec<Link>),
        given: Option<&Moment>,
        schemes: &[&'static dyn Scheme],
        without_proof: bool,
    ) -> Result<(), SimulateError> {
        let now = self.network.now();
        let mut after: Vec<Link> = self.off.clone();
        after.retain(|link| !on.contains(link));
        after.extend(&off);
        let run = self.run;
        let made = match given {
            Some(moment) => Ok(moment.tables.clone()),
            None => run.routed(&after, &self.first),
        };
        let gone = given.map_or_else(Vec::new, |moment| moment.gone.clone());
        let mut record = Changed {
            scheme: None,
            off: off.len(),
            on: on.len(),
            asked_ns: now,
            began_ns: now,
            ended_ns: None,
            stages: Vec::new(),
            promise: None,
            refused: Vec::new(),
        };
        let proposal = match made {
            Err(refusal) => {
                record.refused.push(refusal.to_string());
                None
            }
            Ok(tables) => {
                let old =
                    transition::Moment { tables: &self.tables, off: &self.off, gone: &self.gone };
                let new = transition::Moment { tables: &tables, off: &after, gone: &gone };
                let case = Case::between(run.topology, old, new, run.physics.lane_sets)
                    .computed_in(run.compute_ns)
                    .with_set_lanes(self.network.lanes_of_set());
                if without_proof {
                    let proposal = schemes.first().map(|scheme| scheme.propose(&case));
                    proposal.filter(|proposal| {
                        let empty = proposal.plan.stages.is_empty();
                        let impossible = || format!("{} does not support it", proposal.scheme);
                        record.refused.extend(empty.then(impossible));
                        !empty
                    })
                } else {
                    choose(schemes, &case)
                        .map_err(|refused| {
                            record.refused = refused.iter().map(ToString::to_string).collect();
                        })
                        .ok()
                }
            }
        };
        if let Some(proposal) = proposal {
            record.scheme = Some(proposal.scheme);
            record.promise = Some(proposal.promise);
            on.iter().for_each(|link| self.set_state(*link, LinkState::Waking));
            let wake = if on.is_empty() { 0 } else { run.power.wake_ns() };
            let record = self.records.len();
            let begin_ns = now + wake;
            self.pending =
                Some(Pending { proposal, off, on, gone, begin_ns, begun: false, record });
        }
        self.records.push(record);
        Ok(())
    }

    fn set_state(&mut self, link: Link, state: LinkState) {
        if let Some(index) = self.links.iter().position(|other| *other == link) {
            self.account.set(index, state, self.network.now());
        }
    }

    /// Begins a change whose links are awake.
    fn begin_pending(&mut self, now: u64) -> Result<(), SimulateError> {
        let Some(pending) = self.pending.as_mut() else { return Ok(()) };
        if pending.begun || pending.begin_ns > now {
            return Ok(());
        }
        pending.begun = true;
        self.records[pending.record].began_ns = now;
        let (plan, tables) = (pending.proposal.plan.clone(), pending.proposal.tables.clone());
        for link in pending.on.clone() {
            self.network.switch_link(link, true);
            self.set_state(link, LinkState::On);
            self.off.retain(|other| *other != link);
        }
        // The tree of control packets must not use links that are about to go dark.
        let going = self.pending.as_ref().map(|pending| pending.off.clone()).unwrap_or_default();
        let gone = self.pending.as_ref().map(|pending| pending.gone.clone()).unwrap_or_default();
        if self.network.begin_without(plan, &tables, &going, &gone) {
            Ok(())
        } else {
            Err(crate::sim::SimError::Unmanageable.into())
        }
    }

    fn settled(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let now = self.network.now();
        self.records[pending.record].ended_ns = Some(now);
        self.records[pending.record].stages = self.network.stage_times().to_vec();
        for link in pending.off {
            self.network.switch_link(link, false);
            self.set_state(link, LinkState::Off);
            self.off.push(link);
        }
        self.tables = pending.proposal.tables;
        self.gone = pending.gone;
    }
}
