//! What a body that travels there and back saw.

use hdrhistogram::Histogram;

/// What a travelling body saw.
#[derive(Clone, Debug)]
pub struct Samples {
    /// From asking until running at the target, ns.
    pub one_way: Histogram<u64>,
    /// From asking until running at home again, ns.
    pub round_trip: Histogram<u64>,
    /// Processor time of the target's thread over all trips, ns.
    pub target_cpu: u64,
    /// Trips that ended at home, or that found a target that was to sleep awake.
    pub spoilt: u64,
}

impl Samples {
    /// These and `more` together.
    pub(crate) fn add(&mut self, more: &Samples) {
        self.one_way.add(&more.one_way).expect("equal bounds");
        self.round_trip.add(&more.round_trip).expect("equal bounds");
        self.target_cpu += more.target_cpu;
        self.spoilt += more.spoilt;
    }
}
