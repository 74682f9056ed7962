//! What may be encoded of which flow.
//!
//! Only packets of flows that have lately reached the decoder: what is for that router itself, or what its kernel's
//! policy concerns, does not. And nothing that TCP sends again: whatever it is that keeps encoded packets from
//! arriving, TCP's repair does not depend on it.

use ebb_units::Time;

/// Flows that are remembered, in 4 MiB for each peer; of two in one place the later.
const PLACES: usize = 1 << 17;
/// For so long a packet that came stands for its flow, in milliseconds.
const PROOF_MS: u32 = 1000;
/// What a packet that is sent again adds, and a fresh one takes away.
const AGAIN: u8 = 4;
/// From here on nothing of the flow is encoded for [`BLOCKED_MS`].
const TOO_MANY: u8 = 128;
/// So many encoded packets of which none is known to have come, the first of them so long ago, do the same: plain ones
/// may come where something on the way drops encoded ones.
const UNANSWERED: u8 = 16;
const UNANSWERED_MS: u32 = 1000;
const BLOCKED_MS: u32 = 60_000;

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    mark: u32,
    /// The sequence number behind the last byte.
    next: u32,
    /// When a packet is known to have come, in milliseconds.
    came_ms: Option<u32>,
    again: u8,
    /// Encoded packets since one is known to have come, and when the first of them went.
    unanswered: u8,
    unanswered_since_ms: u32,
    /// Nothing is encoded, whatever comes, since then.
    blocked_ms: Option<u32>,
}

impl Flow {
    fn block(&mut self, now_ms: u32) {
        let (mark, next, blocked_ms) = (self.mark, self.next, Some(now_ms));
        *self = Flow { mark, next, blocked_ms, ..Flow::default() };
    }
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

    /// A packet of the flow has come, encoded or as it is.
    pub(super) fn came(&mut self, flow: u32, encoded: bool, now: Time) {
        let place = self.place(flow);
        if place.mark != flow || place.blocked_ms.is_some() {
            return;
        }
        place.came_ms = Some(millis(now));
        if encoded {
            place.unanswered = 0;
        }
    }

    /// A packet of the flow goes encoded.
    pub(super) fn encoded(&mut self, flow: u32, now: Time) {
        let place = self.place(flow);
        if place.unanswered == 0 {
            place.unanswered_since_ms = millis(now);
        }
        place.unanswered = place.unanswered.saturating_add(1);
    }

    /// Nothing is known to have come, and nothing that did not is held against it: it is another decoder.
    pub(super) fn forget(&mut self) {
        let anew = |place: &Flow| Flow { mark: place.mark, next: place.next, ..Flow::default() };
        self.0.iter_mut().for_each(|place| *place = anew(place));
    }

    /// The peer is silent: no wonder that nothing is known to have come.
    pub(super) fn excuse(&mut self, flow: u32) {
        self.place(flow).unanswered = 0;
    }

    /// Notes a packet; of TCP with `len` bytes from a sequence number on.
    pub(super) fn note(&mut self, flow: u32, now: Time, tcp: Option<u32>, len: usize) -> Verdict {
        let now_ms = millis(now);
        let place = self.place(flow);
        let end = tcp.unwrap_or(0).wrapping_add(len as u32);
        if place.mark != flow {
            *place = Flow { mark: flow, next: end, ..Flow::default() };
            return Verdict::Unproven;
        }
        place.blocked_ms = place.blocked_ms.filter(|ms| now_ms.wrapping_sub(*ms) < BLOCKED_MS);
        if place.unanswered >= UNANSWERED
            && now_ms.wrapping_sub(place.unanswered_since_ms) >= UNANSWERED_MS
        {
            place.block(now_ms);
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
                    place.block(now_ms);
                }
                return Verdict::Again;
            }
            place.again = place.again.saturating_sub(1);
        }
        let has_come = place.came_ms.is_some_and(|ms| now_ms.wrapping_sub(ms) < PROOF_MS);
        if has_come { Verdict::Fine } else { Verdict::Unproven }
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
        flows.came(8, false, at(1));
        assert_eq!(flows.note(7, at(1), behind(1000), 1000), Unproven);
        flows.came(7, false, at(2));
        assert_eq!(flows.note(7, at(3), behind(2000), 1000), Fine, "beyond the number's end");
        assert_eq!(flows.note(7, at(3), behind(0), 1000), Again);
        assert_eq!(flows.note(7, at(1100), behind(3000), 1000), Unproven, "long ago");
        flows.came(7, false, at(1100));
        assert_eq!(flows.note(7, at(1100), behind(4000), 1000), Fine);
        for _ in 0..32 {
            assert_eq!(flows.note(7, at(1100), behind(0), 1000), Again);
        }
        // Plain packets come, and those that follow are fresh.
        for packet in 5..100 {
            let now = at(1100 + u64::from(packet) * 500);
            flows.came(7, false, now);
            let verdict = flows.note(7, now, behind(packet * 1000), 1000);
            assert_eq!(verdict, Unproven, "nothing seems to arrive encoded");
        }
        assert_eq!(flows.note(7, at(61_200), behind(100_000), 1000), Unproven);
        flows.came(7, false, at(61_200));
        assert_eq!(flows.note(7, at(61_200), behind(101_000), 1000), Fine, "a minute later");
        assert_eq!(flows.note(9, at(1100), None, 100), Unproven, "another flow");
        flows.came(9, false, at(1100));
        assert_eq!(flows.note(9, at(1100), None, 100), Fine);
        flows.forget();
        assert_eq!(flows.note(9, at(1100), None, 100), Unproven);
    }

    /// Of UDP as well, of which nothing is sent again.
    #[test]
    fn a_flow_whose_encoded_packets_do_not_come_is_left_alone() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for answered in [false, true] {
            let mut flows = Flows::new();
            flows.note(7, at(1), None, 100);
            let mut encoded = 0;
            for ms in (10..60_000).step_by(10) {
                // Every tenth is not worth encoding, and comes.
                if ms % 100 == 0 {
                    flows.came(7, false, at(ms));
                } else if flows.note(7, at(ms), None, 100) == Verdict::Fine {
                    flows.encoded(7, at(ms));
                    encoded += 1;
                    if answered {
                        flows.came(7, true, at(ms));
                    }
                }
            }
            assert_eq!(encoded > 5000, answered, "{encoded}");
            assert!(answered || encoded < 100, "{encoded}");
            if !answered {
                flows.forget();
                flows.came(7, false, at(60_000));
                assert_eq!(flows.note(7, at(60_000), None, 100), Verdict::Fine, "another decoder");
            }
        }
    }
}
