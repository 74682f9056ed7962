//! Credits on their way back to the sender.

/// Credits on their way back, per channel: a few at a time, since a buffer frees at most one packet
/// in the time of one.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    ring: Vec<(u64, u32)>,
    size: u32,
    ends: Vec<(u32, u32)>,
}

impl Coming {
    pub(super) fn new(channels: usize, flight_ns: u64, shortest_ns: u64) -> Coming {
        let size = (flight_ns / shortest_ns.max(1) + 4).next_power_of_two() as u32;
        Coming { ring: vec![(0, 0); channels * size as usize], size, ends: vec![(0, 0); channels] }
    }

    #[inline]
    pub(super) fn due(&self, channel: u32) -> Option<(u64, u32)> {
        let (first, last) = self.ends[channel as usize];
        let place = channel * self.size + (first & (self.size - 1));
        (first != last).then(|| self.ring[place as usize])
    }

    #[inline]
    pub(super) fn take(&mut self, channel: u32, now: u64) -> u32 {
        let mut units = 0;
        while let Some((at, amount)) = self.due(channel) {
            if at > now {
                break;
            }
            units += amount;
            self.ends[channel as usize].0 += 1;
        }
        units
    }

    pub(super) fn push(&mut self, channel: u32, at: u64, units: u32) {
        let (first, last) = self.ends[channel as usize];
        if last - first == self.size {
            let place = channel * self.size + ((last - 1) & (self.size - 1));
            let newest = &mut self.ring[place as usize];
            *newest = (at, newest.1 + units);
            return;
        }
        let place = channel * self.size + (last & (self.size - 1));
        self.ring[place as usize] = (at, units);
        self.ends[channel as usize].1 += 1;
    }

    pub(super) fn outstanding(&self, channel: u32) -> u32 {
        let (first, last) = self.ends[channel as usize];
        let place = |index: u32| (channel * self.size + (index & (self.size - 1))) as usize;
        (first..last).map(|index| self.ring[place(index)].1).sum()
    }
}
