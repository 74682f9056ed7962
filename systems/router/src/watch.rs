//! A run as a timeline: what each core did, batch by batch, and what the governor did.
//!
//! Room: spans of time from the packet-exact engine's account into events. It decides nothing.

use ebb_report::{Timeline, Track};
use ebb_units::Hertz;

use crate::account::{Doing, STATE_NAMES};
use crate::engine::Sample;
use crate::machine::{PER_SECOND, Picos};

/// A span of a core that may go on.
#[derive(Clone, Copy, Debug)]
struct Span {
    doing: Doing,
    from: Picos,
    until: Picos,
    packets: u32,
}

#[derive(Clone, Debug)]
struct Watched {
    track: Track,
    /// What the curve of its queue is called.
    queue: String,
    span: Option<Span>,
    /// Packets of the batch that begins with the next span.
    batch: Option<u32>,
    queue_len: u32,
}

/// Watches one run.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    timeline: Timeline<Vec<u8>>,
    cores: Vec<Watched>,
    queues: Track,
    governor: Track,
    whole: Track,
    /// The step of a hand-over that is under way.
    step: Option<(&'static str, Picos)>,
    point: Option<(u16, u64)>,
}

impl Watch {
    /// Watches so many cores; none where the engine has no spans of theirs.
    pub(crate) fn new(mut timeline: Timeline<Vec<u8>>, cores: u16) -> Watch {
        let core = |number: u16| {
            let track = timeline.track("cores", &format!("core {number}"));
            let queue = format!("core {number}: packets waiting");
            Watched { track, queue, span: None, batch: None, queue_len: 0 }
        };
        let cores = (0..cores).map(core).collect();
        let queues = timeline.track("queues", "queues");
        let governor = timeline.track("governor", "hand-overs");
        let whole = timeline.track("router", "router");
        Watch { timeline, cores, queues, governor, whole, step: None, point: None }
    }

    /// A core was `doing` something for a span.
    pub(crate) fn spent(&mut self, core: u16, doing: Doing, from: Picos, span: Picos) {
        let own = &mut self.cores[usize::from(core)];
        let batch = own.batch.take_if(|_| doing == Doing::Work);
        match &mut own.span {
            Some(last) if batch.is_none() && last.doing == doing && last.until == from => {
                last.until = from + span;
            }
            _ => {
                let next = Span { doing, from, until: from + span, packets: batch.unwrap_or(0) };
                let last = own.span.replace(next);
                self.draw(core, last);
            }
        }
    }

    /// A core begins a batch, with so many packets waiting behind it.
    pub(crate) fn batch(&mut self, core: u16, now: Picos, packets: u32, waiting: u32) {
        let own = &mut self.cores[usize::from(core)];
        own.batch = (packets > 0).then_some(packets);
        if own.queue_len != waiting {
            own.queue_len = waiting;
            self.timeline.counter(self.queues, &own.queue, now, waiting.into());
        }
    }

    /// Cores and frequency in force.
    pub(crate) fn point(&mut self, now: Picos, cores: u16, clock: Hertz) {
        let (before, point) = (self.point.replace((cores, clock.0)), (cores, clock.0));
        if before.is_none_or(|before| before.0 != point.0) {
            self.timeline.counter(self.whole, "active cores", now, cores.into());
        }
        if before.is_none_or(|before| before.1 != point.1) {
            self.timeline.counter(self.whole, "clock (GHz)", now, clock.as_ghz());
        }
    }

    /// A hand-over takes its next step, or is over.
    pub(crate) fn step(&mut self, now: Picos, next: Option<&'static str>) {
        if self.step.map(|(name, _)| name) == next {
            return;
        }
        let last = std::mem::replace(&mut self.step, next.map(|name| (name, now)));
        if let Some((name, since)) = last {
            self.timeline.slice(self.governor, name, since, now, &[]);
        }
    }

    /// What comes before is not in the report.
    pub(crate) fn reported_from(&mut self, now: Picos) {
        for core in 0..self.cores.len() {
            let last = self.cores[core].span.take();
            self.draw(core as u16, last);
        }
        self.timeline.instant(self.whole, "reported from here", now);
    }

    /// The timeline, with the samples of the whole router.
    pub(crate) fn finish(mut self, now: Picos, samples: &[Sample]) -> Timeline<Vec<u8>> {
        self.step(now, None);
        for core in 0..self.cores.len() {
            let last = self.cores[core].span.take();
            self.draw(core as u16, last);
        }
        for sample in samples {
            let from = ((sample.at_s - sample.span_s) * PER_SECOND).max(0.0) as Picos;
            self.timeline.counter(self.whole, "power (W)", from, sample.watts.0);
            self.timeline.counter(self.whole, "offered (Mpps)", from, sample.offered_pps / 1e6);
            if self.cores.is_empty() {
                let until = (sample.at_s * PER_SECOND) as Picos;
                self.point(until, sample.cores, sample.frequency);
                self.timeline.counter(self.whole, "longest queue", until, sample.queue_len.into());
            }
        }
        self.timeline
    }

    fn draw(&mut self, core: u16, span: Option<Span>) {
        let Some(Span { doing, from, until, packets }) = span else { return };
        let track = self.cores[usize::from(core)].track;
        let details = [("packets", f64::from(packets))];
        let details = if packets > 0 { &details[..] } else { &[] };
        self.timeline.slice(track, STATE_NAMES[doing.index()], from, until, details);
    }
}
