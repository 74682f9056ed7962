//! The demonstration of a cluster: a day of load, and a back-end that is killed in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_clusterd::balancer::{BalancerHandle, BalancerStatus, RunnerOptions};
use ebb_clusterd::member::{BackEndMember, BalancerMember, Event, Member, Record, Servers, What};
use ebb_clusterd::store::{Embedded, Etcd, EtcdServer, Store};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster as policies;
use ebb_host::clock::monotonic;
use ebb_host::journal::Undo;
use ebb_host::process;
use ebb_lab::Lab;
use ebb_traffic::{
    Due, FlowSpec, Pacer, Schedule, SizeMix, Start, Stream, StreamSpec, Summary, draw_flows,
};
use ebb_units::{Time, Watts};
use ipnet::IpNet;

use super::super::say;
use super::ClusterDemo;
use crate::cluster::lab::{self, Cluster};
use crate::generator::{FrameSource, Generator, Progress, Sender, TestLink};

/// Flows of each direction.
const FLOWS: u32 = 1024;
/// What a member's lease lasts.
const LEASE: Duration = Duration::from_secs(2);
/// Share of the capacity that is kept free.
const HEADROOM: f64 = 0.2;
/// How long the accounts are kept apart around the failure.
const FAILURE_WINDOW: Duration = Duration::from_millis(1500);
/// Into that window, until the failure.
const FAILURE_AFTER: Duration = Duration::from_millis(300);
/// What back-ends take to wake, as policies and the simulator know it.
pub(super) const WAKE: Duration = Duration::from_millis(200);
/// Quiet at the end of each part, after which what has not come is lost.
const SETTLE: Duration = Duration::from_millis(60);
/// How long the cluster may take until it forwards.
const START_PATIENCE: Duration = Duration::from_secs(15);
/// Relative capacities, and watts, of the published groups of servers (Li 2012, section 8.3.2).
const GROUPS: [(&str, f64, f64); 4] =
    [("I", 6500.0, 75.0), ("II", 8700.0, 95.0), ("III", 10_000.0, 120.0), ("IV", 8500.0, 92.0)];

/// A back-end of the demonstration.
#[derive(Clone, Debug)]
pub(super) struct BackEnd {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) server: Server,
}

/// What became of a day.
pub(super) struct Played {
    pub(super) begun: Time,
    pub(super) ended: Time,
    pub(super) back_ends: Vec<BackEnd>,
    /// Before, around and after the failure.
    pub(super) parts: [Summary; 3],
    pub(super) missed: u64,
    pub(super) killed: Option<Killed>,
    pub(super) events: Vec<Event>,
    pub(super) balancer: BalancerStatus,
    /// Load in packets per second, by time.
    pub(super) load: Vec<(Time, f64)>,
    pub(super) uses: Uses,
    pub(super) store: String,
    pub(super) etcd: bool,
}

/// How busy back-ends were, as shares of their capacities, by seconds of the day.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// The highest of any.
    pub(super) most: f64,
    /// Seconds looked at, with at least two back-ends that got flows all the time.
    pub(super) seconds: u32,
    /// Of these, those with one above 90 % while another was under 50 %.
    pub(super) uneven: u32,
    last: Option<(Time, Vec<String>, Vec<u64>)>,
}

impl Uses {
    /// Takes a look; `capacities` are by row.
    fn see(&mut self, now: Time, status: BalancerStatus, capacities: &BTreeMap<String, f64>) {
        let Some((at, usable, carried)) = &self.last else {
            self.last = Some((now, status.usable, status.carried));
            return;
        };
        let span = now.since(*at);
        if *usable != status.usable {
            self.last = Some((now, status.usable, status.carried));
        } else if span >= Duration::from_secs(1) {
            let rows = capacities.iter().enumerate();
            let used: Vec<f64> = rows
                .filter(|(_, (name, _))| usable.contains(name))
                .map(|(row, (_, capacity))| {
                    let packets = status.carried[row] - carried[row];
                    packets as f64 / span.as_secs_f64() / capacity
                })
                .collect();
            let most = used.iter().copied().fold(0.0, f64::max);
            let least = used.iter().copied().fold(f64::INFINITY, f64::min);
            self.most = self.most.max(most);
            if used.len() > 1 {
                self.seconds += 1;
                self.uneven += u32::from(most > 0.9 && least < 0.5);
            }
            self.last = Some((now, status.usable, status.carried));
        }
    }
}

/// The failure.
#[derive(Clone, Debug)]
pub(super) struct Killed {
    pub(super) name: String,
    pub(super) at: Time,
    /// When no flow went to it any more.
    pub(super) left_at: Option<Time>,
    pub(super) was_leader: bool,
}

/// The cluster, before and behind it the hosts.
pub(super) struct Stage {
    frames: FrameSource,
    back_ends: Vec<BackEnd>,
    stores: Stores,
    cluster: Cluster,
}

/// Where members get their access to the store.
enum Stores {
    Embedded(Embedded),
    Etcd(EtcdServer),
}

impl Stores {
    fn start(wanted: Option<&str>, lab: &Lab) -> Result<Stores> {
        if wanted == Some("embedded") || wanted.is_none() && !EtcdServer::installed() {
            return Ok(Stores::Embedded(Embedded::new(LEASE)));
        }
        let server = EtcdServer::start(lab.directory())?;
        if let Ok(undo) = Undo::process(server.pid()) {
            lab.journal().record(undo)?;
        }
        Ok(Stores::Etcd(server))
    }

    fn access(&self) -> Result<Box<dyn Store>> {
        match self {
            Stores::Embedded(store) => Ok(Box::new(store.another())),
            Stores::Etcd(server) => Ok(Box::new(Etcd::new(&server.options(), "demo", LEASE)?)),
        }
    }

    fn name(&self) -> String {
        match self {
            Stores::Embedded(_) => "embedded".to_owned(),
            Stores::Etcd(server) => format!("etcd {}", server.version()),
        }
    }
}

fn behind(side: usize) -> [IpNet; 2] {
    let four = ["198.18.0.0/16", "198.19.0.0/16"][side].parse().expect("a network");
    let six = ["2001:db8:a000::/36", "2001:db8:b000::/36"][side].parse().expect("a network");
    [four, six]
}

impl Stage {
    /// Builds it. To be called before threads are started: it forks a guard that undoes everything should
    /// this process be killed.
    pub(super) fn build(demo: &ClusterDemo) -> Result<Stage> {
        let back_ends = back_ends(demo);
        let plan = lab::Plan {
            back_ends: back_ends
                .iter()
                .map(|one| (one.name.clone(), one.server.capacity))
                .collect(),
            routes: (0..2).flat_map(|side| behind(side).map(|net| (net, side))).collect(),
        };
        let cluster = Cluster::build("ebb-cluster", plan)?;
        let stores = Stores::start(demo.store.as_deref(), &cluster.lab)?;
        Ok(Stage { frames: FrameSource::new(2), back_ends, stores, cluster })
    }

    /// The day.
    pub(super) fn play(&mut self, demo: &ClusterDemo, stop: &Arc<AtomicBool>) -> Result<Played> {
        let cpus = process::allowed_cpus()?;
        let cpu = cpus.get(1).or(cpus.first()).copied();
        let options = RunnerOptions { cpu, ..RunnerOptions::default() };
        let balancer =
            BalancerHandle::start(&self.cluster.front, self.cluster.topology(), options)?;
        let balancer = Arc::new(balancer);
        let record = Record::default();
        let front = BalancerMember::new(
            "balancer0",
            self.stores.access()?,
            balancer.clone(),
            record.clone(),
        );
        let front = front.start()?;
        let mut members = BTreeMap::new();
        for index in 0..self.back_ends.len() {
            let member = self.member(demo, index, &record)?;
            members.insert(self.back_ends[index].name.clone(), member.start()?);
        }
        let links = lab::host_links(&self.cluster.hosts, &self.frames)?;
        self.wait_until_ready(&balancer, stop)?;
        say(&format!(
            "A day in {:.0} s, up to {:.0} kpps over {} back-ends; policy {}, state {}.",
            demo.seconds,
            demo.peak / 1e3,
            self.back_ends.len(),
            demo.policy(),
            self.stores.name(),
        ))?;
        let begun = monotonic() + Duration::from_millis(50);
        let span = Duration::from_secs_f64(demo.seconds);
        let mut points = demo.steps();
        points.push(points[0]);
        let schedule = Schedule::new(points, span);
        let generator = generator(demo, &schedule, links, begun);
        let capacities = self.back_ends.iter().map(|one| (one.name.clone(), one.server.capacity));
        let watch = Watch {
            stop,
            balancer: &balancer,
            record: &record,
            begun,
            kills: demo.planned.is_none(),
            capacities: capacities.collect(),
            uses: RefCell::default(),
        };
        let (parts, missed, killed, load) =
            self.run_parts(generator, &schedule, &watch, &mut members)?;
        let uses = watch.uses.take();
        let ended = monotonic();
        drop((members, front));
        let status = Arc::into_inner(balancer).map(BalancerHandle::end).unwrap_or_default();
        let refused = status.links.iter().find_map(|link| link.why.as_ref());
        ensure!(refused.is_none(), "the balancer cannot open an interface: {refused:?}");
        let killed = killed.map(|mut killed: Killed| {
            let row = self.row(&killed.name);
            let found =
                status.found.iter().find(|one| one.dead && one.row == row && one.at >= killed.at);
            killed.left_at = found.map(|one| one.at);
            killed
        });
        let events = std::mem::take(&mut *record.lock().expect("record"));
        Ok(Played {
            begun,
            ended,
            back_ends: self.back_ends.clone(),
            parts,
            missed,
            killed,
            events,
            balancer: status,
            load,
            uses,
            store: self.stores.name(),
            etcd: self.stores.name().starts_with("etcd"),
        })
    }

    fn row(&self, name: &str) -> u16 {
        let mut names: Vec<&String> = self.back_ends.iter().map(|one| &one.name).collect();
        names.sort();
        names.iter().position(|other| *other == name).expect("one of them") as u16
    }

    fn member(&self, demo: &ClusterDemo, index: usize, record: &Record) -> Result<BackEndMember> {
        let pairs = self.back_ends.iter().map(|one| (one.name.clone(), one.server));
        let servers: Servers = pairs.collect();
        let settings = settings(demo);
        let known: Vec<Server> = servers.values().copied().collect();
        let policy = policies::named(demo.policy(), &known, settings)?;
        let keeper = Box::new(self.cluster.keeper(index));
        let store = [self.stores.access()?, self.stores.access()?];
        let name = &self.back_ends[index].name;
        Ok(BackEndMember::new(name, LEASE, store, keeper, (servers, policy), record.clone()))
    }

    fn wait_until_ready(&self, balancer: &BalancerHandle, stop: &AtomicBool) -> Result<()> {
        let begun = monotonic();
        while balancer.status().usable.is_empty() {
            ensure!(monotonic().since(begun) < START_PATIENCE, "no back-end came up within 15 s");
            ensure!(!stop.load(Relaxed), "interrupted");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Before, around and after the failure, each with its own accounts.
    #[allow(clippy::type_complexity)]
    fn run_parts(
        &self,
        mut generator: Generator,
        schedule: &Schedule,
        watch: &Watch<'_>,
        members: &mut BTreeMap<String, Member>,
    ) -> Result<([Summary; 3], u64, Option<Killed>, Vec<(Time, f64)>)> {
        let begun = watch.begun;
        let middle = begun + schedule.span() / 2;
        let ends = [middle, middle + FAILURE_WINDOW, begun + schedule.span()];
        let progress = generator.progress();
        let part = Arc::new(AtomicU32::new(0));
        let (shared, taken) = (part.clone(), Arc::new(Mutex::new(Vec::new())));
        let accounts = taken.clone();
        let run = move || -> std::io::Result<u64> {
            if let Some(cpu) = process::allowed_cpus().ok().and_then(|cpus| cpus.first().copied()) {
                // An unpinned generator is slower, not wrong.
                _ = process::pin_to(cpu);
            }
            for (index, end) in ends.into_iter().enumerate() {
                shared.store(index as u32 + 1, Relaxed);
                generator.run(end, SETTLE)?;
                accounts.lock().expect("accounts").push(generator.summary(true));
            }
            Ok(generator.take_owed())
        };
        let thread = std::thread::Builder::new().name("ebb-generator".into()).spawn(run)?;
        let (mut killed, mut load, mut window) = (None, Vec::new(), None);
        let (mut shown, mut last) = (0, (begun, 0));
        while !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            let now = monotonic();
            if watch.stop.load(Relaxed) {
                progress.stop.store(true, Relaxed);
            }
            if watch.kills && part.load(Relaxed) == 2 && killed.is_none() {
                let since = *window.get_or_insert(now);
                if now.since(since) >= FAILURE_AFTER {
                    killed = self.kill(watch, members)?;
                    window = Some(Time::NEVER);
                }
            }
            watch.sample(now, &progress, &mut last, &mut load);
            if now > begun && part.load(Relaxed) > 0 {
                watch.uses.borrow_mut().see(now, watch.balancer.status(), &watch.capacities);
            }
            watch.show(now, &mut shown, &load)?;
        }
        let missed =
            thread.join().expect("the generator does not panic").context("a link failed")?;
        let accounts = std::mem::take(&mut *taken.lock().expect("accounts"));
        let accounts: [Summary; 3] =
            accounts.try_into().ok().context("a part of the day is missing")?;
        Ok((accounts, missed, killed, load))
    }

    /// Ends the back-end that leads, or else the first that forwards, without a word to anybody.
    fn kill(
        &self,
        watch: &Watch<'_>,
        members: &mut BTreeMap<String, Member>,
    ) -> Result<Option<Killed>> {
        let usable = watch.balancer.status().usable;
        let leader = watch.leader();
        let chosen = usable.iter().find(|name| Some(*name) == leader.as_ref()).or(usable.first());
        let Some(name) = chosen.cloned() else { return Ok(None) };
        let index = self.back_ends.iter().position(|one| one.name == name);
        let index = index.context("a back-end of ours")?;
        let at = monotonic();
        self.cluster.kill(index)?;
        let was_leader = leader.as_ref() == Some(&name);
        // Its member dies with it: the lease runs out, and another becomes the leader.
        if let Some(member) = members.remove(&name) {
            member.end();
        }
        Ok(Some(Killed { name, at, left_at: None, was_leader }))
    }
}

struct Watch<'a> {
    stop: &'a AtomicBool,
    balancer: &'a BalancerHandle,
    record: &'a Record,
    begun: Time,
    /// Whether a back-end is killed in the middle.
    kills: bool,
    /// By name.
    capacities: BTreeMap<String, f64>,
    uses: RefCell<Uses>,
}

impl Watch<'_> {
    fn leader(&self) -> Option<String> {
        let record = self.record.lock().expect("record");
        let leaders = record.iter().rev().find(|event| event.what == What::Leader);
        leaders.map(|event| event.member.clone())
    }

    /// The offered load of the last tenth of a second.
    fn sample(
        &self,
        now: Time,
        progress: &Progress,
        last: &mut (Time, u64),
        load: &mut Vec<(Time, f64)>,
    ) {
        let span = now.since(last.0);
        if now > self.begun && span >= Duration::from_millis(100) {
            let sent = progress.sent.load(Relaxed);
            load.push((now, (sent - last.1) as f64 / span.as_secs_f64()));
            *last = (now, sent);
        }
    }

    /// A line every other second.
    fn show(&self, now: Time, shown: &mut u64, load: &[(Time, f64)]) -> Result<()> {
        let second = now.since(self.begun).as_secs() / 2;
        if now < self.begun || second < *shown {
            return Ok(());
        }
        *shown = second + 1;
        let usable = self.balancer.status().usable;
        let kpps = load.last().map_or(0.0, |sample| sample.1 / 1e3);
        let leader = self.leader().unwrap_or_default();
        say(&format!(
            "{:>4} s  {kpps:>6.1} kpps  on: {:<24} leader: {leader}",
            2 * second,
            usable.join(" ")
        ))
    }
}

/// What the policy heeds.
pub(super) fn settings(demo: &ClusterDemo) -> ClusterSettings {
    let planned = demo.planned.as_ref().map(|day| day.settings);
    ClusterSettings {
        headroom: planned.map_or(HEADROOM, |settings| settings.headroom),
        spares: planned.map_or(0, |settings| settings.spares),
        on_min_s: demo.seconds / 40.0,
        patience_s: demo.seconds / 80.0,
        every_s: 0.05,
        day_s: demo.seconds,
    }
}

fn back_ends(demo: &ClusterDemo) -> Vec<BackEnd> {
    if let Some(day) = &demo.planned {
        return day.back_ends.clone();
    }
    let count = usize::from(demo.back_ends);
    let groups: Vec<_> = (0..count).map(|index| GROUPS[index % GROUPS.len()]).collect();
    let total: f64 = groups.iter().map(|group| group.1).sum();
    let largest = groups.iter().map(|group| group.1).fold(0.0, f64::max);
    // All but the largest carry the peak, so that the one that is killed can be done without.
    let scale = demo.peak / (1.0 - HEADROOM) / (total - largest);
    let one = |(index, (group, capacity, watts)): (usize, &(&'static str, f64, f64))| BackEnd {
        name: format!("r{index:02}"),
        group: (*group).to_owned(),
        server: Server {
            capacity: capacity * scale,
            full: Watts(*watts),
            idle: Watts(*watts),
            wake: WAKE,
        },
    };
    groups.iter().enumerate().map(one).collect()
}

fn generator(
    demo: &ClusterDemo,
    schedule: &Schedule,
    links: Vec<Box<dyn TestLink>>,
    begun: Time,
) -> Generator {
    let sizes = SizeMix::imix();
    let sender = |side: usize| {
        let (sources, destinations) = (behind(side), behind(1 - side));
        let spec = FlowSpec {
            count: FLOWS,
            sources: &sources,
            destinations: &destinations,
            ipv6_share: 0.25,
            tcp_share: 0.7,
        };
        let flows = draw_flows(&spec, demo.seed + side as u64);
        let spec = StreamSpec {
            first_flow: side as u32 * FLOWS,
            from: lab::host_mac(side),
            to: lab::cluster_mac(side),
            sizes: &sizes,
            popularity: 0.5,
            seed: demo.seed + 2 + side as u64,
        };
        let pace: Box<dyn Due + Send> = Box::new(Pacer::new(schedule.scaled(0.5), begun, 256));
        Sender { link: side, stream: Stream::new(&flows, &spec), pace }
    };
    Generator::new(links, vec![sender(0), sender(1)], 2 * FLOWS, Start::Zero)
}
