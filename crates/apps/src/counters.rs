//! What one worker's nodes of an application counted: declared as a list, written by nobody else.

/// Declares `Counted`, which says which counter, `NAMES`, and `Counters`.
macro_rules! counters {
    ($($which:ident = $name:literal),* $(,)?) => {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Counted {
            $($which),*
        }

        /// In the same order.
        pub(super) const NAMES: [&str; [$($name),*].len()] = [$($name),*];

        /// Of one worker, on lines of the cache of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct Counters([AtomicU64; NAMES.len()]);

        impl Counters {
            #[inline]
            pub(super) fn add(&self, which: Counted, more: u64) {
                let counter = &self.0[which as usize];
                // A single writer needs no more.
                counter.store(counter.load(Relaxed) + more, Relaxed);
            }

            pub(super) fn get(&self) -> [u64; NAMES.len()] {
                std::array::from_fn(|index| self.0[index].load(Relaxed))
            }
        }
    };
}
pub(crate) use counters;
