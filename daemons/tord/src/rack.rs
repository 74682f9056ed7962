//! One rack's data path: hosts, queues, uplink. It reads no clock and knows no interfaces but as
//! [`Port`]s, so that tests run it over links in memory.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_graph::{Batch, Packet, Pool};
use ebb_ports::Port;
use ebb_system_circuit::tokens::{Purse, Tokens};
use ebb_wire::{Ipv4, Ipv6, ethertype, finish_checksums};
use ipnet::IpNet;

use crate::plan::{Day, Phase};
use crate::status::RackStatus;
use crate::voq::{Voqs, wire_len};

/// Frames handed over at a time: few, so that none is still on its way when the day has ended.
const BURST: usize = 8;
/// Length of an Ethernet header.
const LINK: usize = 14;

/// The address that frames to a rack carry between switches; the source tells the packet path.
pub fn rack_mac(rack: u8) -> [u8; 6] {
    [0x02, 0xeb, 0, 0, 0, rack]
}

/// The address that frames from a rack carry on a circuit or on the packet path.
pub fn source_mac(rack: u8, by_packets: bool) -> [u8; 6] {
    [0x02, 0xeb, u8::from(by_packets), 0, 1, rack]
}

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
pub struct HostPort {
    /// The interface.
    pub port: Box<dyn Port>,
    /// Its own address.
    pub mac: [u8; 6],
    /// Addresses behind it.
    pub prefixes: Vec<IpNet>,
    /// Host addresses seen, and their MAC addresses.
    neighbours: BTreeMap<IpAddr, [u8; 6]>,
    staged: Batch,
}

impl HostPort {
    /// An interface whose hosts are not known yet.
    pub fn new(port: Box<dyn Port>, mac: [u8; 6], prefixes: Vec<IpNet>) -> HostPort {
        HostPort { port, mac, prefixes, neighbours: BTreeMap::new(), staged: Batch::new() }
    }
}

/// Most frames held for hosts whose MAC address is being asked for.
const HELD_MAX: usize = 64;
/// Most host addresses remembered for an interface.
const NEIGHBOURS_MAX: usize = 4096;

/// A rack.
pub struct Rack {
    number: u8,
    uplink: Box<dyn Port>,
    hosts: Vec<HostPort>,
    remotes: Vec<(IpNet, u8)>,
    voqs: Voqs,
    today: Option<(Day, Purse)>,
    wanted: bool,
    /// When the link has carried all that was handed over.
    link_free_ns: u64,
    /// What the link takes for frames that were just handed over while it had nothing to carry.
    from_idle_ns: Option<u64>,
    /// Until when it does not matter whether anybody looks at this rack.
    calm_until_ns: u64,
    turn: usize,
    batch: Batch,
    out: Batch,
    /// Frames for hosts that have not spoken yet.
    held: Vec<(IpAddr, Packet)>,
    counters: RackStatus,
}

impl Rack {
    /// A rack with its ports, and where everybody else is.
    pub fn new(
        number: u8,
        uplink: Box<dyn Port>,
        hosts: Vec<HostPort>,
        mut remotes: Vec<(IpNet, u8)>,
        queue_bytes: u64,
    ) -> Rack {
        // The longest prefix first.
        remotes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.prefix_len()));
        let counters = RackStatus { rack: number, ..RackStatus::default() };
        Rack {
            number,
            uplink,
            hosts,
            remotes,
            voqs: Voqs::new(crate::sync::RACKS_MAX, queue_bytes),
            today: None,
            wanted: false,
            link_free_ns: 0,
            from_idle_ns: None,
            calm_until_ns: 0,
            turn: 0,
            batch: Batch::new(),
            out: Batch::new(),
            held: Vec::new(),
            counters,
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

    /// Changes how much a queue takes.
    pub fn set_queue_bytes(&mut self, bytes: u64) {
        self.voqs.set_limit(bytes);
    }

    /// What it did so far.
    pub fn status(&self) -> RackStatus {
        let mut status = self.counters.clone();
        status.waiting_bytes = self.voqs.bytes().to_vec();
        let hosts = self.hosts.iter().map(|host| host.port.counters());
        for counters in hosts.chain([self.uplink.counters()]) {
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

    /// Takes up to `most` frames from each interface to hosts into queues and returns how many there
    /// were.
    pub fn take_in(&mut self, pool: &mut Pool, most: usize) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        let mut count = 0;
        for at in 0..self.hosts.len() {
            count += self.hosts[at].port.receive(pool, &mut batch, most);
            for packet in batch.drain(..) {
                self.counters.from_hosts += 1;
                self.classify(at, packet, pool);
            }
        }
        self.batch = batch;
        self.flush_hosts(pool);
        count
    }

    fn classify(&mut self, from: usize, mut packet: Packet, pool: &mut Pool) {
        if packet.flags & Packet::UNFINISHED != 0 {
            finish_checksums(packet.data_mut());
        }
        let Some((source, destination)) = addresses(packet.data()) else {
            self.counters.dropped_unroutable += 1;
            return pool.put(packet.into_frame());
        };
        let host = &mut self.hosts[from];
        if host.neighbours.len() < NEIGHBOURS_MAX
            && host.prefixes.iter().any(|prefix| prefix.contains(&source))
        {
            let mac = packet.data()[6..12].try_into().expect("six bytes");
            host.neighbours.insert(source, mac);
        }
        if !one_hop_less(packet.data_mut()) {
            self.counters.dropped_unroutable += 1;
            return pool.put(packet.into_frame());
        }
        let here =
            self.hosts.iter().any(|host| host.prefixes.iter().any(|p| p.contains(&destination)));
        if here {
            return self.hand_over(packet, destination, pool);
        }
        let remote = self.remotes.iter().find(|(prefix, _)| prefix.contains(&destination));
        let Some((_, to)) = remote else {
            self.counters.dropped_unroutable += 1;
            return pool.put(packet.into_frame());
        };
        packet.data_mut()[..6].copy_from_slice(&rack_mac(*to));
        if let Err(packet) = self.voqs.push(usize::from(*to), packet) {
            self.counters.dropped_full += 1;
            pool.put(packet.into_frame());
        }
    }

    /// Takes up to `most` frames from the optical switch to hosts and returns how many there were.
    pub fn deliver(&mut self, pool: &mut Pool, most: usize) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        let count = self.uplink.receive(pool, &mut batch, most);
        for packet in batch.drain(..) {
            self.counters.received += 1;
            match addresses(packet.data()) {
                Some((_, destination)) => self.hand_over(packet, destination, pool),
                None => {
                    self.counters.dropped_unroutable += 1;
                    pool.put(packet.into_frame());
                }
            }
        }
        self.batch = batch;
        self.flush_hosts(pool);
        count
    }

    fn hand_over(&mut self, mut packet: Packet, destination: IpAddr, pool: &mut Pool) {
        let known = self.hosts.iter_mut().find_map(|host| {
            let mac = host.neighbours.get(&destination).copied()?;
            Some((host, mac))
        });
        let Some((host, mac)) = known else {
            let ours =
                self.hosts.iter().any(|h| h.prefixes.iter().any(|p| p.contains(&destination)));
            if ours && self.held.len() < HELD_MAX {
                return self.held.push((destination, packet));
            }
            self.counters.dropped_unroutable += 1;
            return pool.put(packet.into_frame());
        };
        let frame = packet.data_mut();
        frame[..6].copy_from_slice(&mac);
        frame[6..12].copy_from_slice(&host.mac);
        host.staged.push(packet);
    }

    /// Hosts to whom frames wait because nobody knows their MAC address.
    pub fn sought(&self) -> impl Iterator<Item = IpAddr> {
        self.held.iter().map(|(address, _)| *address)
    }

    /// A host's MAC address is known: what waited for it is handed over.
    pub fn learn(&mut self, address: IpAddr, mac: [u8; 6], pool: &mut Pool) {
        let behind = |host: &&mut HostPort| host.prefixes.iter().any(|p| p.contains(&address));
        let Some(host) = self.hosts.iter_mut().find(behind) else { return };
        host.neighbours.insert(address, mac);
        for (to, packet) in std::mem::take(&mut self.held) {
            self.hand_over(packet, to, pool);
        }
    }

    /// Gives up on hosts that did not answer.
    pub fn give_up(&mut self, pool: &mut Pool) {
        for (_, packet) in self.held.drain(..) {
            self.counters.dropped_unroutable += 1;
            pool.put(packet.into_frame());
        }
    }

    /// Sends what is staged for hosts.
    fn flush_hosts(&mut self, pool: &mut Pool) {
        for host in &mut self.hosts {
            if host.staged.is_empty() {
                continue;
            }
            self.counters.to_hosts += host.port.transmit(pool, &mut host.staged) as u64;
            self.counters.dropped_transmit += host.staged.len() as u64;
            pool.put_batch(&mut host.staged);
            // A port that is down keeps what it took; its counters say so.
            _ = host.port.flush();
        }
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
        to < crate::sync::RACKS_MAX && self.voqs.first(to).is_some()
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

    /// Opens the day's purse at its first look, and says whether this was it.
    fn begin(&mut self, day: Day, to: usize, rules: &Rules) -> bool {
        if let Some((today, _)) = &self.today {
            if today.begin_ns == day.begin_ns {
                return false;
            }
            let before = usize::from(today.outputs[usize::from(self.number)]);
            self.counters.days_left += u64::from(self.voqs.first(before).is_some());
        }
        let purse =
            Purse::new(rules.tokens, day.end_ns - day.begin_ns, rules.rate_bps, rules.ahead);
        self.today = Some((day, purse));
        self.wanted = self.voqs.first(to).is_some();
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
            let Some(to) = next.into_iter().find(|to| self.voqs.first(*to).is_some()) else {
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

    /// Hands the frames in `out` to the uplink; those that it does not take go back.
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
        for packet in self.out.drain(..).rev() {
            let len = wire_len(&packet);
            bytes -= len;
            self.counters.requeued += 1;
            if let Some((_, purse)) = &mut self.today {
                purse.refund(len);
            }
            self.link_free_ns -= time_ns(len, rules.rate_bps).min(self.link_free_ns);
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

    /// Gives all frames back.
    pub fn close(&mut self, pool: &mut Pool) {
        for to in 0..crate::sync::RACKS_MAX {
            while let Some(packet) = self.voqs.pop(to) {
                pool.put(packet.into_frame());
            }
        }
        self.give_up(pool);
        self.uplink.close(pool);
        self.hosts.iter_mut().for_each(|host| host.port.close(pool));
    }
}

/// How long the link takes for so many bytes.
pub fn time_ns(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1))) as u64
}

/// Source and destination of an IP frame.
fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let kind = u16::from_be_bytes(frame.get(12..LINK)?.try_into().ok()?);
    let bytes = &frame[LINK..];
    match kind {
        ethertype::IPV4 => {
            let header = Ipv4::new(bytes).filter(|header| header.version() == 4)?;
            Some((header.source().into(), header.destination().into()))
        }
        ethertype::IPV6 => {
            let header = Ipv6::new(bytes).filter(|header| header.version() == 6)?;
            Some((header.source().into(), header.destination().into()))
        }
        _ => None,
    }
}

/// Takes a hop off the frame's life; `false` when it has none left.
fn one_hop_less(frame: &mut [u8]) -> bool {
    let bytes = &mut frame[LINK..];
    if bytes[0] >> 4 == 4 {
        let alive = Ipv4::new(bytes).is_some_and(|header| header.ttl() > 1);
        if alive {
            Ipv4::decrement_ttl(bytes);
        }
        alive
    } else {
        let alive = Ipv6::new(bytes).is_some_and(|header| header.hop_limit() > 1);
        if alive {
            Ipv6::decrement_hop_limit(bytes);
        }
        alive
    }
}

#[cfg(test)]
mod tests;
