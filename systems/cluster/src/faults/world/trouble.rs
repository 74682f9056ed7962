//! What goes wrong in a simulated cluster, and how it is mended.

use ebb_cluster::OwnerDeed;
use ebb_units::Time;
use rand::Rng as _;

use super::{Body, Event, Front, Member, World};
use crate::faults::member_name;

impl World {
    /// Something goes wrong; after the time of trouble all is mended.
    pub(super) fn fault(&mut self, now: Time) {
        if now >= self.trouble {
            self.heal();
            return;
        }
        self.outcome.faults += 1;
        let node = self.rng.random_range(0..self.nodes.len());
        let kind = self.rng.random_range(0..20);
        self.befall(now, kind, node);
        // One of a node befalls as many of a large cluster at once as would be one of fifty.
        if matches!(kind, 0..5 | 8..11 | 13 | 14 | 17..) {
            for _ in 1..self.size.members / 50 {
                let node = self.rng.random_range(0..self.nodes.len());
                self.befall(now, kind, node);
            }
        }
        let at = self.after_ms(50, 1200);
        self.calendar.schedule(at, Event::Fault);
    }

    fn befall(&mut self, now: Time, kind: u32, node: usize) {
        match kind {
            0..3 => self.crash(node),
            3..5 => self.nodes[node].cut = !self.nodes[node].cut,
            5 => self.nodes.iter_mut().for_each(|node| (node.cut, node.deaf) = (false, false)),
            6 => self.store_down = !self.store_down,
            7 => self.store_slow_ms = if self.store_slow_ms > 0 { 0 } else { 700 },
            8 => {
                let forgotten = self.store.forget(node, now);
                self.history.ended(now, node, forgotten);
            }
            9 if self.mix.clock_steps => {
                self.nodes[node].ahead_ms = self.rng.random_range(-20_000..20_000);
            }
            10 if node < self.size.members && self.bodies[node] == Body::On => {
                self.bodies[node] = [Body::Broken, Body::Ended][self.rng.random_range(0..2)];
            }
            11 => self.disk_slow_ms = if self.disk_slow_ms > 0 { 0 } else { 900 },
            12 => self.disk_full = !self.disk_full,
            13 => self.nodes[node].deaf = !self.nodes[node].deaf,
            14 => self.nodes[node].refuses = !self.nodes[node].refuses,
            15 => self.history.spoilt(now, self.store.spoil_plan(), OwnerDeed::SpoilPlan),
            16 => self.history.spoilt(now, self.store.spoil_leader(), OwnerDeed::SpoilLeader),
            17 => self.store.spoil_report(&member_name(node % self.size.members)),
            _ => self.revive(node),
        }
    }

    fn crash(&mut self, node: usize) {
        if self.nodes[node].alive {
            self.nodes[node].alive = false;
            if node < self.size.members && self.bodies[node] == Body::On {
                self.bodies[node] = Body::Broken;
            }
        }
    }

    /// Starts a node that has crashed: it remembers nothing.
    fn revive(&mut self, node: usize) {
        if self.nodes[node].alive {
            return;
        }
        self.nodes[node].alive = true;
        self.nodes[node].life += 1;
        let life = self.nodes[node].life;
        let members = self.size.members;
        if node < members {
            self.members[node] = Member::new(node, members);
        } else {
            self.balancers[node - members] = Front::new(node - members, members, self.clock(node));
        }
        let at = self.after_ms(1, 100);
        self.calendar.schedule(at, Event::Tick(node, life));
    }

    fn heal(&mut self) {
        (self.store_down, self.store_slow_ms) = (false, 0);
        (self.disk_full, self.disk_slow_ms) = (false, 0);
        for node in 0..self.nodes.len() {
            (self.nodes[node].cut, self.nodes[node].deaf) = (false, false);
            self.nodes[node].refuses = false;
            self.revive(node);
        }
        for member in 0..self.size.members {
            // Whoever forwards nothing though it is up is started again.
            if self.bodies[member] == Body::Broken {
                self.crash(member);
                self.revive(member);
            }
        }
    }
}
