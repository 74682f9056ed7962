//! Packets that wait for their neighbour's MAC address.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ebb_graph::Packet;
use ebb_units::Time;

use super::{InterfaceId, RouteCounters};

/// A neighbour that packets wait for.
pub(super) type Awaited = (InterfaceId, IpAddr);

/// How often the control thread is reminded of a neighbour.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often to look whether a young wait is over, and for how long it counts as young.
const LOOK_EARLY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// Packets from one side have others give way so often at most.
const GIVE_WAY: Duration = Duration::from_millis(1);
/// How often to look afterwards.
const LOOK_LATE: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Queue {
    packets: Vec<Packet>,
    /// When the first packet began to wait.
    since: Time,
    asked: Time,
}

impl Queue {
    fn rank(&self, (interface, address): Awaited) -> Rank {
        (interface, self.packets.len(), Reverse(self.since), address)
    }
}

/// Queues by neighbour, bounded one by one and together.
#[derive(Debug)]
pub(super) struct Hold {
    queues: BTreeMap<Awaited, Queue>,
    /// Bits of [`bit`] of every awaited neighbour, and perhaps of some that were.
    filter: [u64; 16],
    total: usize,
    /// How many wait for neighbours of each interface.
    of_interface: BTreeMap<InterfaceId, usize>,
    /// Who gives way, last first: of an interface's neighbours the one for which most wait, and of these the one for
    /// which they have waited for longest.
    longest: BTreeSet<Rank>,
    turns: Turns,
    originated: usize,
    bounds: Arc<RouteCounters>,
}

type Rank = (InterfaceId, usize, Reverse<Time>, IpAddr);

/// When packets that arrive on an interface may have others give way again: each neighbour that is new to the places is
/// asked for, and a flood from one side is to cost neither the kernel nor others more than that.
#[derive(Debug, Default)]
struct Turns(BTreeMap<u16, Time>);

impl Turns {
    fn begins(&mut self, now: Time, arrived: u16) -> bool {
        let next = self.0.entry(arrived).or_default();
        let may = *next <= now;
        if may {
            *next = now + GIVE_WAY;
        }
        may
    }
}

/// What came of holding a packet.
#[derive(Debug)]
pub(super) enum Held {
    /// It waits behind others.
    Waits,
    /// It waits and is the first: the neighbour is to be asked for.
    First,
    /// The same, and this one, which waited for another neighbour, has given way.
    Instead(Packet),
    /// There is no space for it.
    Full(Packet),
}

impl Hold {
    pub(super) fn new(bounds: Arc<RouteCounters>) -> Hold {
        Hold {
            queues: BTreeMap::new(),
            filter: [0; 16],
            total: 0,
            of_interface: BTreeMap::new(),
            longest: BTreeSet::new(),
            turns: Turns::default(),
            originated: 0,
            bounds,
        }
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.total
    }

    /// Those of them that the router made itself.
    pub(super) fn originated(&self) -> usize {
        self.originated
    }

    /// Lets a packet wait. `since` is when it began to, elsewhere: such a packet is not refused, since it was
    /// accepted there.
    pub(super) fn push(
        &mut self,
        now: Time,
        since: Option<Time>,
        awaited: Awaited,
        packet: Packet,
    ) -> Held {
        let waiting = self.queues.get(&awaited).map_or(0, |queue| queue.packets.len());
        let limits = self.bounds.limits();
        // An interface may take as much as is left free (Choudhury and Hahne, Dynamic queue length thresholds, 1998):
        // one behind which nobody answers takes half of the places, two of them in the long run a third each, and
        // each other interface half of what is left.
        let of_interface = self.of_interface.get(&awaited.0).copied().unwrap_or(0);
        let full = of_interface >= limits.hold_total_max.saturating_sub(self.total);
        let too_many = waiting >= limits.hold_per_neighbour_max;
        let mut gone = None;
        if (full || too_many) && since.is_none() {
            // Whoever has nobody waiting for it yet is let in all the same: dead neighbours would keep the living out.
            let may = waiting == 0 && !too_many && self.turns.begins(now, packet.interface);
            gone = if may { self.give_way(awaited.0) } else { None };
            if gone.is_none() {
                return Held::Full(packet);
            }
        }
        self.total += 1;
        *self.of_interface.entry(awaited.0).or_default() += 1;
        self.originated += usize::from(packet.flags & Packet::ORIGINATED != 0);
        let (word, bit) = bit(&awaited);
        self.filter[word] |= bit;
        let queue = self.queues.entry(awaited).or_insert_with(|| Queue {
            packets: Vec::new(),
            since: now,
            asked: now,
        });
        self.longest.remove(&queue.rank(awaited));
        queue.since = queue.since.min(since.unwrap_or(now));
        queue.packets.push(packet);
        self.longest.insert(queue.rank(awaited));
        match gone {
            Some(packet) => Held::Instead(packet),
            None if waiting == 0 => Held::First,
            None => Held::Waits,
        }
    }

    /// The youngest packet for the neighbour behind an interface for which most wait.
    fn give_way(&mut self, interface: InterfaceId) -> Option<Packet> {
        let (last, .., address) = self
            .longest
            .range(
                ..(
                    InterfaceId(interface.0.checked_add(1)?),
                    0,
                    Reverse(Time::from_nanos(u64::MAX)),
                    IpAddr::from([0; 4]),
                ),
            )
            .next_back()?;
        if *last != interface {
            return None;
        }
        let awaited = (interface, *address);
        let queue = self.queues.get_mut(&awaited)?;
        self.longest.remove(&queue.rank(awaited));
        let packet = queue.packets.pop()?;
        if queue.packets.is_empty() {
            self.queues.remove(&awaited);
        } else {
            self.longest.insert(queue.rank(awaited));
        }
        self.total -= 1;
        leave(&mut self.of_interface, interface, 1);
        self.originated -= usize::from(packet.flags & Packet::ORIGINATED != 0);
        Some(packet)
    }

    /// Whether packets wait for this neighbour, so that later ones must stand behind them.
    #[inline]
    pub(super) fn awaits(&self, awaited: &Awaited) -> bool {
        let (word, bit) = bit(awaited);
        self.filter[word] & bit != 0 && self.queues.contains_key(awaited)
    }

    /// All awaited neighbours with one packet of each.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (&Awaited, &Packet)> {
        self.queues.iter().map(|(awaited, queue)| (awaited, &queue.packets[0]))
    }

    /// Ends the wait for a neighbour; the packets in order of arrival.
    pub(super) fn take(&mut self, awaited: &Awaited) -> Vec<Packet> {
        let queue = self.queues.remove(awaited);
        queue.iter().for_each(|queue| _ = self.longest.remove(&queue.rank(*awaited)));
        let packets = queue.map_or(Vec::new(), |queue| queue.packets);
        self.total -= packets.len();
        leave(&mut self.of_interface, awaited.0, packets.len());
        self.originated -=
            packets.iter().filter(|packet| packet.flags & Packet::ORIGINATED != 0).count();
        if self.queues.is_empty() {
            self.filter = [0; 16];
        }
        packets
    }

    /// Ends the wait of the packets that `leaves`: by neighbour, in order of arrival, with the time since
    /// when they wait.
    pub(super) fn give_up(
        &mut self,
        leaves: &mut dyn FnMut(&Packet) -> bool,
    ) -> Vec<(Time, Vec<Packet>)> {
        let mut given = Vec::new();
        let (total, originated) = (&mut self.total, &mut self.originated);
        let (of_interface, longest) = (&mut self.of_interface, &mut self.longest);
        self.queues.retain(|awaited, queue| {
            let interface = &awaited.0;
            longest.remove(&queue.rank(*awaited));
            let packets = std::mem::take(&mut queue.packets);
            let (gone, stay): (Vec<_>, Vec<_>) =
                packets.into_iter().partition(|packet| leaves(packet));
            *total -= gone.len();
            leave(of_interface, *interface, gone.len());
            *originated -=
                gone.iter().filter(|packet| packet.flags & Packet::ORIGINATED != 0).count();
            if !gone.is_empty() {
                given.push((queue.since, gone));
            }
            queue.packets = stay;
            let stays = !queue.packets.is_empty();
            if stays {
                longest.insert(queue.rank(*awaited));
            }
            stays
        });
        if self.queues.is_empty() {
            self.filter = [0; 16];
        }
        given
    }

    /// The neighbours that were waited for too long.
    pub(super) fn timed_out(&self, now: Time) -> Vec<Awaited> {
        let timeout = self.bounds.limits().hold_timeout;
        let late = |queue: &Queue| now.since(queue.since) >= timeout;
        self.queues.iter().filter(|(_, queue)| late(queue)).map(|(awaited, _)| *awaited).collect()
    }

    /// The neighbours to ask for again; they count as asked for from now on.
    pub(super) fn ask_again(&mut self, now: Time) -> Vec<Awaited> {
        let mut due = Vec::new();
        for (awaited, queue) in &mut self.queues {
            if now.since(queue.asked) >= ASK_AGAIN {
                queue.asked = now;
                due.push(*awaited);
            }
        }
        due
    }

    /// When to look again, having looked at `now`.
    pub(super) fn look_at(&self, now: Time) -> Option<Time> {
        let youngest = self.queues.values().map(|queue| queue.since).max()?;
        let pause = if now.since(youngest) < LOOK_EARLY.1 { LOOK_EARLY.0 } else { LOOK_LATE };
        Some(now + pause)
    }
}

/// So many packets for neighbours of an interface wait no more.
fn leave(of_interface: &mut BTreeMap<InterfaceId, usize>, interface: InterfaceId, count: usize) {
    if let Some(waiting) = of_interface.get_mut(&interface) {
        *waiting -= count;
        if *waiting == 0 {
            of_interface.remove(&interface);
        }
    }
}

/// Where a neighbour's bit is in the filter.
#[inline]
fn bit((interface, address): &Awaited) -> (usize, u64) {
    let address = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    let hash = (address ^ u64::from(interface.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 60) as usize, 1 << (hash >> 54 & 63))
}

#[cfg(test)]
mod tests {
    use ebb_graph::{Pool, Reserve};
    use proptest::prelude::*;

    use super::super::RouteLimits;
    use super::*;

    const MAX: usize = 48;

    /// Those behind the same interface that answer find a place beside any number that do not, and the places are
    /// never more.
    #[test]
    fn dead_neighbours_give_way_to_one_that_is_new() {
        let limits = RouteLimits {
            hold_total_max: MAX,
            hold_per_neighbour_max: 4,
            ..RouteLimits::default()
        };
        let mut pool = Pool::new(Reserve::allocate(2 * MAX as u32).1);
        let mut hold = Hold::new(Arc::new(RouteCounters::new(&limits)));
        let (mut lives, mut replaced) = (Vec::new(), 0);
        for number in 0..600_u16 {
            // Three of four are for dead ones: the same ten at first, new ones later.
            let dead = if number < 300 { number % 10 } else { number };
            let host = if number % 4 == 0 { 0x8000 | number } else { dead };
            let awaited = (InterfaceId(1), IpAddr::from([10, 0, (host >> 8) as u8, host as u8]));
            let packet = pool.get().expect("a frame").fill(&[0; 60]);
            let now = Time::from_nanos(u64::from(number) * 1_000_000);
            match hold.push(now, None, awaited, packet) {
                Held::Full(packet) => {
                    assert!(host == dead, "the living find a place");
                    pool.put(packet.into_frame());
                }
                Held::Instead(packet) => {
                    replaced += 1;
                    pool.put(packet.into_frame());
                }
                Held::First | Held::Waits => {}
            }
            assert!(hold.len() <= MAX / 2 && hold.longest.len() == hold.queues.len());
            if host != dead {
                lives.push(awaited);
            }
            // It answers after two more have come.
            if let Some(at) = lives.iter().position(|live| *live != awaited) {
                let packets = hold.take(&lives.remove(at));
                assert_eq!(packets.len(), 1, "it waited");
                packets.into_iter().for_each(|packet| pool.put(packet.into_frame()));
            }
        }
        assert!(replaced > 100, "{replaced}");
        // One from each side at a time.
        let now = Time::from_nanos(1_000_000_000);
        let mut push = |side: u16, host: u8| {
            let mut packet = pool.get().expect("a frame").fill(&[0; 60]);
            packet.interface = side;
            match hold.push(
                now,
                None,
                (InterfaceId(1), IpAddr::from([10, 9, side as u8, host])),
                packet,
            ) {
                Held::Full(packet) => (pool.put(packet.into_frame()), false).1,
                Held::Instead(packet) => (pool.put(packet.into_frame()), true).1,
                Held::First | Held::Waits => true,
            }
        };
        for host in 0..MAX as u8 {
            push(1, host);
        }
        assert!(!push(1, 200) && push(2, 1) && !push(2, 2));
        let given = hold.give_up(&mut |_| true);
        given
            .into_iter()
            .flat_map(|(_, packets)| packets)
            .for_each(|one| pool.put(one.into_frame()));
        assert!(hold.len() == 0 && hold.longest.is_empty() && hold.of_interface.is_empty());
    }

    proptest! {
        /// Neighbours that nobody answers for, behind some interfaces, take their share of the places and no more:
        /// another interface's packets find half of what those leave.
        #[test]
        fn a_flooded_interface_leaves_others_their_share(
            flooded in 1..5_u16,
            packets in prop::collection::vec((0..5_u16, any::<u8>()), 0..400),
        ) {
            let limits = RouteLimits {
                hold_total_max: MAX,
                hold_per_neighbour_max: 4,
                ..RouteLimits::default()
            };
            let mut pool = Pool::new(Reserve::allocate(2 * MAX as u32).1);
            let mut hold = Hold::new(Arc::new(RouteCounters::new(&limits)));
            let mut push = |interface: u16, last: u8| {
                let awaited = (InterfaceId(interface), IpAddr::from([192, 0, 2, last]));
                let packet = pool.get().expect("a frame").fill(&[0; 60]);
                match hold.push(Time::ZERO, None, awaited, packet) {
                    Held::Full(packet) | Held::Instead(packet) => {
                        pool.put(packet.into_frame());
                        false
                    }
                    _ => true,
                }
            };
            for (interface, last) in packets {
                push(interface % flooded, last);
            }
            // One after the other each leaves half of what it finds.
            let share = MAX >> (flooded + 1);
            prop_assert!((0..share as u8).all(|last| push(9, last)), "{share} of {MAX}");
            let all: Vec<Awaited> = hold.awaited().map(|(awaited, _)| *awaited).collect();
            for awaited in all {
                hold.take(&awaited).into_iter().for_each(|packet| pool.put(packet.into_frame()));
            }
            prop_assert!(hold.len() == 0 && hold.of_interface.is_empty() && hold.longest.is_empty());
        }
    }
}
