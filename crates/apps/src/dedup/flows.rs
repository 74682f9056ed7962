//! What may be encoded of which flow.
//!
//! Only packets of flows that have lately reached the decoder: what is for that router itself, or what its kernel's
//! policy concerns, does not. And nothing that TCP sends again: whatever it is that keeps encoded packets from
//! arriving, TCP's repair does not depend on it.

use ebb_units::Time;

/// Flows that are remembered; of two in one place the later.
const PLACES: usize = 1 << 14;
/// For so long a packet that came stands for its flow, in milliseconds.
const PROOF_MS: u32 = 1000;
/// What a packet that is sent again adds, and a fresh one takes away.
const AGAIN: u8 = 4;
/// From here on nothing of the flow is encoded for a while, and not before it has reached the decoder anew.
const TOO_MANY: u8 = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    mark: u32,
    /// The sequence number behind the last byte.
    next: u32,
    /// When a packet is known to have come, in milliseconds.
    came_ms: Option<u32>,
    again: u8,
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be encoded.
    Fine,
    /// TCP sends it again.
    Again,
    /// None of its flow is known to have come.
    Unproven,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flows(Vec<Flow>);

fn millis(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl Flows {
    pub(super) fn new() -> Flows {
        Flows(vec![Flow::default(); PLACES])
    }

    fn place(&mut self, flow: u32) -> &mut Flow {
        &mut self.0[flow as usize % PLACES]
    }

    /// A packet of the flow has come.
    pub(super) fn came(&mut self, flow: u32, now: Time) {
        let place = self.place(flow);
        if place.mark == flow {
            place.came_ms = Some(millis(now));
        }
    }

    /// Nothing is known to have come, as of another decoder.
    pub(super) fn forget(&mut self) {
        self.0.iter_mut().for_each(|place| place.came_ms = None);
    }

    /// Notes a packet; of TCP with `len` bytes from a sequence number on.
    pub(super) fn note(&mut self, flow: u32, now: Time, tcp: Option<u32>, len: usize) -> Verdict {
        let place = self.place(flow);
        let end = tcp.unwrap_or(0).wrapping_add(len as u32);
        if place.mark != flow {
            *place = Flow { mark: flow, next: end, ..Flow::default() };
            return Verdict::Unproven;
        }
        if let Some(sequence) = tcp {
            // What is partly new moves on as well.
            let is_further = end.wrapping_sub(place.next) as i32 > 0;
            let is_fresh = sequence.wrapping_sub(place.next) as i32 >= 0;
            if is_further {
                place.next = end;
            }
            if !is_fresh {
                place.again = place.again.saturating_add(AGAIN);
                if place.again >= TOO_MANY {
                    place.came_ms = None;
                }
                return Verdict::Again;
            }
            place.again = place.again.saturating_sub(1);
        }
        let has_come = place.came_ms.is_some_and(|ms| millis(now).wrapping_sub(ms) < PROOF_MS);
        if has_come && place.again < TOO_MANY { Verdict::Fine } else { Verdict::Unproven }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fresh_packets_of_flows_that_come_are_encoded() {
        use Verdict::{Again, Fine, Unproven};
        let mut flows = Flows::new();
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let begin = u32::MAX - 2000;
        let behind = |bytes: u32| Some(begin.wrapping_add(bytes));
        assert_eq!(flows.note(7, at(1), behind(0), 1000), Unproven);
        flows.came(8, at(1));
        assert_eq!(flows.note(7, at(1), behind(1000), 1000), Unproven);
        flows.came(7, at(2));
        assert_eq!(flows.note(7, at(3), behind(2000), 1000), Fine, "beyond the number's end");
        assert_eq!(flows.note(7, at(3), behind(0), 1000), Again);
        assert_eq!(flows.note(7, at(1100), behind(3000), 1000), Unproven, "long ago");
        flows.came(7, at(1100));
        assert_eq!(flows.note(7, at(1100), behind(4000), 1000), Fine);
        for _ in 0..32 {
            assert_eq!(flows.note(7, at(1100), behind(0), 1000), Again);
        }
        flows.came(7, at(1100));
        assert_eq!(
            flows.note(7, at(1100), behind(5000), 1000),
            Unproven,
            "nothing seems to arrive"
        );
        assert_eq!(flows.note(9, at(1100), None, 100), Unproven, "another flow");
        flows.came(9, at(1100));
        assert_eq!(flows.note(9, at(1100), None, 100), Fine);
        flows.forget();
        assert_eq!(flows.note(9, at(1100), None, 100), Unproven);
    }
}
