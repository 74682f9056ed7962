//! Why a part missed what it was to reach, from what the switches counted meanwhile.

use ebb_tord::status::{RackStatus, TorStatus};

use super::played::Phase;

/// A switch that does not look for so long is late, ns.
const LATE_NS: u64 = 20_000;
/// Hypervisors that take more than this share of the time are to blame first.
const STOLEN: f64 = 0.005;

/// A sum over all racks.
fn racks(tor: &TorStatus, count: impl Fn(&RackStatus) -> u64) -> u64 {
    tor.racks.iter().map(count).sum()
}

/// Days whose first frame was handed over later than `from_ns` after their begin.
fn late_days(tor: &TorStatus, from_ns: u64) -> u64 {
    racks(tor, |rack| rack.first_after.from(from_ns))
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Why frames were outside their day.
pub(super) fn outside(phase: &Phase) -> String {
    let (ocs, tor) = (&phase.ocs, &phase.tor);
    let (all, far) = (ocs.outside_their_day(), ocs.outside.from(LATE_NS));
    let (stood, days) = (tor.looks.from(LATE_NS), racks(tor, |rack| rack.days));
    let overslept = tor.woken_late.from(50_000);
    let near = all.saturating_sub(far + ocs.unknown);
    let cause = if 2 * ocs.unknown > all {
        "the optical switch knew no day when they arrived: it received no sync frames in time"
            .to_owned()
    } else if 2 * near >= all {
        format!(
            "most were less than {} us outside: from the switch's reading of the clock until the \
            kernel had sent them took longer than the guard time",
            LATE_NS / 1000
        )
    } else if phase.stolen > STOLEN {
        "the hypervisor took the processor between the switch's reading of the clock and the \
        sending of frames"
            .to_owned()
    } else if tor.waited_seconds > 0.001 {
        "other threads used the switch's processor between its reading of the clock and the \
        sending of frames"
            .to_owned()
    } else {
        "the kernel interrupted the switch (interrupts, soft interrupts) between its reading of \
        the clock and the sending of frames"
            .to_owned()
    };
    format!(
        "Why outside: {cause}. Of {all} such frames {far} were {} us or more outside ({} at \
        night, {} on a wrong circuit, {} while no day was known); in {days} days the switch \
        stalled for so long {stood} times and slept 50 us too long {overslept} times; it waited \
        {:.1} ms for its processor; {:.2} % of the processors' time was stolen.",
        LATE_NS / 1000,
        ocs.at_night,
        ocs.wrong_circuit,
        ocs.unknown,
        1e3 * tor.waited_seconds,
        100.0 * phase.stolen,
    )
}

/// Why less arrived than over the packet switch, where a day holds `fit` full frames.
pub(super) fn slow(phase: &Phase, fit: f64) -> String {
    let tor = &phase.tor;
    let days = racks(tor, |rack| rack.days);
    let left = racks(tor, |rack| rack.days_left);
    let wanted = racks(tor, |rack| rack.days_wanted);
    let late = late_days(tor, 20_000);
    let full = racks(tor, |rack| rack.dropped_full);
    let kernel = racks(tor, |rack| rack.dropped_receive) + phase.ocs.dropped_receive;
    let sent = racks(tor, |rack| rack.sent_bytes) as f64 / super::load::ON_WIRE;
    let lost = phase.ocs.outside_their_day();
    let came = racks(tor, |rack| rack.from_hosts) + racks(tor, |rack| rack.received);
    let cause = if percent(kernel, came) > 1.0 {
        "the kernel lost frames before a switch could read them: other work used the switches' \
        processors"
            .to_owned()
    } else if percent(left, days) >= 50.0 {
        if percent(late, wanted) >= 5.0 {
            format!(
                "the circuits were the limit, and {:.0} % of the days with frames waiting began \
                20 us late or later",
                percent(late, wanted)
            )
        } else {
            "the circuits were the limit: a day carries whole frames only".to_owned()
        }
    } else if lost > 0 && percent(lost, phase.ocs.frames) > 1.0 {
        "senders slowed down after losses".to_owned()
    } else if phase.stolen > 5.0 * STOLEN {
        "hosts could not send more: the hypervisor took their processor".to_owned()
    } else {
        "hosts could not send more: the processors were busy".to_owned()
    };
    format!(
        "Why {} is slower: {cause}. A day carried {:.2} full frames of the {fit:.0} that fit; \
        {:.0} % of the days ended with frames waiting; {late} of the {wanted} days with frames \
        waiting began 20 us late or later; {full} frames were dropped at full queues, the kernel \
        lost {kernel}.",
        phase.name,
        sent / days.max(1) as f64,
        percent(left, days),
    )
}

#[cfg(test)]
mod tests {
    use super::super::load::Carried;
    use super::*;
    use ebb_tord::status::{OcsStatus, Times};

    fn counts(times: &[(u64, u64)]) -> Times {
        let mut classes = Times::default();
        let each = times.iter().flat_map(|(ns, count)| (0..*count).map(|_| *ns));
        each.for_each(|ns| classes.add(ns));
        classes
    }

    fn phase() -> Phase {
        let rack = RackStatus {
            days: 1000,
            days_wanted: 1000,
            days_left: 900,
            sent_bytes: 4_500 * 1538,
            first_after: counts(&[(900, 980), (30_000, 20)]),
            ..RackStatus::default()
        };
        Phase {
            name: "circuits, UDP",
            carried: Carried::default(),
            tor: TorStatus {
                looks: counts(&[(300, 90_000), (30_000, 7), (900_000, 2)]),
                woken_late: counts(&[(2_000, 50), (60_000, 3)]),
                racks: vec![rack],
                ..TorStatus::default()
            },
            ocs: OcsStatus {
                frames: 4500,
                at_night: 10,
                outside: counts(&[(3_000, 2), (700_000, 8)]),
                ..OcsStatus::default()
            },
            stolen: 0.0,
        }
    }

    #[test]
    fn the_counts_decide_what_is_blamed() {
        let mut phase = phase();
        let said = outside(&phase);
        assert!(said.contains("the kernel interrupted the switch"), "{said}");
        assert!(said.contains("Of 10 such frames 8 were 20 us or more"), "{said}");
        assert!(
            said.contains("stalled for so long 9 times and slept 50 us too long 3 times"),
            "{said}"
        );
        phase.tor.waited_seconds = 0.5;
        assert!(outside(&phase).contains("other threads used the switch's processor"));
        phase.stolen = 0.02;
        assert!(outside(&phase).contains("the hypervisor took the processor"));
        phase.ocs.outside = counts(&[(3_000, 10)]);
        assert!(outside(&phase).contains("took longer than the guard"));
        (phase.ocs.unknown, phase.ocs.at_night) = (30, 10);
        assert!(outside(&phase).contains("received no sync frames"));
    }

    #[test]
    fn slowness_comes_from_circuits_losses_or_hosts() {
        let mut phase = phase();
        let said = slow(&phase, 5.0);
        assert!(said.contains("a day carries whole frames only"), "{said}");
        assert!(said.contains("4.50 full frames of the 5 that fit; 90 % of the days"), "{said}");
        phase.tor.racks[0].first_after = counts(&[(900, 900), (30_000, 100)]);
        assert!(slow(&phase, 5.0).contains("10 % of the days with frames waiting began"));
        phase.tor.racks[0].days_left = 100;
        assert!(slow(&phase, 5.0).contains("the processors were busy"));
        phase.ocs.at_night = 100;
        assert!(slow(&phase, 5.0).contains("after losses"));
        (phase.ocs.dropped_receive, phase.tor.racks[0].from_hosts) = (100, 4_500);
        assert!(slow(&phase, 5.0).contains("the kernel lost frames before"));
    }
}
