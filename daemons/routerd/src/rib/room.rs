//! Routes for which the forwarding tables have no place.
//!
//! Without it, packets would follow the next shorter prefix, wherever that leads: so all prefixes around it are
//! the kernel's, until there is room again or the route is gone.

use ebb_apps::route::Target;
use ipnet::IpNet;

use super::prefixes::Key;
use super::{Rib, Tables};

/// What became of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It stands as it should.
    Right,
    /// There was no place for what it leads to: it leads to the kernel.
    Kernels,
    /// There is no place for its prefix.
    Nowhere,
    /// It was removed, or was not there.
    Gone,
}

/// Sets or removes a route.
pub(super) fn put(out: &mut impl Tables, prefix: IpNet, target: Option<&Target>) -> Held {
    let Some(target) = target else {
        out.remove_route(prefix);
        return Held::Gone;
    };
    let Err(error) = out.set_route(prefix, target) else { return Held::Right };
    tracing::warn!(%prefix, %error, code = "EBB-R071", "the tables have no space for a route; the kernel forwards its packets");
    if out.set_route(prefix, &Target::Kernel).is_ok() {
        return Held::Kernels;
    }
    out.remove_route(prefix);
    Held::Nowhere
}

impl Rib {
    /// Carries out what follows for the prefixes around.
    pub(super) fn note(&mut self, key: Key, held: Held, out: &mut impl Tables) {
        let counts = matches!(held, Held::Kernels | Held::Nowhere) && self.prefixes.has(key);
        self.refused += u64::from(counts);
        if held == Held::Nowhere {
            if self.prefixes.unheld.insert(key) {
                self.review_around(key, out);
            }
            return;
        }
        if self.prefixes.unheld.is_empty() {
            return;
        }
        if self.prefixes.unheld.remove(&key) {
            self.review_around(key, out);
        } else if held == Held::Gone
            && let Some(waiting) = self.prefixes.unheld.pop_first()
        {
            // There may be room for it now.
            self.put_again(waiting, out);
            if !self.prefixes.unheld.contains(&waiting) {
                self.review_around(waiting, out);
            }
        }
    }

    fn review_around(&mut self, key: Key, out: &mut impl Tables) {
        let mut around = key.prefix().supernet();
        while let Some(prefix) = around {
            let cover = Key::from(prefix);
            if self.prefixes.has(cover) || prefix.prefix_len() == 0 {
                self.put_again(cover, out);
            }
            around = prefix.supernet();
        }
    }
}
