//! The forwarding tables as workers read them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use ebb_lpm::{Ipv4Lpm, Ipv6Lpm};

use super::interfaces::Interfaces;
use super::table::{NextHop, Table};

/// What packets are forwarded by: prefixes, next hops, neighbours, interfaces. Shared by all
/// workers and read without locks; [`super::FibWriter`] changes it.
#[derive(Debug)]
pub struct Fib {
    pub(super) v4: Arc<Ipv4Lpm>,
    pub(super) v6: Arc<Ipv6Lpm>,
    pub(super) table: Table,
    pub(super) interfaces: ArcSwap<Interfaces>,
    /// Moves when neighbours or interfaces have changed.
    pub(super) generation: AtomicU64,
    epoch: AtomicU64,
    readers: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Fib {
    pub(super) fn new(v4: Arc<Ipv4Lpm>, v6: Arc<Ipv6Lpm>) -> Fib {
        Fib {
            v4,
            v6,
            table: Table::new(),
            interfaces: ArcSwap::default(),
            generation: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            readers: Mutex::new(Vec::new()),
        }
    }

    /// Looks prefixes up in the way that a short trial by `clock` finds faster on this processor
    /// ([`Ipv4Lpm::take_faster`], [`Ipv6Lpm::take_faster`]).
    pub fn take_faster_lookup(&self, clock: impl Fn() -> Duration) {
        self.v4.take_faster(&clock);
        self.v6.take_faster(&clock);
    }

    /// Memory held by the prefix tables and the next hops, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes() + self.table.memory_bytes()
    }

    /// The next hop of the longest prefix that covers `address`.
    pub(super) fn next_hop(&self, address: IpAddr) -> NextHop {
        self.table.read(match address {
            IpAddr::V4(address) => self.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.v6.lookup(address.to_bits()),
        })
    }

    /// Ends the present epoch and returns it: what is out of the prefix tables now may be used
    /// anew once [`Fib::quiet_since`] it.
    pub(super) fn retire(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether no reader is still inside a section that it entered in `epoch` or before.
    pub(super) fn quiet_since(&self, epoch: u64) -> bool {
        fence(Ordering::SeqCst);
        let mut readers = self.readers.lock().expect("readers");
        readers.retain(|reader| Arc::strong_count(reader) > 1);
        readers.iter().all(|reader| reader.load(Ordering::SeqCst) > epoch)
    }
}

/// One node's access to a [`Fib`]: while it is inside, no next hop it may have looked up is given
/// a new meaning.
#[derive(Debug)]
pub(super) struct Reader {
    pub fib: Arc<Fib>,
    entered: Arc<AtomicU64>,
}

impl Reader {
    const OUTSIDE: u64 = u64::MAX;

    pub(super) fn new(fib: &Arc<Fib>) -> Reader {
        let entered = Arc::new(AtomicU64::new(Self::OUTSIDE));
        fib.readers.lock().expect("readers").push(entered.clone());
        Reader { fib: fib.clone(), entered }
    }

    /// Begins a section. The order matters: whoever does not see this mark has removed its
    /// prefixes before this reader looks them up (store, full fence, load on both sides).
    #[inline]
    pub(super) fn enter(&self) {
        let epoch = self.fib.epoch.load(Ordering::Acquire);
        self.entered.store(epoch, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the section.
    #[inline]
    pub(super) fn leave(&self) {
        self.entered.store(Self::OUTSIDE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_quiet_when_its_readers_have_left() {
        let fib = Arc::new(Fib::new(ebb_lpm::Ipv4Writer::new().1, ebb_lpm::Ipv6Writer::new().1));
        let (early, late) = (Reader::new(&fib), Reader::new(&fib));
        early.enter();
        let epoch = fib.retire();
        late.enter();
        assert!(!fib.quiet_since(epoch), "a reader from before");
        early.leave();
        assert!(fib.quiet_since(epoch), "the other came later");
        early.enter();
        drop((early, late));
        assert!(fib.quiet_since(fib.retire()), "readers that are gone do not count");
    }
}
