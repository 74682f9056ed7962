//! The clock by which sync frames say their times. Each machine's own clock begins when it starts: machines share times by a
//! network card's clock that PTP (IEEE 1588) keeps, or by the system's, that a daemon keeps by it.
//!
//! Switches and controller go on by their own clock. What a frame says is translated when it is heard, and before it
//! is sent, by how far the shared clock is ahead, which is looked at for each frame.
//!
//! When a frame came is what its card says, where that is the clock of the frames, else what the kernel noted down when the driver handed
//! it over; a thread that wakes late changes nothing about it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use ebb_host::clock::{OtherClock, Paired};
use ebb_host::ethtool::Interface;
use ebb_ports::{Arrived, PacketSocket};
use ebb_scenario::Invalid;

use crate::status::ClockStatus;
use crate::sync::Frame;

/// The system's clock of atomic time (`CLOCK_TAI`), in a configuration.
const TAI: &str = "tai";
/// Looks for each frame: one that was interrupted says little.
const LOOKS: usize = 3;
/// Frames over which the surest look counts. Clocks drift by 50 ns a ms at most (50 ppm, IEEE 802.3's 100 for two).
const KEPT: usize = 8;

/// A frame does not lie in a socket for longer: a stamp that says so was made by a clock that was set since, ns.
const LAIN_MAX_NS: u64 = 1_000_000_000;

/// A clock that can be read between two looks at our own.
pub(crate) trait Reads: Send {
    /// One look.
    fn read(&mut self) -> io::Result<Paired>;
}

impl Reads for OtherClock {
    fn read(&mut self) -> io::Result<Paired> {
        self.paired()
    }
}

/// How far the shared clock is ahead of ours.
pub(crate) struct Timebase {
    clock: Option<Box<dyn Reads>>,
    /// The clock of the day, by which the kernel stamps.
    day: Box<dyn Reads>,
    /// Whether the clock is the one by which the control network's card stamps.
    cards: bool,
    /// Of recent looks: how far ahead, and within what, ns.
    recent: VecDeque<(i64, u64)>,
    status: ClockStatus,
}

/// Whether a configuration can name such a clock.
pub(crate) fn check(field: &str, name: Option<&str>) -> Result<(), Invalid> {
    let known = name.is_none_or(|name| name == TAI || name.starts_with("/dev/"));
    let remedy = "expected a card's clock such as `/dev/ptp0` (ethtool -T names it), or `tai`";
    let what = format!("`{}` is no clock", name.unwrap_or_default());
    Invalid::unless(known, field, what, remedy)
}

impl Timebase {
    /// The clock of a configuration; our own where there is none.
    ///
    /// # Errors
    /// With the field, when it cannot be read.
    pub(crate) fn open(field: &str, name: Option<&str>) -> Result<Timebase, Invalid> {
        let Some(name) = name else { return Ok(Timebase::of(None, "monotonic")) };
        let fault = |error: io::Error| {
            let remedy =
                "name a clock that is there (`ethtool -T INTERFACE` tells a card's), or `tai`";
            Invalid::new(field, format!("`{name}` cannot be read: {error}"), remedy)
        };
        let clock = if name == TAI {
            OtherClock::tai()
        } else {
            OtherClock::device(Path::new(name)).map_err(fault)?
        };
        let mut timebase = Timebase::of(Some(Box::new(clock)), name);
        timebase.look().map_err(fault)?;
        Ok(timebase)
    }

    fn of(clock: Option<Box<dyn Reads>>, name: &str) -> Timebase {
        let status = ClockStatus { name: name.to_owned(), ..ClockStatus::default() };
        let day = Box::new(OtherClock::of_day());
        Timebase { clock, day, cards: false, recent: VecDeque::new(), status }
    }

    /// Has the frames of a socket on an interface come with stamps, as far as there are any.
    pub(crate) fn stamp(&mut self, socket: &mut PacketSocket, interface: &str) {
        // Without them it counts when frames are read.
        _ = socket.stamp();
        let clock = Interface::open(interface).and_then(|interface| interface.stamping_clock());
        let known = clock.ok().flatten().map(|number| format!("/dev/ptp{number}"));
        self.cards = known.as_deref() == Some(self.status.name.as_str());
    }

    /// When a frame came that is read now, by our clock.
    pub(crate) fn came(&mut self, now_ns: u64, arrived: Arrived) -> u64 {
        let by_card = arrived.card_ns.filter(|_| self.cards);
        let ours = |ns: u64, ahead: i64| ns.saturating_add_signed(ahead.saturating_neg());
        let came = match (by_card, arrived.kernel) {
            (Some(card_ns), _) => Some(ours(card_ns, self.status.ahead_ns)),
            (None, Some(at)) => {
                self.day.read().ok().map(|Paired { before_ns, other_ns, after_ns }| {
                    let middle = before_ns.midpoint(after_ns);
                    ours(at.as_nanos() as u64, other_ns.wrapping_sub(middle) as i64)
                })
            }
            (None, None) => None,
        };
        let arrivals = &mut self.status.arrivals;
        // A stamp of after now is that of a clock known no better than that.
        let sound = came.filter(|came| now_ns.saturating_sub(*came) < LAIN_MAX_NS);
        match sound.map(|came| came.min(now_ns)) {
            Some(came) => {
                let count =
                    if by_card.is_some() { &mut arrivals.by_card } else { &mut arrivals.by_kernel };
                *count += 1;
                arrivals.lain.add(now_ns - came);
                came
            }
            None => {
                arrivals.unknown += 1;
                now_ns
            }
        }
    }

    /// What to show of it.
    pub(crate) fn status(&self) -> ClockStatus {
        self.status.clone()
    }

    /// Looks at the clock.
    fn look(&mut self) -> io::Result<()> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        let mut surest: Option<(i64, u64)> = None;
        for _ in 0..LOOKS {
            let Paired { before_ns, other_ns, after_ns } = clock.read()?;
            let within = after_ns.saturating_sub(before_ns).div_ceil(2);
            let ahead = other_ns.wrapping_sub(before_ns + within) as i64;
            if surest.is_none_or(|(_, least)| within < least) {
                surest = Some((ahead, within));
            }
        }
        let Some((ahead, within)) = surest else { return Ok(()) };
        // One that was set shows something else than all looks before, which count no more.
        let apart = |(before, _): &(i64, u64)| before.abs_diff(ahead) > 1_000_000 + within;
        if self.recent.back().is_some_and(apart) {
            self.recent.clear();
            self.status.stepped += 1;
        }
        self.recent.push_back((ahead, within));
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
        let best =
            self.recent.iter().min_by_key(|(_, within)| *within).expect("one was just added");
        (self.status.ahead_ns, self.status.within_ns) = *best;
        Ok(())
    }

    /// Looks, or goes on with what was seen last where the clock cannot be read.
    fn ahead_ns(&mut self) -> i64 {
        if self.look().is_err() {
            self.status.failed += 1;
        }
        self.status.ahead_ns
    }

    /// A frame that was heard, by our clock.
    pub(crate) fn heard(&mut self, frame: &mut Frame) {
        if self.clock.is_some() && matches!(frame, Frame::Sync { .. }) {
            let ahead = self.ahead_ns();
            shift(frame, ahead.saturating_neg());
        }
    }

    /// A frame that is to be sent, by the shared clock.
    pub(crate) fn sent(&mut self, frame: &mut Frame) {
        if self.clock.is_some() {
            let ahead = self.ahead_ns();
            shift(frame, ahead);
        }
    }
}

/// Moves all times of a frame; a stranger's may be anything.
fn shift(frame: &mut Frame, by_ns: i64) {
    let Frame::Sync { sent_ns, days, .. } = frame else { return };
    *sent_ns = sent_ns.saturating_add_signed(by_ns);
    for day in days {
        day.begin_ns = day.begin_ns.saturating_add_signed(by_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Clock, Phase, Plan};
    use crate::status::Arrivals;
    use crate::sync::{Announced, Circuits, Heard, RACKS_MAX};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A card's clock: far ahead, read slowly now and then, gone when `None`.
    struct Card(Arc<Mutex<Option<i64>>>, u64);

    impl Reads for Card {
        fn read(&mut self) -> io::Result<Paired> {
            self.1 += 1;
            let ahead = self.0.lock().expect("shown");
            let ahead = ahead.ok_or_else(|| io::Error::other("the card is gone"))?;
            let before_ns = 1_000_000_000 + self.1 * 10_000;
            // An interruption between the second look and ours.
            let late = if self.1.is_multiple_of(3) { 700_000 } else { 800 };
            let other_ns = (before_ns + 400).saturating_add_signed(ahead);
            Ok(Paired { before_ns, other_ns, after_ns: before_ns + late })
        }
    }

    fn frame(sent_ns: u64) -> Frame {
        let day = |number: u32| Announced {
            number,
            duration_ns: 300_000,
            begin_ns: sent_ns + 1_000_000 + u64::from(number) * 311_500,
            outputs: [Announced::DARK; RACKS_MAX],
        };
        let days = (0..3).map(day).collect();
        Frame::Sync { epoch: 1, sent_ns, circuits: Circuits::Down, racks: 4, days }
    }

    /// A controller whose machine started an hour before and a rack, each with a card of its own: the rack's days begin
    /// when the controller's do, by the cards' clocks, within what they say.
    #[test]
    fn machines_with_cards_share_their_days() {
        const TAI_NS: i64 = 1_770_000_000_000_000_000;
        const APART_NS: i64 = 3_600_000_000_000;
        let card = |ahead: i64| {
            let shown = Arc::new(Mutex::new(Some(ahead)));
            (Timebase::of(Some(Box::new(Card(shown.clone(), 0))), "/dev/ptp0"), shown)
        };
        let ((mut controller, _), (mut rack, shown)) = (card(TAI_NS - APART_NS), card(TAI_NS));
        let now_ns = 50_000_000_000_000;
        let mut said = frame(now_ns);
        controller.sent(&mut said);
        rack.heard(&mut said);
        let ours = now_ns - APART_NS as u64;
        let Frame::Sync { sent_ns, .. } = &said else { unreachable!() };
        assert!(sent_ns.abs_diff(ours) <= 1_000, "{sent_ns} for {ours}");
        assert!(rack.status().within_ns == 400 && rack.status().failed == 0);
        let mut plan = Plan::new(Clock::Shared, 0);
        plan.hear(ours, &Heard { frame: said, source: [2; 6], sequence: 1, sealed: false });
        plan.turn(ours);
        assert!(matches!(plan.at(ours + 1_100_000), Phase::Day(day) if day.number == 0));
        // A card that is gone: what was seen last holds, and is counted.
        *shown.lock().expect("shown") = None;
        let mut said = frame(now_ns);
        controller.sent(&mut said);
        rack.heard(&mut said);
        let Frame::Sync { sent_ns, .. } = said else { unreachable!() };
        assert!(sent_ns.abs_diff(ours) <= 1_000 && rack.status().failed == 1);
        // One that was set: looks of before say nothing any more.
        *shown.lock().expect("shown") = Some(TAI_NS + 5_000_000_000);
        rack.heard(&mut frame(now_ns));
        assert_eq!((rack.status().stepped, rack.recent.len()), (1, 1));
    }

    /// The clock of the day: so far ahead of ours.
    struct Day(u64);

    impl Reads for Day {
        fn read(&mut self) -> io::Result<Paired> {
            let now = 50_000_000_000;
            Ok(Paired { before_ns: now - 40, other_ns: now + self.0, after_ns: now + 40 })
        }
    }

    /// A frame that lay in the socket for 300 us came when its stamp says: its card's where that is the frames' clock, else
    /// the kernel's; without one, or with one of a clock that was set since, when it was read.
    #[test]
    fn frames_came_when_they_were_stamped() {
        const DAY_NS: u64 = 1_770_000_000_000_000_000;
        let now = 50_000_000_000;
        let read = |cards: bool, arrived: Arrived| {
            let mut timebase = Timebase::of(None, "/dev/ptp0");
            (timebase.day, timebase.cards) = (Box::new(Day(DAY_NS)), cards);
            timebase.status.ahead_ns = 7_000_000_000;
            let came = timebase.came(now, arrived);
            let Arrivals { by_card, by_kernel, unknown, lain } = timebase.status().arrivals;
            (came, [by_card, by_kernel, unknown], lain.sum_ns)
        };
        let kernel = |lain: u64| Some(Duration::from_nanos(DAY_NS + now - lain));
        let both =
            Arrived { kernel: kernel(250_000), card_ns: Some(now + 7_000_000_000 - 300_000) };
        assert_eq!(read(true, both), (now - 300_000, [1, 0, 0], 300_000));
        assert_eq!(
            read(false, both),
            (now - 250_000, [0, 1, 0], 250_000),
            "another clock than the frames'"
        );
        assert_eq!(read(true, Arrived::default()), (now, [0, 0, 1], 0));
        let stepped = Arrived { kernel: kernel(3_600_000_000_000), card_ns: None };
        assert_eq!(read(false, stepped), (now, [0, 0, 1], 0));
    }

    #[test]
    fn what_a_stranger_says_cannot_overflow() {
        for sent_ns in [0, u64::MAX - 2_000_000_000] {
            let mut said = frame(sent_ns);
            shift(&mut said, i64::MIN);
            shift(&mut said, i64::MAX);
        }
    }

    #[test]
    fn clocks_are_opened_or_refused_by_name() {
        assert!(check("tor.ptp", Some("tai")).is_ok() && check("tor.ptp", Some("eth0")).is_err());
        let tai = Timebase::open("tor.ptp", Some("tai")).expect("every kernel has it");
        assert!(tai.status().ahead_ns > 0 && tai.status().name == "tai");
        let fault = Timebase::open("tor.ptp", Some("/dev/null")).err().expect("no clock");
        assert_eq!(fault.field, "tor.ptp");
        assert!(Timebase::open("tor.ptp", Some("/dev/no-such-clock")).is_err());
    }
}
