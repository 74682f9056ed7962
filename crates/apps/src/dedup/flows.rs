//! Which TCP packets send again what was sent before.
//!
//! They go as they are: whatever it is that keeps encoded packets from arriving, TCP's repair does not depend on it.

/// Flows that are remembered; of two in one place the later.
const PLACES: usize = 1 << 14;
/// What a packet that is sent again adds, and a fresh one takes away.
const AGAIN: u8 = 16;
/// From here on nothing of the flow is encoded for a while: a way that only encoded packets do not pass.
const TOO_MANY: u8 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    mark: u32,
    /// The sequence number behind the last byte.
    next: u32,
    again: u8,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flows(Vec<Flow>);

impl Flows {
    pub(super) fn new() -> Flows {
        Flows(vec![Flow::default(); PLACES])
    }

    /// Notes a packet with `len` bytes from `sequence` on; returns whether it is to go as it is.
    pub(super) fn note(&mut self, flow: u32, sequence: u32, len: usize) -> bool {
        let place = &mut self.0[flow as usize % PLACES];
        let end = sequence.wrapping_add(len as u32);
        if place.mark != flow {
            *place = Flow { mark: flow, next: end, again: 0 };
            return false;
        }
        let is_fresh = sequence.wrapping_sub(place.next) as i32 >= 0;
        if is_fresh {
            place.next = end;
            place.again = place.again.saturating_sub(1);
        } else {
            // A part of it may be new.
            if end.wrapping_sub(place.next) as i32 > 0 {
                place.next = end;
            }
            place.again = place.again.saturating_add(AGAIN);
        }
        !is_fresh || place.again >= TOO_MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_known() {
        let mut flows = Flows::new();
        let begin = u32::MAX - 2000;
        assert!(!flows.note(7, begin, 1000));
        assert!(!flows.note(7, begin.wrapping_add(1000), 1000));
        assert!(flows.note(7, begin, 1000));
        assert!(!flows.note(7, begin.wrapping_add(2000), 1000), "beyond the number's end");
        for _ in 0..4 {
            assert!(flows.note(7, begin, 1000));
        }
        assert!(flows.note(7, begin.wrapping_add(3000), 1000), "nothing seems to arrive");
        assert!(!flows.note(8, 5, 1000), "another flow");
    }
}
