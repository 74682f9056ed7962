//! How a policy goes into the program's maps: what changes, in an order in which at no moment less is left to
//! the kernel than the policies before and after have in common. Whatever fails leaves everything to it.

use std::collections::BTreeMap;
use std::io;

use super::policy::{KernelPolicy, PREFIXES_MAX, Prefix, RawHead, RawPrefix, UNHELD};

/// The maps.
pub(super) trait PolicyMaps {
    /// Enters a prefix or changes its reason.
    fn set_prefix(&mut self, prefix: &RawPrefix, reason: u8) -> io::Result<()>;
    /// Takes a prefix out that is there.
    fn remove_prefix(&mut self, prefix: &RawPrefix) -> io::Result<()>;
    /// Sets the reasons of a VLAN's families.
    fn set_vlan(&mut self, vlan: u16, reasons: [u8; 2]) -> io::Result<()>;
    /// Says for whole families and where to look; takes effect at once for each packet that follows.
    fn set_head(&mut self, head: RawHead) -> io::Result<()>;
}

/// What the maps hold.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The policy, unless the last change of it failed.
    policy: Option<KernelPolicy>,
    prefixes: BTreeMap<Prefix, u8>,
    vlans: BTreeMap<u16, [u8; 2]>,
    head: RawHead,
}

impl Held {
    /// What was last said for whole families.
    pub(super) fn head(&self) -> RawHead {
        self.head
    }

    /// Makes `policy` the one that is held.
    ///
    /// # Errors
    /// When it has too many prefixes or a map refuses: then everything is left to the kernel.
    pub(super) fn change(
        &mut self,
        policy: &KernelPolicy,
        maps: &mut impl PolicyMaps,
    ) -> io::Result<()> {
        if self.policy.as_ref() == Some(policy) {
            return Ok(());
        }
        let result = match policy.all_prefixes().len() {
            0..=PREFIXES_MAX => self.carry_out(policy, maps),
            count => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the policy has {count} prefixes; the most is {PREFIXES_MAX}"),
            )),
        };
        self.policy = match &result {
            Ok(()) => Some(policy.clone()),
            Err(_) => {
                self.set_head(KernelPolicy::everything(UNHELD).head(), maps)?;
                None
            }
        };
        result
    }

    fn carry_out(&mut self, policy: &KernelPolicy, maps: &mut impl PolicyMaps) -> io::Result<()> {
        for (prefix, reason) in policy.all_prefixes() {
            if self.prefixes.get(prefix) != Some(reason) {
                maps.set_prefix(&RawPrefix::of(prefix), *reason)?;
                self.prefixes.insert(*prefix, *reason);
            }
        }
        for (vlan, reasons) in policy.of_vlans() {
            let before = self.vlans.get(vlan).copied().unwrap_or_default();
            let first = |at: usize| if reasons[at] == 0 { before[at] } else { reasons[at] };
            self.set_vlan(*vlan, [first(0), first(1)], maps)?;
        }
        self.set_head(self.head.with(policy.head()), maps)?;
        let gone =
            self.prefixes.keys().filter(|prefix| !policy.all_prefixes().contains_key(prefix));
        for prefix in gone.copied().collect::<Vec<_>>() {
            maps.remove_prefix(&RawPrefix::of(&prefix))?;
            self.prefixes.remove(&prefix);
        }
        for vlan in self.vlans.keys().copied().collect::<Vec<_>>() {
            let reasons = policy.of_vlans().get(&vlan).copied().unwrap_or_default();
            self.set_vlan(vlan, reasons, maps)?;
        }
        self.set_head(policy.head(), maps)
    }

    fn set_vlan(
        &mut self,
        vlan: u16,
        reasons: [u8; 2],
        maps: &mut impl PolicyMaps,
    ) -> io::Result<()> {
        if self.vlans.get(&vlan).copied().unwrap_or_default() != reasons {
            maps.set_vlan(vlan, reasons)?;
        }
        match reasons {
            [0, 0] => _ = self.vlans.remove(&vlan),
            _ => _ = self.vlans.insert(vlan, reasons),
        }
        Ok(())
    }

    fn set_head(&mut self, head: RawHead, maps: &mut impl PolicyMaps) -> io::Result<()> {
        maps.set_head(head)?;
        self.head = head;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::super::policy::Side;
    use super::*;

    /// Maps in memory that note, after every step, which of all packets are left to the kernel.
    #[derive(Default)]
    struct Memory {
        prefixes: BTreeMap<[u8; 20], BTreeMap<u32, u8>>,
        vlans: BTreeMap<u16, [u8; 2]>,
        head: RawHead,
        seen: Vec<Vec<bool>>,
        steps_left: usize,
    }

    impl Memory {
        /// Whether the next change is refused.
        fn step(&mut self) -> io::Result<()> {
            self.steps_left = self.steps_left.checked_sub(1).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(())
        }

        fn see(&mut self) -> io::Result<()> {
            let left = packets().map(|packet| self.leaves(packet)).collect();
            self.seen.push(left);
            Ok(())
        }

        fn leaves(&self, (v6, vlan, source): (bool, u16, u8)) -> bool {
            let by_vlan = self.vlans.get(&vlan).copied().unwrap_or_default()[usize::from(v6)];
            let raw =
                RawPrefix::of(&(Side::Source, address(v6, source), if v6 { 128 } else { 32 }));
            let side = self.head.sides & 1 << raw.side != 0;
            let by_prefix = side && self.prefixes.contains_key(&raw.data());
            let all = self.head.all[usize::from(v6)] != 0;
            all || self.head.vlans != 0 && by_vlan != 0 || by_prefix
        }
    }

    fn address(v6: bool, last: u8) -> IpAddr {
        match v6 {
            true => IpAddr::from([0, 0, 0, 0, 0, 0, 0, u16::from(last)]),
            false => IpAddr::from([10, 0, 0, last]),
        }
    }

    fn packets() -> impl Iterator<Item = (bool, u16, u8)> {
        let of = |v6| (0..3).flat_map(move |vlan| (0..3).map(move |source| (v6, vlan, source)));
        of(false).chain(of(true))
    }

    impl PolicyMaps for Memory {
        fn set_prefix(&mut self, prefix: &RawPrefix, reason: u8) -> io::Result<()> {
            self.step()?;
            self.prefixes.entry(prefix.data()).or_default().insert(prefix.length, reason);
            self.see()
        }
        fn remove_prefix(&mut self, prefix: &RawPrefix) -> io::Result<()> {
            self.step()?;
            let gone = self.prefixes.remove(&prefix.data());
            assert!(gone.is_some(), "a prefix was removed that is not there");
            self.see()
        }
        fn set_vlan(&mut self, vlan: u16, reasons: [u8; 2]) -> io::Result<()> {
            self.step()?;
            self.vlans.insert(vlan, reasons);
            self.see()
        }
        fn set_head(&mut self, head: RawHead) -> io::Result<()> {
            self.head = head;
            self.see()
        }
    }

    prop_compose! {
        fn policy()(
            all in prop::collection::vec(any::<bool>(), 0..2),
            vlans in prop::collection::vec((any::<bool>(), 0_u16..3), 0..4),
            sources in prop::collection::vec((any::<bool>(), 0_u8..3), 0..4),
        ) -> KernelPolicy {
            let mut policy = KernelPolicy::default();
            all.iter().for_each(|v6| policy.leave_all(*v6, 1));
            vlans.iter().for_each(|(v6, vlan)| policy.leave_vlan(*v6, *vlan, 2));
            for (v6, source) in sources {
                let bits = if v6 { 128 } else { 32 };
                policy.leave_prefix(Side::Source, address(v6, source), bits, 3);
            }
            policy
        }
    }

    proptest! {
        #[test]
        fn what_is_left_before_and_after_is_left_in_between(
            policies in prop::collection::vec(policy(), 1..6),
        ) {
            let mut memory = Memory { steps_left: usize::MAX / 2, ..Memory::default() };
            let mut held = Held::default();
            let mut before: Vec<bool> = packets().map(|_| false).collect();
            for policy in &policies {
                memory.seen.clear();
                held.change(policy, &mut memory).expect("changed");
                let after: Vec<bool> = packets().map(|packet| memory.leaves(packet)).collect();
                let mut fresh = Memory { steps_left: usize::MAX / 2, ..Memory::default() };
                Held::default().change(policy, &mut fresh).expect("set");
                let wanted: Vec<bool> = packets().map(|packet| fresh.leaves(packet)).collect();
                prop_assert_eq!(&after, &wanted);
                for seen in &memory.seen {
                    for ((seen, before), after) in seen.iter().zip(&before).zip(&after) {
                        prop_assert!(*seen || !(*before && *after));
                    }
                }
                before = after;
            }
        }

        #[test]
        fn what_fails_leaves_everything_until_something_succeeds(
            first in policy(), second in policy(), steps in 0_usize..40,
        ) {
            let mut memory = Memory { steps_left: usize::MAX / 2, ..Memory::default() };
            let mut held = Held::default();
            held.change(&first, &mut memory).expect("set");
            memory.steps_left = steps;
            let failed = held.change(&second, &mut memory).is_err();
            prop_assert!(!failed || packets().all(|packet| memory.leaves(packet)));
            memory.steps_left = usize::MAX / 2;
            held.change(&second, &mut memory).expect("set");
            let mut fresh = Memory { steps_left: usize::MAX / 2, ..Memory::default() };
            Held::default().change(&second, &mut fresh).expect("set");
            for packet in packets() {
                prop_assert_eq!(memory.leaves(packet), fresh.leaves(packet));
            }
        }
    }

    #[test]
    fn more_prefixes_than_fit_leave_everything_to_the_kernel() {
        let mut policy = KernelPolicy::default();
        for number in 0..=PREFIXES_MAX as u32 {
            policy.leave_prefix(Side::Source, IpAddr::from(number.to_be_bytes()), 32, 3);
        }
        let mut memory = Memory { steps_left: usize::MAX / 2, ..Memory::default() };
        let mut held = Held::default();
        let error = held.change(&policy, &mut memory).unwrap_err();
        assert!(error.to_string().contains("65537 prefixes"), "{error}");
        assert!(packets().all(|packet| memory.leaves(packet)) && memory.prefixes.is_empty());
    }
}
