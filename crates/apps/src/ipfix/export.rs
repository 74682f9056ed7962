//! Takes ended flows from the workers' lanes to messages.
//!
//! Neighbours: `lane` (where records and samples come from), `pair` and `message`, or `sflow` (what becomes of them). Sends nothing:
//! the caller does, and says what became of each message.

use core::time::Duration;
use std::sync::Arc;

use ebb_units::Time;

use super::lane::{Lane, Traffic};
use super::message::{Encoder, Message};
use super::pair::{Flow, Pairing};
use super::sflow::Datagrams;
use super::{Account, Exported, Format, Reading};

/// Records taken in one turn; the rest in the next, so that the caller can send meanwhile.
const TURN_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Exporter {
    format: Format,
    lanes: Vec<Arc<Lane>>,
    exported: Arc<Exported>,
    encoder: Encoder,
    /// Of sFlow, where that is spoken.
    datagrams: Option<Datagrams>,
    pairing: Option<Pairing>,
    templates_at: Option<Time>,
}

impl Exporter {
    pub(super) fn new(
        format: Format,
        datagrams: Option<Datagrams>,
        patience: Duration,
        lanes: Vec<Arc<Lane>>,
        exported: Arc<Exported>,
    ) -> Exporter {
        let pairing = format.biflow.then(|| Pairing::new(patience));
        let encoder = Encoder::new(format.clone());
        Exporter { format, lanes, exported, encoder, datagrams, pairing, templates_at: None }
    }

    /// Messages of what has ended, and whether there is more at once.
    pub fn turn(&mut self, reading: &Reading) -> (Vec<Message>, bool) {
        let mut messages = match self.templates_at.is_some_and(|at| at > reading.now) {
            true => Vec::new(),
            false => self.templates(reading),
        };
        if let Some(datagrams) = &mut self.datagrams {
            let more = sample(&self.lanes, datagrams, reading, &mut messages);
            return (messages, more);
        }
        let Exporter { lanes, encoder, pairing, .. } = self;
        let mut out = |flow: Flow| messages.extend(encoder.flow(&flow, reading));
        let mut taken = 0;
        for lane in lanes {
            while taken < TURN_MAX
                && let Some(record) = lane.take()
            {
                taken += 1;
                match pairing {
                    Some(pairing) => pairing.add(reading.now, record, &mut out),
                    None => out(Flow { forward: record, reverse: None }),
                }
            }
        }
        if let Some(pairing) = pairing {
            pairing.poll(reading.now, &mut out);
        }
        messages.extend(self.encoder.finish(reading));
        (messages, taken == TURN_MAX)
    }

    /// The last messages: what waits for its other direction goes as it is. After all turns.
    pub fn finish(&mut self, reading: &Reading) -> Vec<Message> {
        let mut messages = Vec::new();
        if let Some(pairing) = &mut self.pairing {
            let encoder = &mut self.encoder;
            pairing.finish(&mut |flow| messages.extend(encoder.flow(&flow, reading)));
        }
        messages.extend(self.encoder.finish(reading));
        messages
    }

    /// Templates and options, or the counters of interfaces, at once: who gets them knows none yet.
    pub fn templates(&mut self, reading: &Reading) -> Vec<Message> {
        self.templates_at = Some(reading.now + self.format.template_every);
        if let Some(datagrams) = &mut self.datagrams {
            return datagrams.counters(reading);
        }
        let account = self.account();
        self.encoder.templates(&account, reading)
    }

    /// A message has gone.
    pub fn sent(&self, message: &Message) {
        let Traffic { flows, packets, bytes } = message.carries;
        self.exported.add(0, &[1, flows, packets, bytes]);
    }

    /// A message will not go.
    pub fn unsent(&self, message: &Message) {
        let Traffic { flows, packets, bytes } = message.carries;
        self.exported.add(4, &[flows, packets, bytes]);
    }

    fn account(&self) -> Account {
        let [messages, flows, packets, bytes, unsent @ ..] = self.exported.get();
        let mut account = Account {
            messages,
            sent: Traffic { flows, packets, bytes },
            unsent: Traffic { flows: unsent[0], packets: unsent[1], bytes: unsent[2] },
            other_packets: 0,
        };
        for lane in &self.lanes {
            let counted = lane.counted();
            account.other_packets += counted[3];
            let lost = Traffic { flows: counted[10], packets: counted[11], bytes: counted[12] };
            account.unsent = account.unsent.and(lost);
        }
        account
    }
}

/// Takes samples to datagrams; whether there are more.
fn sample(
    lanes: &[Arc<Lane>],
    datagrams: &mut Datagrams,
    reading: &Reading,
    messages: &mut Vec<Message>,
) -> bool {
    let mut taken = 0;
    for lane in lanes {
        while taken < TURN_MAX
            && let Some(sample) = lane.take_sample()
        {
            taken += 1;
            messages.extend(datagrams.sample(&sample, reading));
        }
    }
    messages.extend(datagrams.finish(reading));
    taken == TURN_MAX
}
