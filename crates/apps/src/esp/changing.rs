//! Tunnels with fixed keys, which are added and removed while packets flow.
//!
//! [`Fixed`] has all of them without those that come and go; [`Fixed::below`] puts it in front of these. Workers see what
//! was before or what is now, never a part of it. Neighbours: `policy` says what belongs into them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::association::{Inbound, Outbound};
use super::cipher::Algorithm;
use super::encapsulate::Outer;
use super::path::Path;
use super::policy::Policy;
use super::{Bell, Esp, Keyed, Pair, Shared, Start, Tunnel};

/// What has to go through a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// [`Tunnel::local`].
    pub local: IpAddr,
    /// [`Tunnel::remote`].
    pub remote: IpAddr,
    /// [`Tunnel::remote_prefixes`].
    pub remote_prefixes: Vec<IpNet>,
    /// [`Tunnel::local_prefixes`].
    pub local_prefixes: Vec<IpNet>,
    /// [`Tunnel::clear_prefixes`].
    pub clear_prefixes: Vec<IpNet>,
}

impl Tunnel {
    fn bounds(&self) -> Bounds {
        Bounds {
            local: self.local,
            remote: self.remote,
            remote_prefixes: self.remote_prefixes.clone(),
            local_prefixes: self.local_prefixes.clone(),
            clear_prefixes: self.clear_prefixes.clone(),
        }
    }

    fn keyed(&self, (spi, key): &(u32, super::Key)) -> Keyed {
        let (algorithm, extended): (Algorithm, bool) = (self.algorithm, self.extended_sequence);
        Keyed { spi: *spi, algorithm, key: key.again(), extended, used: 0 }
    }
}

/// Tunnels with fixed keys.
#[derive(Debug, Default)]
pub(super) struct Fixed(Vec<One>);

#[derive(Debug)]
struct One {
    bounds: Bounds,
    pair: Pair,
    into: Arc<Inbound>,
}

impl Fixed {
    pub(super) fn put(&mut self, tunnel: &Tunnel, start: Start, bell: &Bell) {
        let Tunnel { local, remote, udp, df, .. } = *tunnel;
        let out = Outbound::new(&tunnel.keyed(&tunnel.out), start.claim, bell);
        let path = Arc::new(Path::new(tunnel.mtu));
        self.0.push(One {
            bounds: tunnel.bounds(),
            pair: Pair { outer: Outer { local, remote, udp, df }, out: Some(Arc::new(out)), path },
            into: Arc::new(Inbound::new(&tunnel.keyed(&tunnel.into), tunnel.window, start.seen)),
        });
    }

    /// These, with the rules of `others` behind their own and without the others' associations.
    pub(super) fn alone(&self, others: Shared) -> Shared {
        let bounds: Vec<Bounds> = self.0.iter().map(|one| one.bounds.clone()).collect();
        let policy = Policy::new(&bounds).and(&others.selectors, self.0.len(), &others.ends);
        let into = |(number, one): (usize, &One)| (one.into.clone(), number);
        Shared {
            policy,
            pairs: self.0.iter().map(|one| one.pair.clone()).collect(),
            fixed: self.0.len(),
            into: self.0.iter().enumerate().map(into).collect(),
            ..others
        }
    }

    /// These instead of the fixed ones of `before`, whose others go on.
    pub(super) fn below(&self, before: &Shared) -> Shared {
        let mut next = self.alone(before.clone());
        next.pairs.extend_from_slice(&before.pairs[before.fixed..]);
        let others = before.into.iter().filter(|(_, number)| *number >= before.fixed);
        let moved = |(one, number): &(Arc<Inbound>, usize)| {
            (one.clone(), number - before.fixed + next.fixed)
        };
        next.into.extend(others.map(moved));
        next.settle()
    }
}

impl Esp {
    /// A tunnel more, which begins where `start` says; its keys and the index of what it opens are no other's.
    pub fn add(&self, tunnel: &Tunnel, start: Start) {
        let mut fixed = self.fixed.lock().expect("tunnels");
        fixed.put(tunnel, start, &self.bell);
        self.take(&fixed);
    }

    /// Without the tunnel that opens what has this index; both its associations, or nothing if there is none with fixed
    /// keys. What belonged into it is routed as anything else from now on.
    pub fn remove(&self, spi_in: u32) -> Option<(Arc<Outbound>, Arc<Inbound>)> {
        let mut fixed = self.fixed.lock().expect("tunnels");
        let at = fixed.0.iter().position(|one| one.into.spi == spi_in)?;
        let removed = fixed.0.remove(at);
        self.take(&fixed);
        removed.pair.out.map(|out| (out, removed.into))
    }

    fn take(&self, fixed: &Fixed) {
        let next = fixed.below(&self.shared.load());
        self.locals.lock().expect("addresses").extend(&next.locals);
        self.shared.store(Arc::new(next));
    }
}
