//! Orders to one worker, its answers, and what workers hand over to each other along with them.
//!
//! An order is a state: the latest counts. What goes with it is work, which must arrive once and in order
//! or stay where it was, so it takes the hand-over protocol of `ebb-switch`, both ways: who owns which flows,
//! with their held packets and state, to the worker, and the same with answers from it. The governor looks for an answer before it sleeps, and
//! is woken only where it does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebb_control::redirect::Table;
use ebb_graph::{FlowState, PortId};
use ebb_host::{Doorbell, clock};
use ebb_switch::{Receiver, Sender, Waiter, Waiting, channel};

/// How long the governor looks for an answer before it sleeps: a worker that polls answers within a batch.
const LOOK: Duration = Duration::from_micros(20);

/// What the governor tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// Receive, forward, decide.
    Run = 0,
    /// Receive nothing until told otherwise; answer when that is so.
    Hold = 1,
    /// Go on as in `Run`, but answer when all that waits now has been received and sent, with the held
    /// packets of flows that are another's.
    Drain = 2,
    /// Sleep until a packet comes; take no part in decisions.
    Park = 3,
    /// Close all ports and end.
    Stop = 4,
    /// As in `Hold`, for good: answer when nodes have handed over what they keep for others.
    Retire = 5,
}

impl Order {
    fn from_bits(bits: u64) -> Order {
        match bits & 0xff {
            0 => Order::Run,
            1 => Order::Hold,
            2 => Order::Drain,
            3 => Order::Park,
            5 => Order::Retire,
            _ => Order::Stop,
        }
    }
}

/// Who owns which flows.
#[derive(Debug, Default)]
pub struct Owners {
    /// By port number: what it holds, and whether its entries are chosen by [`ebb_wire::redirect_hash`].
    ports: Vec<Option<(Table, bool)>>,
}

impl Owners {
    /// Of these tables, each with whether [`ebb_wire::redirect_hash`] chooses the entry.
    pub fn new(ports: Vec<Option<(Table, bool)>>) -> Owners {
        Owners { ports }
    }

    /// The worker that receives a flow, by its port and [`ebb_wire::redirect_hash`], as far as `own` can know. A
    /// NIC's own hash is not known here: a worker keeps what came from such a port while it has an entry of it.
    pub fn of(&self, own: usize, port: PortId, hash: u32) -> usize {
        let port = self.ports.get(usize::from(port.0)).and_then(Option::as_ref);
        match port {
            None => own,
            Some((table, true)) => usize::from(table[hash as usize % table.len()]),
            Some((table, false)) if table.iter().any(|owner| usize::from(*owner) == own) => own,
            Some((table, false)) => usize::from(table[0]),
        }
    }
}

/// What comes with an order.
#[derive(Debug, Default)]
pub struct Message {
    /// Who owns which flows from now on.
    pub owners: Option<Arc<Owners>>,
    /// What other workers held back and remembered of flows that are this one's now.
    pub state: FlowState,
}

impl Message {
    /// This message, then `later`.
    fn and(self, later: Message) -> Message {
        Message { owners: later.owners.or(self.owners), state: self.state.and(later.state) }
    }
}

/// Held packets and state of flows with the worker that is to have them.
pub type Transfer = (usize, FlowState);

#[derive(Debug)]
struct Answer {
    serial: u64,
    transfers: Vec<Transfer>,
}

impl Answer {
    fn and(mut self, mut later: Answer) -> Answer {
        self.transfers.append(&mut later.transfers);
        Answer { serial: later.serial, transfers: self.transfers }
    }
}

/// The governor's end of the answers.
#[derive(Debug)]
struct Heard {
    answers: Receiver<Answer>,
    waiter: Waiter,
    serial: u64,
    transfers: Vec<Transfer>,
}

/// Orders to one worker and its answers.
#[derive(Debug)]
pub struct Mailbox {
    /// Serial number of the order in the upper bits, the order in the lowest eight.
    order: AtomicU64,
    bell: Doorbell,
    messages: (Mutex<Sender<Message>>, Mutex<Receiver<Message>>),
    answers: Mutex<Sender<Answer>>,
    heard: Mutex<Heard>,
}

/// Each end has one user at a time; the lock is there for the change of users.
fn locked<T>(end: &Mutex<T>) -> MutexGuard<'_, T> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// Begins with an order.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(order: Order) -> std::io::Result<Mailbox> {
        // One that is being taken and one that waits: what comes on top is joined to the latter.
        let (to, messages) = channel(2);
        let (back, answers) = channel(2);
        let waiter = Waiter::new(Waiting::SpinThenSleep(LOOK));
        Ok(Mailbox {
            order: AtomicU64::new(order as u64),
            bell: Doorbell::new()?,
            messages: (Mutex::new(to), Mutex::new(messages)),
            answers: Mutex::new(back),
            heard: Mutex::new(Heard { answers, waiter, serial: 0, transfers: Vec::new() }),
        })
    }

    /// Gives an order and wakes the worker; returns its serial number.
    pub fn give(&self, order: Order) -> u64 {
        let serial = (self.order.load(Ordering::SeqCst) >> 8) + 1;
        self.order.store(serial << 8 | order as u64, Ordering::SeqCst);
        self.bell.ring();
        serial
    }

    /// The present order and its serial number.
    #[inline]
    pub fn order(&self) -> (Order, u64) {
        let bits = self.order.load(Ordering::Acquire);
        (Order::from_bits(bits), bits >> 8)
    }

    /// Lays a message down that the worker takes with its next order.
    pub fn send(&self, message: Message) {
        // The worker's end lies in this same mailbox: it is never closed.
        let sent = locked(&self.messages.0).offer_joined(message, Message::and);
        debug_assert!(sent.is_ok(), "a worker's mailbox was closed");
    }

    /// What came with the order, for the worker.
    pub fn take(&self) -> Message {
        let mut messages = locked(&self.messages.1);
        std::iter::from_fn(|| messages.take()).fold(Message::default(), Message::and)
    }

    /// Says that order number `serial` has been carried out.
    pub fn answer(&self, serial: u64) {
        self.answer_with(serial, Vec::new());
    }

    /// Says so and hands held packets over.
    pub fn answer_with(&self, serial: u64, transfers: Vec<Transfer>) {
        let sent = locked(&self.answers).offer_joined(Answer { serial, transfers }, Answer::and);
        debug_assert!(sent.is_ok(), "a worker's mailbox was closed");
    }

    /// Takes back what went with answers that nobody has heard: the governor waited no longer.
    pub fn take_back(&self) -> FlowState {
        let mut answers = locked(&self.answers);
        // The youngest comes first.
        let unheard =
            std::iter::from_fn(|| answers.withdraw()).reduce(|later, older| older.and(later));
        let transfers = unheard.into_iter().flat_map(|answer| answer.transfers);
        transfers.fold(FlowState::default(), |all, (_, state)| all.and(state))
    }

    /// Waits until order number `serial` is answered; false after `patience`.
    pub fn wait(&self, serial: u64, patience: Duration) -> bool {
        let mut heard = locked(&self.heard);
        let until = clock::monotonic() + patience;
        while heard.serial < serial {
            let now = clock::monotonic();
            if now >= until {
                return false;
            }
            let Heard { answers, waiter, .. } = &mut *heard;
            if let Some(answer) = waiter.next(answers, until - now) {
                heard.serial = answer.serial;
                heard.transfers.extend(answer.transfers);
            }
        }
        true
    }

    /// The held packets that came with the answers so far.
    pub fn transfers(&self) -> Vec<Transfer> {
        std::mem::take(&mut locked(&self.heard).transfers)
    }

    /// Descriptor that becomes readable with every order.
    pub fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use ebb_wire::Template;

    use super::*;

    #[test]
    fn answers_are_heard_in_order_and_late_ones_taken_back() {
        let mailbox = Mailbox::new(Order::Park).unwrap();
        let first = mailbox.give(Order::Hold);
        assert!(!mailbox.wait(first, Duration::ZERO));
        mailbox.answer(first);
        assert!(mailbox.wait(first, Duration::from_secs(10)));
        let second = mailbox.give(Order::Drain);
        mailbox.answer_with(second, vec![(1, FlowState::default())]);
        assert_eq!(mailbox.order(), (Order::Drain, second));
        // Nobody waits: the worker has it again.
        assert!(mailbox.take_back().is_empty());
        assert!(!mailbox.wait(second, Duration::ZERO));
        assert!(mailbox.transfers().is_empty());
    }

    #[test]
    fn messages_to_a_worker_that_takes_none_are_joined() {
        let mailbox = Mailbox::new(Order::Run).unwrap();
        let latest = Arc::new(Owners::default());
        for _ in 0..10 {
            mailbox.send(Message { owners: Some(latest.clone()), state: FlowState::default() });
        }
        mailbox.send(Message::default());
        assert!(Arc::ptr_eq(&mailbox.take().owners.unwrap(), &latest));
        assert!(mailbox.take().owners.is_none());
    }

    #[test]
    fn the_owner_of_a_flow_is_who_receives_it() {
        let mut table = [0_u8; 128];
        table.iter_mut().enumerate().for_each(|(entry, owner)| *owner = (entry % 3) as u8);
        let owners = Owners::new(vec![Some((table, true)), Some((table, false)), None]);
        let elsewhere = Owners::new(vec![Some(([2; 128], false))]);
        for flow in 1..32 {
            let at = |port: u16| format!("10.0.0.1:{port}").parse().unwrap();
            let frame = Template::udp(at(flow), at(9)).to_frame(b"");
            let hash = ebb_wire::redirect_hash(&frame);
            assert_eq!(owners.of(7, PortId(0), hash), (hash as usize & 127) % 3);
            // The NIC's hash is not known: kept while the worker has an entry, else one who has.
            assert_eq!(elsewhere.of(1, PortId(0), hash), 2);
            assert_eq!(owners.of(1, PortId(1), hash), 1);
            assert_eq!(owners.of(5, PortId(2), hash), 5);
        }
    }
}
