//! The other router: what it has said it holds, what it is to be told.
//!
//! Workers encode and decode with one peer's memory under its locks, a packet at a time; [`Peer::receive`] and
//! [`Peer::send`] are for whoever has the socket. Reads no clock and no socket.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ebb_graph::PortId;
use ebb_units::Time;
use ebb_wire::is_group;

use super::encoder::{Encoder, Horizon};
use super::flows::Flows;
use super::report::{Came, NAMES_MAX, Report};
use super::store::{Progress, Store};
use super::wire::Key;
use super::{Bell, Settings};

/// Nothing is encoded for a peer that has been silent for so long: packets tell it to speak.
pub(super) const TRUST: Duration = Duration::from_millis(250);
/// What came is told after so long, or when a report is full.
const REPORT_AFTER: Duration = Duration::from_millis(5);
/// Without anything to tell, that it lives.
const ALIVE: Duration = Duration::from_secs(1);
/// For a peer that has not even said so for so long, packets are not looked at.
const GONE: Duration = Duration::from_secs(4);
/// Reports in a second at most, and how many at once.
const REPORTS_PER_S: u64 = 4000;
const BURST: u64 = 16;
/// Answers in a second to whom it does not know.
const ANSWERS_PER_S: u64 = 10;
/// Names that wait to be told; what is more is not told, and so not referred to.
const WAITING_MAX: usize = 30 * NAMES_MAX;
/// For so long whoever sent a packet that could be put together is the peer.
const SURE: Duration = Duration::from_secs(1);

/// What the encoder knows of the peer's decoder, for all packets of its session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) key: Key,
    /// Where it receives: only what goes there is encoded. All 0 as long as nothing has come there, so that there is
    /// nothing to refer to.
    pub(super) mac: [u8; 6],
}

/// What is encoded with.
#[derive(Debug)]
pub(super) struct Outbound {
    /// Mark of the session that its payloads are named for.
    pub(super) session: Option<u32>,
    pub(super) encoder: Encoder,
    pub(super) flows: Flows,
    pub(super) sequence: u32,
    pub(super) horizon: Horizon,
}

/// What is decoded with, and what is to be told of it.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) store: Store,
    pub(super) mac: [u8; 6],
    /// The sequence number that comes next.
    pub(super) next: Option<u32>,
    /// Each with what the store had taken in before.
    came: Vec<(Came, Progress)>,
    /// Where the last packet that could be put together came from, and when.
    from: Option<([u8; 6], Time)>,
    missing: Vec<u32>,
    /// Something is to be told at once.
    urgent: bool,
    /// It is to be told soon that there is somebody.
    greets: bool,
}

impl Inbound {
    /// Notes what came, or is missing. Returns whether it is the first since the last report, or fills one.
    pub(super) fn note(&mut self, came: Option<(Came, Progress)>, missing: Option<u32>) -> bool {
        let waiting = |inbound: &Inbound| inbound.came.len() + inbound.missing.len();
        let before = waiting(self);
        self.came.extend(came.filter(|_| before < WAITING_MAX));
        self.missing.extend(missing.filter(|_| before < WAITING_MAX));
        self.urgent |= missing.is_some();
        let now = waiting(self);
        missing.is_some() || (before == 0 && now > 0) || (before < NAMES_MAX && now >= NAMES_MAX)
    }

    /// The peer should hear of this session, though nothing came that it could be told of.
    pub(super) fn greet(&mut self) {
        self.greets = true;
    }

    /// A frame has come here.
    pub(super) fn came_to(&mut self, frame: &[u8]) {
        if let Some(mac) = frame.first_chunk().filter(|mac| !is_group(mac)) {
            self.mac = *mac;
        }
    }

    /// It was the peer who sent a frame: its payload was put together.
    pub(super) fn came_from(&mut self, frame: &[u8], now: Time) {
        self.from = source(frame).map(|mac| (mac, now));
    }

    /// Whether a frame is of somebody else on the link, whose payloads the peer knows nothing of.
    pub(super) fn is_of_another(&self, frame: &[u8], now: Time) -> bool {
        let known = self.from.filter(|(_, at)| now.since(*at) < SURE);
        known.is_some_and(|(mac, _)| source(frame) != Some(mac))
    }

    fn waits(&self) -> bool {
        self.greets || !(self.came.is_empty() && self.missing.is_empty())
    }
}

/// The MAC address that a frame came from.
fn source(frame: &[u8]) -> Option<[u8; 6]> {
    frame.get(6..)?.first_chunk().copied()
}

#[derive(Debug, Default)]
struct Control {
    /// The peer's session; 0: none yet.
    session: u128,
    heard_number: u32,
    number: u32,
    sent_at: Option<Time>,
    /// Whom to answer that it does not know us.
    answer: Option<u128>,
    answers: Allowance,
    reports: Allowance,
}

/// So many at a time, and so many in a second (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Default)]
struct Allowance {
    /// When the next would be due if they came evenly.
    due: Option<Time>,
}

impl Allowance {
    fn take(&mut self, now: Time, per_s: u64, burst: u64) -> bool {
        let every = Duration::from_nanos(1_000_000_000 / per_s);
        let due = self.due.unwrap_or(now).max(now);
        if due.since(now) > every * burst as u32 {
            return false;
        }
        self.due = Some(due + every);
        true
    }
}

/// What its socket did, and how often.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) sent: AtomicU64,
    pub(super) heard: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) sessions: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct Peer {
    pub(super) port: PortId,
    session: u128,
    pub(super) own: Key,
    pub(super) theirs: ArcSwapOption<Session>,
    heard_at: AtomicU64,
    out: Mutex<Outbound>,
    into: Mutex<Inbound>,
    control: Mutex<Control>,
    bell: BellOf,
    pub(super) told: Told,
}

struct BellOf(Bell);

impl std::fmt::Debug for BellOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

impl Peer {
    /// Behind a port; `session` is random and never used again, `bell` rings when [`Peer::send`] should be asked.
    pub(super) fn new(port: PortId, settings: &Settings, session: u128, bell: &Bell) -> Peer {
        let out = Outbound {
            session: None,
            encoder: Encoder::new(settings.cache_bytes, settings.period),
            flows: Flows::new(),
            sequence: 0,
            horizon: Horizon::default(),
        };
        let into = Inbound {
            store: Store::new(settings.cache_bytes),
            mac: [0; 6],
            next: None,
            came: Vec::new(),
            from: None,
            missing: Vec::new(),
            urgent: false,
            greets: false,
        };
        Peer {
            port,
            // 0 stands for none.
            session: session.max(1),
            own: Key::new(session.max(1)),
            theirs: ArcSwapOption::empty(),
            heard_at: AtomicU64::new(0),
            out: Mutex::new(out),
            into: Mutex::new(into),
            control: Mutex::default(),
            bell: BellOf(bell.clone()),
            told: Told::default(),
        }
    }

    /// Whether what it holds now may be relied on.
    pub(super) fn is_trusted(&self, now: Time) -> bool {
        self.was_heard_within(TRUST, now)
    }

    /// Whether there is somebody at all.
    pub(super) fn is_alive(&self, now: Time) -> bool {
        self.was_heard_within(GONE, now)
    }

    fn was_heard_within(&self, span: Duration, now: Time) -> bool {
        match self.heard_at.load(Relaxed) {
            0 => false,
            nanos => now.since(Time::from_nanos(nanos)) < span,
        }
    }

    pub(super) fn outbound(&self) -> MutexGuard<'_, Outbound> {
        self.out.lock().expect("no worker panics with the lock")
    }

    pub(super) fn inbound(&self) -> MutexGuard<'_, Inbound> {
        self.into.lock().expect("no worker panics with the lock")
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().expect("nobody panics with the lock")
    }

    pub(super) fn ring(&self) {
        (self.bell.0)();
    }

    /// A datagram came from the peer's address and port.
    pub fn receive(&self, datagram: &[u8], now: Time) {
        let Some(report) = Report::read(datagram) else {
            self.told.refused.fetch_add(1, Relaxed);
            return;
        };
        let mut control = self.control();
        if report.echo != self.session {
            // It does not know us yet, or knows who we were before a restart.
            self.told.refused.fetch_add(1, Relaxed);
            control.answer = Some(report.session);
            return;
        }
        if report.session != control.session {
            control.session = report.session;
            control.answer = Some(report.session);
            // Its encoder counts from the beginning.
            self.inbound().next = None;
            self.told.sessions.fetch_add(1, Relaxed);
        } else if report.number.wrapping_sub(control.heard_number) as i32 <= 0 {
            // Late, or again: what it says is known.
            return;
        }
        control.heard_number = report.number;
        drop(control);
        self.told.heard.fetch_add(1, Relaxed);
        self.apply(&report, now);
        self.heard_at.store(now.as_nanos().max(1), Relaxed);
    }

    fn apply(&self, report: &Report, now: Time) {
        let known = self.theirs.load_full();
        let key = match &known {
            Some(known) if known.key.session == Key::new(report.session).session => {
                known.key.clone()
            }
            _ => Key::new(report.session),
        };
        let mut out = self.outbound();
        if out.session != Some(key.session) {
            out.encoder.clear();
            out.flows.forget();
            out.session = Some(key.session);
        }
        // A little before it is gone at either end.
        let own = &out.encoder.store;
        let theirs = Progress {
            bytes: u64::from(report.capacity_kib) << 10,
            records: u64::from(report.records_max),
        };
        let least = theirs.min(Progress { bytes: own.capacity(), records: own.records_max() });
        let limit = Progress {
            bytes: least.bytes - least.bytes / 8,
            records: least.records - least.records / 8,
        };
        out.horizon = Horizon { limit, theirs: report.progress };
        for came in &report.came {
            out.encoder.store.acknowledge(came.name, report.before);
            out.flows.came(came.flow, came.encoded, now);
        }
        report.missing.iter().for_each(|name| out.encoder.store.forget(*name));
        drop(out);
        let is_same = |known: &Arc<Session>| {
            known.key.session == key.session && (known.mac == report.mac || report.mac == [0; 6])
        };
        if !known.as_ref().is_some_and(is_same) {
            self.theirs.store(Some(Arc::new(Session { key, mac: report.mac })));
        }
    }

    /// Nobody listens at the peer's port: it has ended.
    pub fn lost(&self) {
        self.heard_at.store(0, Relaxed);
    }

    /// Writes the next datagram for the peer into `out` if one is due; to be asked again then.
    pub fn send(&self, now: Time, out: &mut Vec<u8>) -> bool {
        let mut control = self.control();
        let mut into = self.inbound();
        let mut report = Report {
            session: self.session,
            echo: control.session,
            number: control.number.wrapping_add(1),
            capacity_kib: (into.store.capacity() >> 10) as u32,
            mac: into.mac,
            records_max: into.store.records_max() as u32,
            progress: into.store.progress(),
            before: into.store.progress(),
            ..Report::default()
        };
        if let Some(session) = control.answer.take()
            && control.answers.take(now, ANSWERS_PER_S, 4)
        {
            report.echo = session;
        } else {
            let waiting = into.came.len() + into.missing.len();
            let since = control.sent_at.map(|at| now.since(at));
            let is_due = match since {
                None => true,
                Some(_) if into.urgent || waiting >= NAMES_MAX => true,
                Some(since) => since >= if into.waits() { REPORT_AFTER } else { ALIVE },
            };
            if !is_due || !control.reports.take(now, REPORTS_PER_S, BURST) {
                return false;
            }
            let some = into.came.len().min(NAMES_MAX);
            if let Some((_, before)) = into.came.first() {
                report.before = *before;
            }
            report.came.extend(into.came.drain(..some).map(|(came, _)| came));
            let some = into.missing.len().min(NAMES_MAX);
            report.missing.extend(into.missing.drain(..some));
            into.urgent = !into.missing.is_empty();
            into.greets = false;
        }
        drop(into);
        control.number = report.number;
        control.sent_at = Some(now);
        self.told.sent.fetch_add(1, Relaxed);
        report.write(out);
        true
    }

    /// When [`Peer::send`] is to be asked next, if nobody rings before.
    pub fn due(&self, now: Time) -> Time {
        let control = self.control();
        let into = self.inbound();
        let after = if into.waits() || control.answer.is_some() { REPORT_AFTER } else { ALIVE };
        control.sent_at.map_or(now, |at| at + after).max(now + Duration::from_millis(1))
    }
}
