//! Packets that wait for their neighbour's MAC address.

use core::time::Duration;
use std::collections::BTreeMap;
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
/// How often to look afterwards.
const LOOK_LATE: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Queue {
    packets: Vec<Packet>,
    /// When the first packet began to wait.
    since: Time,
    asked: Time,
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
    originated: usize,
    bounds: Arc<RouteCounters>,
}

/// What came of holding a packet.
#[derive(Debug)]
pub(super) enum Held {
    /// It waits behind others.
    Waits,
    /// It waits and is the first: the neighbour is to be asked for.
    First,
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
        // An interface may take as much as is left free (Choudhury and Hahne, Dynamic queue length thresholds, 1998): one
        // behind which nobody answers takes half of the places, two of them in the long run a third each, and each other
        // interface half of what is left.
        let of_interface = self.of_interface.get(&awaited.0).copied().unwrap_or(0);
        let full = of_interface >= limits.hold_total_max.saturating_sub(self.total)
            || waiting >= limits.hold_per_neighbour_max;
        if full && since.is_none() {
            return Held::Full(packet);
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
        queue.since = queue.since.min(since.unwrap_or(now));
        queue.packets.push(packet);
        if waiting == 0 { Held::First } else { Held::Waits }
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
        let packets = self.queues.remove(awaited).map_or(Vec::new(), |queue| queue.packets);
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
        let of_interface = &mut self.of_interface;
        self.queues.retain(|(interface, _), queue| {
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
            !queue.packets.is_empty()
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

    proptest! {
        /// Neighbours that nobody answers for, behind some interfaces, take their share of the places and no more: another
        /// interface's packets find half of what those leave.
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
                    Held::Full(packet) => {
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
            prop_assert!(hold.len() == 0 && hold.of_interface.is_empty());
        }
    }
}
