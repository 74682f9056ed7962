//! What is on its way: events a few cycles ahead, one list per cycle, used again and again.

/// Events up to a fixed number of cycles ahead.
pub(super) struct Wheel<E> {
    slots: Vec<Vec<E>>,
    mask: usize,
}

impl<E: Copy> Wheel<E> {
    /// For events up to `ahead_max` cycles ahead.
    pub(super) fn new(ahead_max: u64) -> Wheel<E> {
        let slots = (ahead_max + 1).next_power_of_two() as usize;
        Wheel { slots: (0..slots).map(|_| Vec::new()).collect(), mask: slots - 1 }
    }

    #[inline]
    pub(super) fn schedule(&mut self, cycle: u64, event: E) {
        self.slots[cycle as usize & self.mask].push(event);
    }

    /// The events of `cycle`, to be given back to [`Wheel::put_back`].
    #[inline]
    pub(super) fn take(&mut self, cycle: u64) -> Vec<E> {
        std::mem::take(&mut self.slots[cycle as usize & self.mask])
    }

    /// Gives back the emptied list of `cycle`.
    #[inline]
    pub(super) fn put_back(&mut self, cycle: u64, mut list: Vec<E>) {
        list.clear();
        self.slots[cycle as usize & self.mask] = list;
    }

    /// All events on their way, in no order that matters.
    pub(super) fn all(&self) -> impl Iterator<Item = E> + '_ {
        self.slots.iter().flatten().copied()
    }
}
