//! Queueing disciplines and filters: `struct tcmsg` (`linux/rtnetlink.h`, `pkt_sched.h`).

use super::super::frame::{Fault, Parsed, attributes, string_of, u32_of};

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const INGRESS_BLOCK: u16 = 13;
const EGRESS_BLOCK: u16 = 14;
/// Counts, estimates, table of sizes, padding, whether it is shown, chain, offload, and words for people.
const TELLING_NOTHING: [u16; 12] = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16];
/// Of `fq`: the most that a flow gets, in bytes per second; all bits set: as much as there is.
const FQ_FLOW_DEFAULT_RATE: u16 = 6;
const FQ_FLOW_MAX_RATE: u16 = 7;
/// Where filters of the sending side of an interface's first discipline hang.
pub(super) const ROOT: u32 = 0xffff_ffff;
const INGRESS_HANDLE: u32 = 0xffff_0000;
const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT_EGRESS: u32 = 0xffff_fff3;

/// Disciplines that send packets as they come, or as fairly as they can, at the speed of the link:
/// nobody sets them to hold traffic back.
const NEUTRAL: [&str; 13] = [
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "mq",
    "mqprio",
    "fq",
    "fq_codel",
    "codel",
    "pie",
    "fq_pie",
    "sfq",
];

/// A queueing discipline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queueing {
    pub link: u32,
    pub kind: String,
    pub parent: u32,
    pub handle: u32,
    /// Filters that several interfaces share.
    pub blocks: (bool, bool),
    /// Holds flows back although others of its kind do not.
    pub paces: bool,
    /// Has parts that are not known here.
    pub strange: bool,
}

pub(super) fn queueing(body: &[u8]) -> Parsed<Queueing> {
    let fixed = body.first_chunk::<20>().ok_or(Fault("traffic control header"))?;
    let mut found = Queueing {
        link: u32_of(&fixed[4..8])?,
        kind: String::new(),
        parent: u32_of(&fixed[12..16])?,
        handle: u32_of(&fixed[8..12])?,
        blocks: (false, false),
        paces: false,
        strange: false,
    };
    let mut options: &[u8] = &[];
    attributes(&body[20..], |kind, value| {
        match kind {
            KIND => found.kind = string_of(value),
            INGRESS_BLOCK => found.blocks.0 = u32_of(value)? != 0,
            EGRESS_BLOCK => found.blocks.1 = u32_of(value)? != 0,
            OPTIONS => options = value,
            kind => found.strange |= !TELLING_NOTHING.contains(&kind),
        }
        Ok(())
    })?;
    found.paces = found.kind == "fq" && fq_paces(options)?;
    Ok(found)
}

/// Whether `fq` bounds each flow (`tc qdisc ... fq maxrate`; `fq_dequeue` in the kernel).
fn fq_paces(options: &[u8]) -> Parsed<bool> {
    let mut paces = false;
    attributes(options, |kind, value| {
        if matches!(kind, FQ_FLOW_DEFAULT_RATE | FQ_FLOW_MAX_RATE) {
            let unbounded = u32_of(value)? == u32::MAX;
            paces |= !unbounded && (kind == FQ_FLOW_MAX_RATE || u32_of(value)? != 0);
        }
        Ok(())
    })?;
    Ok(paces)
}

impl Queueing {
    /// Whether it may hold back or drop what leaves.
    pub(super) fn shapes(&self) -> bool {
        self.paces || !self.filters_only() && !NEUTRAL.contains(&self.kind.as_str())
    }

    fn filters_only(&self) -> bool {
        matches!(self.kind.as_str(), "ingress" | "clsact")
    }

    /// Where its filters hang: of the receiving side and of the sending side.
    pub(super) fn parents(&self) -> (Option<u32>, Option<u32>) {
        match self.kind.as_str() {
            "ingress" => (Some(INGRESS_HANDLE), None),
            "clsact" => (Some(CLSACT_INGRESS), Some(CLSACT_EGRESS)),
            "noqueue" => (None, None),
            _ if self.parent == ROOT => (None, Some(0)),
            // Inside another one; without a number of its own it has no filters.
            _ => (None, (self.handle != 0).then_some(self.handle)),
        }
    }
}

/// Of `u32`: class, tables of hashes, what is compared, the incoming interface, counts; actions. Not the mark, which
/// other parts of the kernel set.
const U32_OPTIONS: [u16; 10] = [1, 2, 3, 4, 5, 6, 8, 9, 11, 12];
const U32_ACTIONS: u16 = 7;
/// Of `matchall`: class, flags, counts; actions.
const MATCHALL_OPTIONS: [u16; 4] = [1, 3, 4, 5];
const MATCHALL_ACTIONS: u16 = 2;
/// Actions that look at nothing but the packet.
const ACTIONS: [&str; 5] = ["gact", "mirred", "police", "pedit", "csum"];

/// Whether a filter and its actions look at nothing but the packet and its interfaces.
pub(super) fn is_plain_filter(body: &[u8]) -> bool {
    let (mut kind, mut options) = (String::new(), &[][..]);
    let Some(rest) = body.get(20..) else { return false };
    let read = attributes(rest, |number, value| {
        match number {
            KIND => kind = string_of(value),
            OPTIONS => options = value,
            _ => {}
        }
        Ok(())
    });
    let (known, actions): (&[u16], u16) = match &kind[..] {
        "u32" => (&U32_OPTIONS, U32_ACTIONS),
        "matchall" => (&MATCHALL_OPTIONS, MATCHALL_ACTIONS),
        _ => return false,
    };
    let mut plain = read.is_ok();
    let inside = attributes(options, |number, value| {
        match number == actions {
            true => plain &= are_plain_actions(value),
            false => plain &= known.contains(&number),
        }
        Ok(())
    });
    plain && inside.is_ok()
}

fn are_plain_actions(list: &[u8]) -> bool {
    let mut plain = true;
    let read = attributes(list, |_, action| {
        let mut kind = String::new();
        attributes(action, |number, value| {
            if number == KIND {
                kind = string_of(value);
            }
            Ok(())
        })?;
        plain &= ACTIONS.contains(&&kind[..]);
        Ok(())
    });
    plain && read.is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::super::classifier::filters_of;
    use super::super::super::frame::Builder;
    use super::*;

    #[test]
    fn disciplines_are_told_apart() {
        let kinds = [
            ("htb", true, (None, Some(0))),
            ("fq_codel", false, (None, Some(0))),
            ("noqueue", false, (None, None)),
            ("clsact", false, (Some(CLSACT_INGRESS), Some(CLSACT_EGRESS))),
            ("ingress", false, (Some(INGRESS_HANDLE), None)),
        ];
        for (kind, shapes, parents) in kinds {
            let mut builder = Builder::default();
            builder.begin(36, 0, 0, &filters_of(3, ROOT)).string(KIND, kind).end();
            let found = queueing(&builder.bytes[16..]).unwrap();
            assert_eq!(
                (found.link, found.shapes(), found.parents()),
                (3, shapes, parents),
                "{kind}"
            );
        }
        assert!(queueing(&[0; 19]).is_err());
    }

    #[test]
    fn filters_that_look_at_the_packet_only_are_told_apart() {
        let filter = |kind: &str, option: u16, action: Option<&str>| {
            let mut builder = Builder::default();
            builder.begin(44, 0, 0, &filters_of(3, 0)).string(KIND, kind);
            builder.nested(OPTIONS, |b| {
                b.u32(option, 1);
                if let Some(action) = action {
                    b.nested(U32_ACTIONS, |b| {
                        b.nested(1, |b| _ = b.string(KIND, action));
                    });
                }
            });
            builder.end();
            is_plain_filter(&builder.bytes[16..])
        };
        assert!(filter("u32", 1, None) && filter("u32", 5, Some("mirred")));
        assert!(!filter("u32", 10, None), "the mark");
        assert!(!filter("u32", 5, Some("ct")) && !filter("bpf", 1, None));
        assert!(filter("matchall", 1, None) && !filter("matchall", 9, None));
    }

    #[test]
    fn what_is_inside_others_paces_or_is_not_known_is_told() {
        let read = |fill: &dyn Fn(&mut Builder)| {
            let mut builder = Builder::default();
            let mut fixed = filters_of(3, 0x1_0001);
            fixed[8..12].copy_from_slice(&0x8001_0000_u32.to_ne_bytes());
            fill(builder.begin(36, 0, 0, &fixed).string(KIND, "fq"));
            builder.end();
            queueing(&builder.bytes[16..]).unwrap()
        };
        let plain = read(&|_| ());
        assert_eq!(plain.parents(), (None, Some(0x8001_0000)));
        assert!(!plain.shapes() && !plain.strange);
        let rate = |kind: u16, rate: u32| {
            read(&|b| _ = b.nested(OPTIONS, |b| _ = b.u32(kind, rate))).shapes()
        };
        assert!(rate(FQ_FLOW_MAX_RATE, 10_000) && !rate(FQ_FLOW_MAX_RATE, u32::MAX));
        assert!(rate(FQ_FLOW_DEFAULT_RATE, 10_000) && !rate(FQ_FLOW_DEFAULT_RATE, 0));
        assert!(read(&|b| _ = b.u32(40, 1)).strange);
    }
}
