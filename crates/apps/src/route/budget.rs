//! How many ICMP errors are sent, and to whom: what one host provokes takes nothing from another's
//! (RFC 4443 section 2.4(f), RFC 1812 section 4.3.2.8), as in Linux (`icmpv4_xrlim_allow`,
//! `inet_peer_xrlim_allow`).

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::hash::DefaultHasher;
use std::net::IpAddr;

use ebb_units::Time;

use super::RouteLimits;

/// Errors that a host may be sent at once: `XRLIM_BURST_FACTOR`.
const HOST_BURST: u64 = 6;
const SETS: usize = 512;
const WAYS: usize = 4;

/// Bounds of errors to each single host, of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpPerHost {
    /// Time after which a host may be sent another error; zero: no bound.
    pub interval: Duration,
    /// The types that are bounded, one bit each. What tells a sender to send smaller packets never is.
    pub types: u32,
}

impl IcmpPerHost {
    /// No bound.
    pub const NONE: IcmpPerHost = IcmpPerHost { interval: Duration::ZERO, types: 0 };
    /// Linux's defaults for IPv4: destination unreachable, source quench, time exceeded, parameter
    /// problem, once a second.
    pub const LINUX_V4: IcmpPerHost = IcmpPerHost {
        interval: Duration::from_secs(1),
        types: 1 << 3 | 1 << 4 | 1 << 11 | 1 << 12,
    };
    /// Linux's defaults for IPv6: all errors but packet too big.
    pub const LINUX_V6: IcmpPerHost =
        IcmpPerHost { interval: Duration::from_secs(1), types: !(1 << 2) };
}

/// What one worker may send.
#[derive(Debug)]
pub(super) struct Budget {
    all: Bucket,
    hosts: Hosts,
}

impl Budget {
    pub(super) fn new(limits: &RouteLimits) -> Budget {
        Budget {
            all: Bucket::new(limits.icmp_rate_pps, limits.icmp_burst),
            hosts: Hosts::new(limits.icmp_seed),
        }
    }

    /// Whether an error of this type may be sent to `host` now; then it counts as sent. `small` are those
    /// that ask for smaller packets: without them connections stand still, so that nothing bounds them
    /// but the packets that provoke them.
    pub(super) fn take(
        &mut self,
        now: Time,
        limits: &RouteLimits,
        host: IpAddr,
        kind: u8,
        small: bool,
    ) -> bool {
        if limits.icmp_rate_pps == 0 {
            return false;
        }
        if small {
            return true;
        }
        let bound = if host.is_ipv4() { limits.icmp_v4 } else { limits.icmp_v6 };
        let bounded = bound.types.checked_shr(u32::from(kind)).is_some_and(|types| types & 1 != 0);
        self.all.bound(limits.icmp_rate_pps, limits.icmp_burst);
        // The host's own first: what is refused there takes nothing from the others'.
        let cost = if bounded { bound.interval.as_nanos() as u64 } else { 0 };
        let now = now.as_nanos();
        if cost == 0 {
            return self.all.take(now);
        }
        let own = self.hosts.find(host, now);
        // Whoever finds no place shares with all.
        let full_at = own.as_ref().map_or(now, |own| own.full_at.max(now)).saturating_add(cost);
        if full_at - now > cost.saturating_mul(HOST_BURST) || !self.all.take(now) {
            return false;
        }
        if let Some(own) = own {
            own.full_at = full_at;
        }
        true
    }
}

/// The buckets of the hosts that were sent errors lately: a table of fixed size. A host whose bucket is
/// full is forgotten for another, which changes nothing for it.
#[derive(Debug)]
struct Hosts {
    /// Nobody outside knows whose places are the same.
    seed: u64,
    sets: Box<[[Own; WAYS]]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// Which host's; 0: nobody's.
    tag: u64,
    /// When the bucket will be full, ns.
    full_at: u64,
}

impl Hosts {
    fn new(seed: u64) -> Hosts {
        Hosts { seed, sets: vec![[Own::default(); WAYS]; SETS].into_boxed_slice() }
    }

    /// The host's bucket, or a full one that becomes the host's; none where all are others' and in use.
    fn find(&mut self, host: IpAddr, now: u64) -> Option<&mut Own> {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        host.hash(&mut hasher);
        let hash = hasher.finish();
        let tag = hash | 1;
        let set = &mut self.sets[(hash >> 32) as usize % SETS];
        let place = set
            .iter()
            .position(|own| own.tag == tag)
            .or_else(|| set.iter().position(|own| own.full_at <= now))?;
        let own = &mut set[place];
        if own.tag != tag {
            *own = Own { tag, full_at: 0 };
        }
        Some(own)
    }
}

/// A token bucket, kept as the time by which it will be full.
#[derive(Debug)]
struct Bucket {
    /// Nanoseconds that one message costs.
    cost: Option<u64>,
    depth: u64,
    full_at: u64,
}

impl Bucket {
    fn new(rate_pps: u32, burst: u32) -> Bucket {
        let mut bucket = Bucket { cost: None, depth: 0, full_at: 0 };
        bucket.bound(rate_pps, burst);
        bucket
    }

    /// Another rate and burst; what was taken so far stays taken.
    fn bound(&mut self, rate_pps: u32, burst: u32) {
        self.cost = 1_000_000_000u64.checked_div(u64::from(rate_pps));
        self.depth = u64::from(burst) * self.cost.unwrap_or(0);
    }

    fn take(&mut self, now: u64) -> bool {
        let Some(cost) = self.cost else { return false };
        let full_at = self.full_at.max(now) + cost;
        let allowed = full_at - now <= self.depth;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const SECOND: u64 = 1_000_000_000;

    fn limits() -> RouteLimits {
        let (icmp_v4, icmp_v6) = (IcmpPerHost::LINUX_V4, IcmpPerHost::LINUX_V6);
        RouteLimits { icmp_v4, icmp_v6, ..RouteLimits::default() }
    }

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn the_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(10, 3);
        let taken =
            |bucket: &mut Bucket, nanos: u64| (0..100).filter(|_| bucket.take(nanos)).count();
        assert_eq!(taken(&mut bucket, 0), 3);
        assert_eq!(taken(&mut bucket, 250_000_000), 2);
        assert_eq!(taken(&mut bucket, 10_000_000_000), 3);
        assert_eq!(taken(&mut Bucket::new(0, 3), 0), 0);
        bucket.bound(10, 5);
        assert_eq!(taken(&mut bucket, 10_000_000_000), 2);
        bucket.bound(0, 5);
        assert_eq!(taken(&mut bucket, 20_000_000_000), 0);
    }

    /// Time exceeded, to `to`, as often as asked for at a moment.
    fn expired(budget: &mut Budget, nanos: u64, to: IpAddr, times: usize) -> usize {
        let kind = if to.is_ipv4() { 11 } else { 3 };
        let now = Time::from_nanos(nanos);
        (0..times).filter(|_| budget.take(now, &limits(), to, kind, false)).count()
    }

    /// `inet_peer_xrlim_allow`: six at once, then one a second, and never more than six saved.
    #[test]
    fn each_host_has_its_own() {
        for to in [host(1), Ipv6Addr::LOCALHOST.into()] {
            let mut budget = Budget::new(&limits());
            assert_eq!(expired(&mut budget, SECOND, to, 100), 6);
            assert_eq!(expired(&mut budget, SECOND, host(9), 100), 6, "another host");
            assert_eq!(expired(&mut budget, 2 * SECOND + 1, to, 100), 1);
            assert_eq!(expired(&mut budget, 60 * SECOND, to, 100), 6);
        }
    }

    /// One host that asks for more than all may have, between any two of another's: it takes nothing.
    #[test]
    fn a_flood_takes_nothing_from_others() {
        let mut budget = Budget::new(&limits());
        let mut given = 0;
        for step in 0..20 {
            let at = SECOND + step * SECOND;
            expired(&mut budget, at, host(1), 10_000);
            given += expired(&mut budget, at, host(2), 1);
        }
        assert_eq!(given, 20);
    }

    /// "Packet too big" beside as many expired packets as there are addresses.
    #[test]
    fn what_asks_for_smaller_packets_is_always_sent() {
        let mut budget = Budget::new(&limits());
        for number in 0..100_000 {
            expired(&mut budget, SECOND, host(number), 1);
        }
        assert_eq!(expired(&mut budget, SECOND, host(200_000), 1), 0, "all of it is used up");
        let now = Time::from_nanos(SECOND);
        assert!((0..1000).all(|_| budget.take(now, &limits(), host(7), 3, true)));
        assert!((0..1000).all(|_| budget.take(
            now,
            &limits(),
            Ipv6Addr::LOCALHOST.into(),
            2,
            true
        )));
        let none = RouteLimits { icmp_rate_pps: 0, ..limits() };
        assert!(!budget.take(now, &none, host(7), 3, true), "none at all were asked for");
    }

    /// However many hosts: the table stays, and each of them that is alone at its time has its own.
    #[test]
    fn the_table_holds_any_number_of_hosts() {
        let wide = RouteLimits { icmp_rate_pps: 1_000_000, icmp_burst: 1_000_000, ..limits() };
        let mut budget = Budget::new(&wide);
        let now = Time::from_nanos(SECOND);
        let given = (0..200_000).filter(|number| budget.take(now, &wide, host(*number), 11, false));
        assert_eq!(given.count(), 200_000, "each its first");
        // Long after, places are free again.
        let later = Time::from_nanos(100 * SECOND);
        let own = (0..100).filter(|_| budget.take(later, &wide, host(1_000_000), 11, false));
        assert_eq!(own.count(), 6);
    }

    #[test]
    fn types_outside_the_mask_and_no_interval_know_no_host() {
        let mut budget = Budget::new(&limits());
        let now = Time::from_nanos(SECOND);
        let unbounded = RouteLimits { icmp_v4: IcmpPerHost::NONE, ..limits() };
        let given = (0..200).filter(|_| budget.take(now, &unbounded, host(1), 11, false));
        assert_eq!(given.count(), 100, "the burst of all");
        let other = IcmpPerHost { types: 1 << 3, ..IcmpPerHost::LINUX_V4 };
        let mut budget = Budget::new(&limits());
        let some = RouteLimits { icmp_v4: other, ..limits() };
        let given = (0..200).filter(|_| budget.take(now, &some, host(1), 11, false));
        assert_eq!(given.count(), 100);
    }
}
