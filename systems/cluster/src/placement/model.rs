//! Which thread runs on which core, and what that carries.

use std::collections::BTreeMap;

use serde::Serialize;

use super::problem::PlacementProblem;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Balances.
    Balancer,
    /// Forwards in a back-end.
    BackEnd,
    /// Moves packets to and from a back-end.
    Mover,
}

/// A busy thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thread {
    /// What it does.
    pub role: Role,
    /// Which of the balancers or back-ends it belongs to.
    pub number: usize,
}

/// How balancers spread packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Balancing {
    /// Over all back-ends alike (Li 2012, table 3.2: B.1).
    Uniform,
    /// Over those on the balancer's own server, where there are any (B.2).
    Local,
}

/// Where a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoreId {
    pub(super) machine: usize,
    pub(super) node: usize,
    /// Its number on its server.
    pub(super) core: usize,
}

/// A problem whose numbers of balancers and back-ends are decided.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    pub(super) problem: &'a PlacementProblem,
    pub(super) threads: Vec<Thread>,
    pub(super) places: Vec<CoreId>,
    back_ends: usize,
    /// By pair of servers, the lower first; Mbps.
    links: BTreeMap<(usize, usize), f64>,
}

/// What a placement comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The highest rate, in packets per second.
    pub pps: f64,
    /// How packets are spread for that.
    pub balancing: Balancing,
    /// By core, how busy it is at that rate: 0 to 1.
    pub busy: Vec<f64>,
    /// By pair of servers, the fuller direction of their link at that rate: 0 to 1.
    pub links: BTreeMap<(usize, usize), f64>,
}

impl<'a> Layout<'a> {
    /// For so many back-ends.
    pub fn new(problem: &'a PlacementProblem, back_ends: u32) -> Layout<'a> {
        let mut threads = Vec::new();
        let mut add = |role, count: u32| {
            threads.extend((0..count as usize).map(|number| Thread { role, number }));
        };
        add(Role::Balancer, problem.balancers);
        add(Role::BackEnd, back_ends);
        if problem.costs.mover_ns > 0.0 {
            add(Role::Mover, back_ends);
        }
        let mut places = Vec::new();
        for (machine, server) in problem.machine.iter().enumerate() {
            let nodes = server.cores.iter().enumerate();
            let of_node = nodes.flat_map(|(node, cores)| (0..*cores).map(move |_| node));
            places.extend(of_node.enumerate().map(|(core, node)| CoreId { machine, node, core }));
        }
        let index = |name: &String| problem.machine.iter().position(|one| one.name == *name);
        let mut links = BTreeMap::new();
        for link in &problem.link {
            if let (Some(a), Some(b)) = (index(&link.between[0]), index(&link.between[1])) {
                *links.entry((a.min(b), a.max(b))).or_insert(0.0) += link.mbps;
            }
        }
        Layout { problem, threads, places, back_ends: back_ends as usize, links }
    }

    fn balancers(&self) -> usize {
        self.problem.balancers as usize
    }

    /// The thread's place in the list of threads.
    fn index(&self, role: Role, number: usize) -> usize {
        match role {
            Role::Balancer => number,
            Role::BackEnd => self.balancers() + number,
            Role::Mover => self.balancers() + self.back_ends + number,
        }
    }

    fn has_movers(&self) -> bool {
        self.threads.len() > self.balancers() + self.back_ends
    }

    /// Whether the threads of each back-end are on one server.
    pub(super) fn holds(&self, cores: &[usize]) -> bool {
        let machine = |role, number| self.places[cores[self.index(role, number)]].machine;
        !self.has_movers()
            || (0..self.back_ends)
                .all(|number| machine(Role::BackEnd, number) == machine(Role::Mover, number))
    }

    /// The least processor time that a packet takes of each thread, alone on its core and near all others,
    /// in nanoseconds.
    pub(super) fn needs(&self) -> Vec<f64> {
        let (costs, each) = (self.problem.costs, 1.0 / self.back_ends as f64);
        let need = |thread: &Thread| match thread.role {
            Role::Balancer => 2.0 * costs.balancer_ns / self.balancers() as f64,
            Role::BackEnd => costs.back_end_ns * each,
            Role::Mover => costs.mover_ns * each,
        };
        self.threads.iter().map(need).collect()
    }

    /// A rate that no placement exceeds, in packets per second: all cores together, and a core for the
    /// most that a thread of a kind must do at least.
    pub fn bound_pps(&self) -> f64 {
        let needs = self.needs();
        let all: f64 = needs.iter().sum();
        let largest = needs.iter().copied().fold(0.0, f64::max);
        1e9 / (all / self.places.len() as f64).max(largest)
    }

    /// The share of all packets that each balancer gives to each back-end.
    fn shares(&self, cores: &[usize], balancing: Balancing) -> Vec<Vec<f64>> {
        let machine = |role, number| self.places[cores[self.index(role, number)]].machine;
        let of = |balancer: usize| {
            let home = machine(Role::Balancer, balancer);
            let near = |number: &usize| machine(Role::BackEnd, *number) == home;
            let near: Vec<usize> = (0..self.back_ends).filter(near).collect();
            let chosen = if balancing == Balancing::Local && !near.is_empty() {
                near
            } else {
                (0..self.back_ends).collect()
            };
            let mut shares = vec![0.0; self.back_ends];
            for number in &chosen {
                shares[*number] = 1.0 / (self.balancers() * chosen.len()) as f64;
            }
            shares
        };
        (0..self.balancers()).map(of).collect()
    }

    /// What a placement comes to under the better balancing: core `cores[t]` for thread `t`.
    pub fn judge(&self, cores: &[usize]) -> Outcome {
        let uniform = self.judged(cores, Balancing::Uniform);
        let local = self.judged(cores, Balancing::Local);
        if local.pps > uniform.pps * (1.0 + 1e-9) { local } else { uniform }
    }

    /// What it comes to under one.
    pub fn judged(&self, cores: &[usize], balancing: Balancing) -> Outcome {
        let shares = self.shares(cores, balancing);
        let load = self.loads(cores, &shares);
        let mut busy = vec![0.0; self.places.len()];
        let mut threads = vec![0_u32; self.places.len()];
        for (load, core) in load.iter().zip(cores) {
            busy[*core] += load;
            threads[*core] += u32::from(*load > 0.0);
        }
        for (busy, threads) in busy.iter_mut().zip(&threads) {
            *busy *= 1.0 + self.problem.costs.contention * f64::from(threads.saturating_sub(1));
        }
        let traffic = self.traffic(cores, &shares);
        let bits = 8.0 * self.problem.packet_bytes;
        let fullest = busy.iter().copied().fold(0.0, f64::max);
        let mut pps = 1e9 / fullest;
        let mut carried = BTreeMap::new();
        for ((from, to), share) in traffic {
            let pair = (from.min(to), from.max(to));
            let most = self.links.get(&pair).copied().unwrap_or(0.0) * 1e6;
            pps = pps.min(most / (share * bits));
            let one: &mut f64 = carried.entry(pair).or_insert(0.0);
            *one = one.max(share * bits / most);
        }
        let links = carried.into_iter().map(|(pair, share)| (pair, share * pps)).collect();
        busy.iter_mut().for_each(|busy| *busy *= pps / 1e9);
        Outcome { pps, balancing, busy, links }
    }

    /// Time of each thread for a packet of the cluster, in nanoseconds, without contention.
    fn loads(&self, cores: &[usize], shares: &[Vec<f64>]) -> Vec<f64> {
        let costs = self.problem.costs;
        let place = |role, number| self.places[cores[self.index(role, number)]];
        let mut load = vec![0.0; self.threads.len()];
        load[..self.balancers()].fill(2.0 * costs.balancer_ns / self.balancers() as f64);
        for number in 0..self.back_ends {
            let router = place(Role::BackEnd, number);
            let door = if self.has_movers() { place(Role::Mover, number) } else { router };
            let near =
                |one: CoreId, other: CoreId| one.machine != other.machine || one.node == other.node;
            let inside = if near(router, door) { 0.0 } else { costs.remote_ns };
            let mut all = 0.0;
            let mut across = 0.0;
            for (balancer, shares) in shares.iter().enumerate() {
                all += shares[number];
                if !near(place(Role::Balancer, balancer), door) {
                    across += shares[number];
                }
            }
            load[self.index(Role::BackEnd, number)] = all * (costs.back_end_ns + inside);
            // Whoever takes a packet from another node pays for it.
            let taker = if self.has_movers() { Role::Mover } else { Role::BackEnd };
            load[self.index(taker, number)] += across * costs.remote_ns;
            if self.has_movers() {
                load[self.index(Role::Mover, number)] += all * costs.mover_ns;
            }
        }
        load
    }

    /// The share of all packets that goes from one server to another.
    fn traffic(&self, cores: &[usize], shares: &[Vec<f64>]) -> BTreeMap<(usize, usize), f64> {
        let machine = |role, number| self.places[cores[self.index(role, number)]].machine;
        let mut traffic = BTreeMap::new();
        for number in 0..self.back_ends {
            let router = machine(Role::BackEnd, number);
            let all: f64 = shares.iter().map(|shares| shares[number]).sum();
            for (balancer, shares) in shares.iter().enumerate() {
                let door = machine(Role::Balancer, balancer);
                let back = all / self.balancers() as f64;
                if door != router {
                    *traffic.entry((door, router)).or_insert(0.0) += shares[number];
                    *traffic.entry((router, door)).or_insert(0.0) += back;
                }
            }
        }
        traffic.retain(|_, share| *share > 0.0);
        traffic
    }

    /// The same threads on the same servers without being bound: a server's cores are one, less what the
    /// scheduler takes by moving threads where there are more than one for a core.
    pub fn unbound_pps(&self, cores: &[usize], balancing: Balancing) -> f64 {
        let bound = self.judged(cores, balancing);
        let load = self.loads(cores, &self.shares(cores, balancing));
        let mut pps = f64::INFINITY;
        for machine in 0..self.problem.machine.len() {
            let here = |thread: &usize| self.places[cores[*thread]].machine == machine;
            let threads: Vec<usize> = (0..cores.len()).filter(here).collect();
            if threads.is_empty() {
                continue;
            }
            let count: u32 = self.problem.machine[machine].cores.iter().sum();
            let all: f64 = threads.iter().map(|thread| load[*thread]).sum();
            let largest = threads.iter().map(|thread| load[*thread]).fold(0.0, f64::max);
            let costs = self.problem.costs;
            let crowd = (threads.len() as f64 / f64::from(count) - 1.0).max(0.0);
            let slower = 1.0 + costs.contention * crowd;
            let left = 1.0 - costs.migration;
            let most = (f64::from(count) * left / (all * slower)).min(left / largest);
            pps = pps.min(most * 1e9);
        }
        let full = bound.links.values().copied().fold(0.0, f64::max);
        if full > 0.0 { pps.min(bound.pps / full) } else { pps }
    }
}
