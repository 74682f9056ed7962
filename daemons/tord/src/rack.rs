//! One rack's data path: hosts, queues, uplink. It reads no clock and knows no interfaces but as
//! [`Port`]s, so that tests run it over links in memory.

use std::sync::Arc;

use ebb_apps::route::{Builder, Fib, Requests, RouteCounters, RouteLimits, WorkerGraph};
use ebb_graph::{Batch, Exits, FRAME_LEN, Graph, HEADROOM, LONG_MAX, NodeId, Pool};
use ebb_ports::{Port, PortCounters};
use ebb_system_circuit::tokens::{Purse, Tokens};

mod intake;

pub use intake::{ForKernel, ToKernel};

use crate::addresses::source_mac;
use crate::plan::{Day, Phase};
use crate::status::RackStatus;
use crate::tables::{FIRST_HOST, UPLINK};
use crate::voq::{Voqs, wire_len};

/// Frames handed over at a time: few, so that none is still on its way when the day has ended.
const BURST: usize = 8;
/// Days of a destination by which a frame is judged to be too long for any.
const DAYS: u64 = 16;
/// A day is looked at so late at times, and a frame that fits only without that never goes, ns.
const LATE_NS: u64 = 5_000;
/// Frames that the longest packet leaves in.
const PARTS_MAX: usize = LONG_MAX.div_ceil(FRAME_LEN - HEADROOM);

/// How a rack may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// What a queue may hand over during a day.
    pub tokens: Tokens,
    /// Rate of the uplink, bit/s.
    pub rate_bps: u64,
    /// Limit of pacing, bytes.
    pub ahead: u64,
    /// The end of each day in which nothing may be on the link, ns.
    pub guard_ns: u64,
    /// Rate of the packet path, bit/s; 0 for none.
    pub packet_bps: u64,
    /// Whether the switch is a packet switch, to compare with.
    pub packets_only: bool,
}

/// An interface to hosts.
struct HostPort {
    port: Box<dyn Port>,
    staged: Batch,
}

/// What routes a rack's packets: the router's nodes over the rack's table.
struct Routing {
    graph: Graph,
    entry: NodeId,
    exits: Exits,
    counters: Arc<RouteCounters>,
}

impl Routing {
    fn new(ports: usize, fib: &Arc<Fib>, requests: Arc<Requests>, icmp_seed: u64) -> Routing {
        let limits = RouteLimits {
            icmp_v4: ebb_apps::route::IcmpPerHost::LINUX_V4,
            icmp_v6: ebb_apps::route::IcmpPerHost::LINUX_V6,
            icmp_seed,
            ..RouteLimits::default()
        };
        let builder = Builder::new(fib, requests).limits(&limits).alone();
        let WorkerGraph { graph, entry, counters } = builder.worker(0);
        Routing { graph, entry, exits: Exits::new(ports), counters }
    }
}

/// The days of a destination lately, in runs of [`DAYS`]: how many there were, and the longest of this run and of the
/// last.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    days: u64,
    longest_ns: [u64; 2],
}

impl Lately {
    fn note(&mut self, len_ns: u64) {
        self.days += 1;
        self.longest_ns[0] = self.longest_ns[0].max(len_ns);
        if self.days.is_multiple_of(DAYS) {
            self.longest_ns = [0, self.longest_ns[0]];
        }
    }

    /// The longest, once enough are known.
    fn longest_ns(&self) -> Option<u64> {
        (self.days >= DAYS).then(|| self.longest_ns[0].max(self.longest_ns[1]))
    }
}

/// What a rack is made of.
pub struct Parts {
    /// Its number.
    pub number: u8,
    /// Its interface to the optical switch.
    pub uplink: Box<dyn Port>,
    /// Its interfaces to hosts.
    pub hosts: Vec<Box<dyn Port>>,
    /// What its packets are routed by ([`crate::tables::Tables`]).
    pub fib: Arc<Fib>,
    /// Hosts that packets wait for.
    pub requests: Arc<Requests>,
    /// Packets for the switch itself.
    pub kernel: ToKernel,
    /// Most that waits for a destination, bytes.
    pub queue_bytes: u64,
    /// From so many on senders are told to slow down.
    pub mark_bytes: u64,
    /// See [`RouteLimits::icmp_seed`].
    pub icmp_seed: u64,
}

/// A rack.
pub struct Rack {
    number: u8,
    uplink: Box<dyn Port>,
    hosts: Vec<HostPort>,
    routing: Routing,
    kernel: ToKernel,
    voqs: Voqs,
    today: Option<(Day, Purse)>,
    wanted: bool,
    /// By destination.
    lately: Vec<Lately>,
    /// When the link has carried all that was handed over.
    link_free_ns: u64,
    /// What the link takes for frames that were just handed over while it had nothing to carry.
    from_idle_ns: Option<u64>,
    /// Until when it does not matter whether anybody looks at this rack.
    calm_until_ns: u64,
    turn: usize,
    batch: Batch,
    out: Batch,
    /// What full queues dropped.
    full: Batch,
    counters: RackStatus,
    /// What ports counted that are closed.
    closed: PortCounters,
}

impl Rack {
    /// A rack of these parts.
    pub fn new(parts: Parts) -> Rack {
        let Parts {
            number,
            uplink,
            hosts,
            fib,
            requests,
            kernel,
            queue_bytes,
            mark_bytes,
            icmp_seed,
        } = parts;
        let ports = FIRST_HOST + hosts.len();
        let host = |port| HostPort { port, staged: Batch::new() };
        Rack {
            number,
            uplink,
            hosts: hosts.into_iter().map(host).collect(),
            routing: Routing::new(ports, &fib, requests, icmp_seed),
            kernel,
            voqs: Voqs::new(
                crate::sync::RACKS_MAX,
                queue_bytes,
                mark_bytes,
                icmp_seed.rotate_left(32),
            ),
            today: None,
            wanted: false,
            lately: vec![Lately::default(); crate::sync::RACKS_MAX],
            link_free_ns: 0,
            from_idle_ns: None,
            calm_until_ns: 0,
            turn: 0,
            batch: Batch::new(),
            out: Batch::new(),
            full: Batch::new(),
            counters: RackStatus { rack: number, ..RackStatus::default() },
            closed: PortCounters::default(),
        }
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Bytes that wait, by destination.
    pub fn waiting(&self) -> &[u64] {
        self.voqs.bytes()
    }

    /// Changes how much a queue takes, and from how much on senders are told to slow down.
    pub fn set_queue_bytes(&mut self, bytes: u64, mark: u64) {
        self.voqs.set_limits(bytes, mark);
    }

    /// What it did so far.
    pub fn status(&self) -> RackStatus {
        let mut status = self.counters.clone();
        status.waiting_bytes = self.voqs.bytes().to_vec();
        status.icmp_sent = self.routing.counters.originated();
        // Packets that became the error about them.
        status.dropped_unroutable += self.routing.counters.dropped_in_place().iter().sum::<u64>();
        let hosts = self.hosts.iter().map(|host| host.port.counters());
        for counters in hosts.chain([self.uplink.counters(), self.closed]) {
            status.dropped_receive += counters.receive_dropped;
            status.dropped_transmit += counters.transmit_invalid + counters.transmit_dropped;
        }
        status
    }

    /// Descriptors that are readable when a frame has come.
    pub fn wait_fds(&self, fds: &mut Vec<std::os::fd::RawFd>) {
        self.uplink.wait_fds(fds);
        self.hosts.iter().for_each(|host| host.port.wait_fds(fds));
    }

    /// To be called before sleeping on them: whether nothing has come meanwhile.
    pub fn prepare_wait(&mut self) -> bool {
        let uplink = self.uplink.prepare_wait();
        self.hosts.iter_mut().fold(uplink, |calm, host| host.port.prepare_wait() && calm)
    }

    /// Sends what may be sent now, and says when there is something to do next, if that is known:
    /// never for longer than the present day or night.
    pub fn send(
        &mut self,
        now_ns: u64,
        phase: Phase,
        rules: &Rules,
        pool: &mut Pool,
    ) -> Option<u64> {
        let next = match phase {
            _ if rules.packets_only => {
                self.send_packets(now_ns, rules.rate_bps, false, rules, pool)
            }
            Phase::Day(day) => return self.send_by_day(now_ns, day, rules, pool),
            Phase::Night(day) => Some(day.begin_ns),
            Phase::Unknown if rules.packet_bps > 0 => {
                self.send_packets(now_ns, rules.packet_bps, true, rules, pool)
            }
            Phase::Unknown => None,
        };
        self.calm_until_ns = next.unwrap_or(u64::MAX);
        next
    }

    /// Until when the link has enough to carry, as [`Rack::send`] left it: looking at this rack
    /// again only then wastes nothing of its day.
    pub fn calm_until(&self) -> u64 {
        self.calm_until_ns
    }

    /// To be told when [`Rack::send`] has returned: a link that had nothing to carry began no earlier
    /// than the call, and no later than now. What follows is reckoned from the latter, so that no
    /// frame is on its way longer than the day because the first took its time.
    pub fn handed_over(&mut self, now_ns: u64) {
        if let Some(span) = self.from_idle_ns.take() {
            self.link_free_ns = self.link_free_ns.max(now_ns + span);
        }
    }

    /// Whether something waits for the circuit of this day.
    pub fn wants(&self, day: &Day) -> bool {
        let to = usize::from(day.outputs[usize::from(self.number)]);
        to < crate::sync::RACKS_MAX && self.voqs.waits(to)
    }

    fn send_by_day(
        &mut self,
        now_ns: u64,
        day: Day,
        rules: &Rules,
        pool: &mut Pool,
    ) -> Option<u64> {
        let to = usize::from(day.outputs[usize::from(self.number)]);
        self.calm_until_ns = day.end_ns;
        if to >= crate::sync::RACKS_MAX || to == usize::from(self.number) {
            return Some(day.end_ns);
        }
        // Every rack's link is to begin before any has its second frame.
        let dawn = self.begin(day, to, rules);
        if dawn && let Some(longest_ns) = self.lately[to].longest_ns() {
            self.drop_too_long(longest_ns.max(day.end_ns - day.begin_ns), to, rules, pool);
        }
        let burst = if dawn { 1 } else { BURST };
        let into_ns = now_ns.saturating_sub(day.begin_ns);
        let idle = self.link_free_ns <= now_ns;
        while self.out.len() < burst {
            let Some(len) = self.voqs.first(to) else { break };
            if !self.may(now_ns, into_ns, len, day, rules) {
                break;
            }
            let (_, purse) = self.today.as_mut().expect("set above");
            purse.spend(len);
            self.link_free_ns = self.link_free_ns.max(now_ns) + time_ns(len, rules.rate_bps);
            self.out.push(self.voqs.pop(to).expect("there is a first"));
        }
        if self.wanted && !self.out.is_empty() {
            self.wanted = false;
            self.counters.first_after.add(into_ns);
        }
        self.hand_to_uplink(to, false, rules, pool);
        self.from_idle_ns =
            (idle && self.link_free_ns > now_ns).then(|| self.link_free_ns - now_ns);
        let Some(len) = self.voqs.first(to) else { return Some(day.end_ns) };
        if self.is_over(now_ns, into_ns, len, day, rules) {
            return Some(day.end_ns);
        }
        self.calm_until_ns = self.link_free_ns.clamp(now_ns, day.end_ns);
        // When the link has carried half of what it is ahead, there is room again.
        let pause = time_ns(rules.ahead, rules.rate_bps) / 2;
        let again = self.link_free_ns.saturating_sub(pause).max(now_ns);
        Some(if dawn { now_ns } else { again.min(day.end_ns) })
    }

    /// What no day carries would keep what is behind it waiting for ever. Days differ in length: a frame is too
    /// long if it is for the longest of late.
    fn drop_too_long(&mut self, longest_ns: u64, to: usize, rules: &Rules, pool: &mut Pool) {
        let most_ns = longest_ns.saturating_sub(rules.guard_ns + LATE_NS);
        if most_ns == 0 {
            // Nothing ever leaves under these rules; whoever changes them finds the queue as it is.
            return;
        }
        while self.voqs.first(to).is_some_and(|len| time_ns(len, rules.rate_bps) > most_ns) {
            let packet = self.voqs.pop(to).expect("there is a first");
            self.counters.dropped_full += 1;
            pool.put(packet.into_frame());
        }
        self.wanted = self.voqs.waits(to);
    }

    /// Opens the day's purse at its first look, and says whether this was it.
    fn begin(&mut self, day: Day, to: usize, rules: &Rules) -> bool {
        if let Some((today, _)) = &self.today {
            if today.begin_ns == day.begin_ns {
                return false;
            }
            let before = usize::from(today.outputs[usize::from(self.number)]);
            self.counters.days_left += u64::from(self.voqs.waits(before));
            self.lately[before].note(today.end_ns - today.begin_ns);
        }
        let purse =
            Purse::new(rules.tokens, day.end_ns - day.begin_ns, rules.rate_bps, rules.ahead);
        self.today = Some((day, purse));
        self.wanted = self.voqs.waits(to);
        self.counters.days += 1;
        self.counters.days_wanted += u64::from(self.wanted);
        true
    }

    /// Whether a frame of this length cannot go any more today.
    fn is_over(&mut self, now_ns: u64, into_ns: u64, len: u64, day: Day, rules: &Rules) -> bool {
        let last_ns = day.end_ns.saturating_sub(rules.guard_ns);
        if rules.tokens == Tokens::Naive {
            let (_, purse) = self.today.as_mut().expect("the day has begun");
            return now_ns >= last_ns || purse.left(into_ns) < len;
        }
        self.link_free_ns.max(now_ns) + time_ns(len, rules.rate_bps) > last_ns
    }

    /// Whether a frame may go now: the circuit stands for long enough, and there are tokens. Naive
    /// tokens do not know what the card still holds.
    fn may(&mut self, now_ns: u64, into_ns: u64, len: u64, day: Day, rules: &Rules) -> bool {
        let (_, purse) = self.today.as_mut().expect("the day has begun");
        purse.left(into_ns) >= len && !self.is_over(now_ns, into_ns, len, day, rules)
    }

    /// Sends to everybody in turn, no faster than the path takes.
    fn send_packets(
        &mut self,
        now_ns: u64,
        rate_bps: u64,
        by_packets: bool,
        rules: &Rules,
        pool: &mut Pool,
    ) -> Option<u64> {
        let ahead_ns = time_ns(rules.ahead, rules.rate_bps).max(time_ns(2_000, rate_bps));
        let racks = crate::sync::RACKS_MAX;
        for _ in 0..BURST {
            if self.link_free_ns > now_ns + ahead_ns {
                break;
            }
            let next = (0..racks).map(|step| (self.turn + step) % racks);
            let Some(to) = next.into_iter().find(|to| self.voqs.waits(*to)) else {
                break;
            };
            self.turn = (to + 1) % racks;
            let packet = self.voqs.pop(to).expect("there is a first");
            self.link_free_ns =
                self.link_free_ns.max(now_ns) + time_ns(wire_len(&packet), rate_bps);
            self.out.push(packet);
            self.hand_to_uplink(to, by_packets, rules, pool);
        }
        (!self.voqs.is_empty()).then(|| self.link_free_ns.saturating_sub(ahead_ns / 2).max(now_ns))
    }

    /// Hands the frames in `out` to the uplink; those that it does not take go back. A long packet leaves in
    /// several frames: while there are none it would keep those that wait behind it from ever being free again,
    /// and is lost instead.
    fn hand_to_uplink(&mut self, to: usize, by_packets: bool, rules: &Rules, pool: &mut Pool) {
        if self.out.is_empty() {
            return;
        }
        let source = source_mac(self.number, by_packets);
        let mut bytes = 0;
        for packet in self.out.iter_mut() {
            packet.data_mut()[6..12].copy_from_slice(&source);
            bytes += wire_len(packet);
        }
        let taken = self.uplink.transmit(pool, &mut self.out) as u64;
        let stuck = taken == 0 && !pool.has(PARTS_MAX);
        for packet in self.out.drain(..).rev() {
            let len = wire_len(&packet);
            bytes -= len;
            if let Some((_, purse)) = &mut self.today {
                purse.refund(len);
            }
            self.link_free_ns -= time_ns(len, rules.rate_bps).min(self.link_free_ns);
            if stuck && pool.is_long(&packet) {
                self.counters.dropped_full += 1;
                pool.put(packet.into_frame());
                continue;
            }
            self.counters.requeued += 1;
            self.voqs.put_back(to, packet);
        }
        if by_packets {
            self.counters.sent_by_packets += taken;
        } else {
            self.counters.sent += taken;
            self.counters.sent_bytes += bytes;
        }
        // An uplink that is down keeps what it took; its counters say so.
        _ = self.uplink.flush();
    }

    /// Goes on with another port in the place of one, by the numbers of [`crate::tables::Tables`].
    pub fn replace(&mut self, number: usize, port: Box<dyn Port>, pool: &mut Pool) {
        let place = match number {
            UPLINK => &mut self.uplink,
            _ => &mut self.hosts[number - FIRST_HOST].port,
        };
        let mut former = std::mem::replace(place, port);
        former.close(pool);
        self.closed = self.closed.and(&former.counters());
    }

    /// Gives all frames back but those that wait for hosts.
    pub fn close(&mut self, pool: &mut Pool) {
        for to in 0..crate::sync::RACKS_MAX {
            while let Some(packet) = self.voqs.pop(to) {
                pool.put(packet.into_frame());
            }
        }
        self.uplink.close(pool);
        self.hosts.iter_mut().for_each(|host| host.port.close(pool));
    }
}

/// How long the link takes for so many bytes.
pub fn time_ns(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1))) as u64
}

#[cfg(test)]
mod tests;
