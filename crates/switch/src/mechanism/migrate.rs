//! V1: the kernel moves the thread.

use ebb_host::process;

use super::{Body, CROSS_ASLEEP, CROSS_AWAKE, Case, KeepAwake, Mechanism, SAME_AWAKE, Target, Way};
use crate::samples::Samples;
use crate::{Arrival, Location, SwitchError, Travel};

/// `sched_setaffinity`: the kernel's migration thread takes the calling thread over.
#[derive(Clone, Copy, Debug)]
pub struct Migrate;

impl Mechanism for Migrate {
    fn name(&self) -> &'static str {
        "migrate"
    }

    fn version(&self) -> &'static str {
        "V1"
    }

    fn about(&self) -> &'static str {
        "sched_setaffinity: moves a whole thread with its system calls; needs no change of the \
        program"
    }

    fn cases(&self) -> &'static [Case] {
        &[CROSS_ASLEEP, CROSS_AWAKE, SAME_AWAKE]
    }

    fn has_waiter(&self) -> bool {
        false
    }

    unsafe fn run(&self, way: Way, body: Body) -> Result<Samples, SwitchError> {
        let _awake = match way.target {
            Target::Awake if way.home != way.there => Some(KeepAwake::start(way.there)?),
            _ => None,
        };
        let samples = body(&Thread(way));
        let back = process::pin_to(way.home);
        back.map_err(|source| SwitchError::Cpu { cpu: way.home, source })?;
        Ok(samples)
    }
}

struct Thread(Way);

impl Travel for Thread {
    fn to(&self, place: Location) -> Arrival {
        let (cpu, arrival) = match place {
            Location::Home => (self.0.home, Arrival::Home),
            Location::There => (self.0.there, Arrival::There),
        };
        // A CPU that has gone offline takes nobody: the thread stays where it is.
        process::pin_to(cpu).map_or(Arrival::TakenBack, |()| arrival)
    }

    fn announce(&self) -> bool {
        false
    }

    fn target_sleeps(&self) -> bool {
        true
    }
}
