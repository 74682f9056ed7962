//! Sends test traffic over links, receives it again and keeps the books, in one thread.
//!
//! Room: between `ebb_traffic`, which knows what to send when, and the links, which carry frames.
//! Commands and the demonstration use it; it knows nothing of routers.

mod afxdp;
mod interrupt;
mod link;
mod memory;
mod socket;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_host::clock;
use ebb_host::wait::WaitSet;
use ebb_traffic::{Due, Latency, Start, Stream, Summary, Tracker, read_probe};
use ebb_units::Time;

pub use afxdp::{AfXdpLink, FrameSource};
pub use interrupt::{interrupt_signals, on_interrupt};
pub use link::TestLink;
pub use memory::MemoryLink;
pub use socket::SocketLink;

/// Frames at once.
const TURN: usize = 64;
/// Most that often, sent as received, before the other links get their turn: who sends more at a time than
/// he receives loses what comes back once sending takes all his time.
const BURSTS_MAX: usize = 8;
/// Shorter pauses are not worth a sleep.
const REST_MIN: Duration = Duration::from_micros(10);
/// Stragglers are waited for at most so many times as long as a silence that ends them: somebody else may send without an end.
const STRAGGLING_MAX: u32 = 10;
/// Distance of a [`Progress`]'s samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// One direction of traffic.
pub struct Sender {
    /// Index of the link it sends on.
    pub link: usize,
    /// What it sends.
    pub stream: Stream,
    /// When it sends.
    pub pace: Box<dyn Due + Send>,
}

/// The state of a run while it goes on.
#[derive(Debug, Default)]
pub struct Progress {
    /// Frames sent.
    pub sent: AtomicU64,
    /// Distinct test packets received.
    pub received: AtomicU64,
    /// Packets received out of order.
    pub reordered: AtomicU64,
    /// Set to end the run early.
    pub stop: AtomicBool,
    last: Mutex<Option<Sample>>,
}

/// Latency up to an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The instant.
    pub at: Time,
    /// Of the packets received since the sample before.
    pub latency_us: Latency,
}

impl Progress {
    /// The last sample.
    pub fn last(&self) -> Option<Sample> {
        *self.last.lock().expect("sample")
    }
}

/// A generator and sink.
pub struct Generator {
    links: Vec<Box<dyn TestLink>>,
    senders: Vec<Sender>,
    tracker: Tracker,
    progress: Arc<Progress>,
    clock: fn() -> Time,
    sampled: Time,
    receive_max: u64,
    moderation: Duration,
    resting: Option<WaitSet>,
    next_turn: Time,
    ran: Duration,
    ended: Time,
}

impl Generator {
    /// Sends with `senders` over `links` and expects flows 0 to `flows` - 1 back on any of them.
    pub fn new(
        links: Vec<Box<dyn TestLink>>,
        senders: Vec<Sender>,
        flows: u32,
        start: Start,
    ) -> Generator {
        let tracker = Tracker::new(flows, start);
        let progress = Arc::new(Progress::default());
        Generator {
            links,
            senders,
            tracker,
            progress,
            clock: clock::monotonic,
            sampled: Time::ZERO,
            receive_max: u64::MAX,
            moderation: Duration::ZERO,
            resting: None,
            next_turn: Time::ZERO,
            ran: Duration::ZERO,
            ended: Time::ZERO,
        }
    }

    /// Ends a run early once that many packets have been received.
    pub fn with_receive_max(mut self, packets: u64) -> Generator {
        self.receive_max = packets;
        self
    }

    /// Reads `clock` instead of the monotonic one; senders' schedules are by the same clock.
    pub fn with_clock(mut self, clock: fn() -> Time) -> Generator {
        self.clock = clock;
        self
    }

    /// Hands frames over at most once in `span`, as a network card with interrupt moderation does
    /// to its host. Latency is counted from the handing over.
    pub fn with_moderation(mut self, span: Duration) -> Generator {
        self.moderation = span;
        self
    }

    /// Sleeps while there is nothing to send or receive, as hosts do, instead of looking again and again: what the
    /// machine's processors do besides is then somebody else's work.
    pub fn with_rest(mut self) -> Generator {
        self.resting = Some(WaitSet::new());
        self
    }

    /// The books as they are kept.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Runs until `end`, until stopped or until every sender has sent its last, then receives
    /// until none of a test's packets has come for `settle`, ten times as long at most.
    ///
    /// # Errors
    /// When a link fails.
    pub fn run(&mut self, end: Time, settle: Duration) -> io::Result<()> {
        // A link takes frames in from its first reception on: whoever answers at once would find
        // nobody there.
        self.receive()?;
        let start = (self.clock)();
        self.sampled = start;
        loop {
            let now = (self.clock)();
            (self.ran, self.ended) = (now - start, now);
            if now >= end || self.progress.stop.load(Relaxed) {
                break;
            }
            let sent = self.send(now)?;
            let received = self.receive()?;
            self.keep_books(now);
            if self.tracker.received() >= self.receive_max {
                break;
            }
            if sent == 0 && self.all_sent() {
                break;
            }
            if sent + received == 0 {
                self.pause(end);
            }
        }
        // Stragglers: only this test's packets count, for others' may never end.
        let begun = (self.clock)();
        let (mut came, mut last) = (self.tracker.received(), begun);
        loop {
            self.receive()?;
            let now = (self.clock)();
            if self.tracker.received() > came {
                (came, last) = (self.tracker.received(), now);
            }
            if now - last >= settle || now - begun >= settle * STRAGGLING_MAX {
                break;
            }
            std::thread::yield_now();
        }
        self.publish();
        Ok(())
    }

    /// The result so far. `told` says that this generator's own sending is all there is.
    pub fn summary(&self, told: bool) -> Summary {
        self.tracker.summary(told.then(|| self.sent()))
    }

    /// How alike flows fared ([`Tracker::fairness`]).
    #[cfg(feature = "systems")]
    pub fn fairness(&self) -> f64 {
        self.tracker.fairness()
    }

    /// Frames that were due in the last run and that its links did not take, once asked.
    pub fn take_owed(&mut self) -> u64 {
        let end = self.ended;
        self.senders.iter_mut().map(|sender| u64::from(sender.pace.due(end, u32::MAX))).sum()
    }

    /// The links, for a further run with other senders.
    pub fn into_links(self) -> Vec<Box<dyn TestLink>> {
        self.links
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.senders.iter().map(|sender| sender.stream.sent()).sum()
    }

    /// How long the last run went on without the wait for stragglers.
    pub fn ran(&self) -> Duration {
        self.ran
    }

    /// Bytes sent so far, without check sequences.
    pub fn bytes(&self) -> u64 {
        self.senders.iter().map(|sender| sender.stream.bytes()).sum()
    }

    fn all_sent(&mut self) -> bool {
        let mut senders = self.senders.iter_mut().peekable();
        senders.peek().is_some() && senders.all(|sender| sender.pace.next_at().is_none())
    }

    /// Until the next frame is due or has come, or only for others' turn.
    fn pause(&mut self, end: Time) {
        let next = self.senders.iter_mut().filter_map(|sender| sender.pace.next_at()).min();
        let until = next.unwrap_or(end).max(self.next_turn).min(end);
        if let Some(set) = &mut self.resting {
            set.clear();
            let span = until - (self.clock)();
            if span >= REST_MIN && self.links.iter_mut().all(|link| link.rest(set)) {
                return set.wait(Some(span));
            }
        }
        std::thread::yield_now();
    }

    fn send(&mut self, now: Time) -> io::Result<usize> {
        if now < self.next_turn {
            return Ok(0);
        }
        self.next_turn = now + self.moderation;
        let mut total = 0;
        for sender in &mut self.senders {
            let link = &mut self.links[sender.link];
            for _ in 0..BURSTS_MAX {
                let room = link.room()?.min(TURN);
                let count = sender.pace.due(now, room as u32) as usize;
                if count > 0 {
                    link.send(now, count, &mut |buffer| sender.stream.write_next(now, buffer))?;
                    total += count;
                }
                if count < TURN {
                    break;
                }
            }
        }
        Ok(total)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut total = 0;
        for link in &mut self.links {
            let (tracker, clock) = (&mut self.tracker, self.clock);
            for _ in 0..BURSTS_MAX {
                // Read once the frames are here: a clock read before may be older than a frame.
                let mut now = None;
                let count = link.receive(&mut |frame| {
                    if let Some(probe) = read_probe(frame) {
                        tracker.record(&probe, *now.get_or_insert_with(clock));
                    }
                })?;
                total += count;
                if count < TURN {
                    break;
                }
            }
        }
        Ok(total)
    }

    fn keep_books(&mut self, now: Time) {
        self.publish();
        if now - self.sampled >= SAMPLE_EVERY {
            self.sampled = now;
            let sample = Sample { at: now, latency_us: self.tracker.take_recent() };
            *self.progress.last.lock().expect("sample") = Some(sample);
        }
    }

    fn publish(&self) {
        self.progress.sent.store(self.sent(), Relaxed);
        self.progress.received.store(self.tracker.received(), Relaxed);
        self.progress.reordered.store(self.tracker.reordered(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use ebb_traffic::{Constant, FlowSpec, SizeMix, StreamSpec, Timeline, draw_flows};
    use ebb_units::PacketsPerSecond;

    use super::*;

    /// Frames come back on the link they were sent on, every hundredth excepted.
    #[derive(Default)]
    struct Echo {
        frames: VecDeque<Vec<u8>>,
        count: u64,
    }

    impl TestLink for Echo {
        fn room(&mut self) -> io::Result<usize> {
            Ok(1000 - self.frames.len().min(1000))
        }

        fn send(
            &mut self,
            _now: Time,
            count: usize,
            write: &mut dyn FnMut(&mut [u8]) -> usize,
        ) -> io::Result<()> {
            for _ in 0..count {
                let mut buffer = [0; 1514];
                let len = write(&mut buffer);
                self.count += 1;
                if !self.count.is_multiple_of(100) {
                    self.frames.push_back(buffer[..len].to_vec());
                }
            }
            Ok(())
        }

        fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
            let frame = self.frames.pop_front();
            frame.iter().for_each(|frame| see(frame));
            Ok(usize::from(frame.is_some()))
        }
    }

    /// A link that loses what comes before it is first looked at, as a socket without buffers does.
    #[derive(Default)]
    struct Sleepy {
        echo: Echo,
        awake: bool,
    }

    impl TestLink for Sleepy {
        fn room(&mut self) -> io::Result<usize> {
            self.echo.room()
        }

        fn send(
            &mut self,
            now: Time,
            count: usize,
            write: &mut dyn FnMut(&mut [u8]) -> usize,
        ) -> io::Result<()> {
            self.echo.send(now, count, write)?;
            if !self.awake {
                self.echo.frames.clear();
            }
            Ok(())
        }

        fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
            self.awake = true;
            self.echo.receive(see)
        }
    }

    fn sender(link: usize) -> Sender {
        let nets: Vec<ipnet::IpNet> = vec!["192.0.2.0/24".parse().expect("a prefix")];
        let spec = FlowSpec {
            count: 10,
            sources: &nets,
            destinations: &nets,
            ipv6_share: 0.0,
            tcp_share: 0.0,
        };
        let mix = StreamSpec {
            first_flow: link as u32 * 10,
            from: [2; 6],
            to: [4; 6],
            sizes: &SizeMix::imix(),
            popularity: 0.0,
            seed: 1,
        };
        let stream = Stream::new(&draw_flows(&spec, 1), &mix);
        let start = clock::monotonic();
        let pace = Box::new(Timeline::new(Constant::new(start, PacketsPerSecond(10_000.0))));
        Sender { link, stream, pace }
    }

    /// A segment with others on it: each time there is a frame that is no test's.
    #[derive(Default)]
    struct Segment(Echo);

    impl TestLink for Segment {
        fn room(&mut self) -> io::Result<usize> {
            self.0.room()
        }

        fn send(
            &mut self,
            now: Time,
            count: usize,
            write: &mut dyn FnMut(&mut [u8]) -> usize,
        ) -> io::Result<()> {
            self.0.send(now, count, write)
        }

        fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
            see(&[0xff; 60]);
            Ok(self.0.receive(see)? + 1)
        }
    }

    #[test]
    fn what_others_send_keeps_no_test_from_its_end() {
        let links: Vec<Box<dyn TestLink>> = vec![Box::<Segment>::default()];
        let mut generator = Generator::new(links, vec![sender(0)], 10, Start::Zero);
        let end = clock::monotonic() + Duration::from_millis(50);
        generator.run(end, Duration::from_millis(5)).expect("a link in memory");
        assert!(generator.summary(true).received > 10);
    }

    #[test]
    fn the_first_packet_finds_the_receiver_there() {
        let links: Vec<Box<dyn TestLink>> = vec![Box::<Sleepy>::default()];
        let mut generator = Generator::new(links, vec![sender(0)], 10, Start::Zero);
        std::thread::sleep(Duration::from_millis(2));
        let end = clock::monotonic() + Duration::from_millis(5);
        generator.run(end, Duration::from_millis(5)).expect("a link in memory");
        let summary = generator.summary(true);
        assert!(summary.sent >= 20, "{summary:?}");
        // The echo swallows every hundredth.
        assert_eq!(summary.lost, summary.sent / 100, "none of its own: {summary:?}");
    }

    thread_local! {
        /// A clock that goes on as it is looked at, and while `Laborious` sends.
        static NANOS: Cell<u64> = const { Cell::new(1_000_000_000) };
    }

    fn looked() -> Time {
        NANOS.set(NANOS.get() + 100);
        Time::from_nanos(NANOS.get())
    }

    /// A link on which each frame takes two microseconds, and that keeps as many as a ring does.
    #[derive(Default)]
    struct Laborious(VecDeque<Vec<u8>>);

    impl TestLink for Laborious {
        fn room(&mut self) -> io::Result<usize> {
            Ok(TURN)
        }
        fn send(
            &mut self,
            _: Time,
            count: usize,
            write: &mut dyn FnMut(&mut [u8]) -> usize,
        ) -> io::Result<()> {
            NANOS.set(NANOS.get() + 2000 * count as u64);
            for _ in 0..count {
                let mut buffer = [0; 1514];
                let len = write(&mut buffer);
                if self.0.len() < 4096 {
                    self.0.push_back(buffer[..len].to_vec());
                }
            }
            Ok(())
        }
        fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
            let count = self.0.len().min(TURN);
            self.0.drain(..count).for_each(|frame| see(&frame));
            Ok(count)
        }
    }

    #[test]
    fn who_catches_up_receives_what_comes_back() {
        let now = looked();
        let due = Time::from_nanos(now.as_nanos() - 20_000_000);
        let pace = Timeline::new(Constant::new(due, PacketsPerSecond(400_000.0)));
        let sender = Sender { pace: Box::new(pace), ..sender(0) };
        let links: Vec<Box<dyn TestLink>> = vec![Box::<Laborious>::default()];
        let mut generator = Generator::new(links, vec![sender], 10, Start::Zero)
            .with_clock(looked)
            .with_moderation(Duration::from_micros(100));
        let end = now + Duration::from_millis(60);
        generator.run(end, Duration::from_millis(1)).expect("a link in memory");
        let summary = generator.summary(true);
        assert!(summary.sent >= 20_000, "{summary:?}");
        assert_eq!(summary.lost, 0, "{summary:?}");
    }

    #[test]
    fn what_a_link_does_not_take_stays_owed() {
        struct Full;
        impl TestLink for Full {
            fn room(&mut self) -> io::Result<usize> {
                Ok(0)
            }
            fn send(
                &mut self,
                _: Time,
                _: usize,
                _: &mut dyn FnMut(&mut [u8]) -> usize,
            ) -> io::Result<()> {
                unreachable!("there is no room")
            }
            fn receive(&mut self, _: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
                Ok(0)
            }
        }
        let mut generator = Generator::new(vec![Box::new(Full)], vec![sender(0)], 10, Start::Zero);
        let end = clock::monotonic() + Duration::from_millis(20);
        generator.run(end, Duration::ZERO).expect("a link in memory");
        assert_eq!(generator.sent(), 0);
        assert!(generator.take_owed() >= 150, "10,000 a second for 20 ms");
    }

    #[test]
    fn what_a_link_swallows_is_lost_and_nothing_else() {
        let links: Vec<Box<dyn TestLink>> = vec![Box::<Echo>::default(), Box::<Echo>::default()];
        let mut generator = Generator::new(links, vec![sender(0), sender(1)], 20, Start::Zero);
        let end = clock::monotonic() + Duration::from_millis(100);
        generator.run(end, Duration::from_millis(20)).expect("links in memory");
        let summary = generator.summary(true);
        assert!(summary.sent >= 200, "{summary:?}");
        assert!((summary.sent / 100).abs_diff(summary.lost) <= 1, "{summary:?}");
        assert_eq!((summary.reordered, summary.duplicated), (0, 0));
        assert_eq!(generator.progress().received.load(Relaxed), summary.received);
    }
}
