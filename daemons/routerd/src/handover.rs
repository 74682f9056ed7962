//! Moves redirect-table entries between workers without reordering a flow.
//!
//! A flow is reordered when its new worker sends a later packet before its old worker has sent the
//! earlier ones. So, in this order: the workers that gain entries stop receiving; the tables are
//! rewritten (after which no packet is on its way to an old owner any more, see
//! [`RedirectTable::rewrite`]); the workers that lose entries receive and send all that waits;
//! then the gainers go on. Gainers lose nothing meanwhile, their packets wait in their rings.
//!
//! Packets that a node holds for an unresolved neighbour are outside this promise: they wait for
//! the network, not for a worker.

use std::time::Duration;

use ebb_control::redirect::{Table, Workers, gainers, losers};
use ebb_ports::RedirectTable;

use crate::shared::{Order, Shared};

/// Longest wait for one worker's answer. A worker answers within a batch; the rest is for a machine
/// that does not schedule it.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a handover did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Entries that changed their worker.
    pub entries_moved: usize,
    /// Ports whose table could not be rewritten, with the reason.
    pub refused: Vec<String>,
    /// Workers that did not answer in time; order is then not guaranteed for this change.
    pub late: Vec<usize>,
}

/// Changes every port's table from `old` to `new`; workers below `active` run afterwards, the
/// others are parked.
///
/// A port that refuses keeps its old table, and workers it still feeds stay awake for it: a parked
/// worker forwards what reaches it.
pub fn hand_over(
    shared: &Shared,
    redirects: &mut [Option<Box<dyn RedirectTable>>],
    (old, new): (&Table, &Table),
    active: u16,
) -> Handover {
    let mut result = Handover {
        entries_moved: old.iter().zip(new).filter(|(old, new)| old != new).count(),
        ..Handover::default()
    };
    let workers = shared.workers.len();
    let among =
        |set: Workers| set.iter().map(usize::from).filter(|worker| *worker < workers).collect();
    let gaining: Vec<usize> = among(gainers(old, new));
    let losing: Vec<usize> = among(losers(old, new));
    order_all(shared, &gaining, Order::Hold, &mut result);
    for table in redirects.iter_mut().flatten() {
        if let Err(error) = table.rewrite(new) {
            result.refused.push(error.to_string());
        }
    }
    order_all(shared, &losing, Order::Drain, &mut result);
    for (worker, state) in shared.workers.iter().enumerate() {
        let order = if worker < usize::from(active) { Order::Run } else { Order::Park };
        if state.mailbox.order().0 != order {
            state.mailbox.give(order);
        }
    }
    result
}

fn order_all(shared: &Shared, workers: &[usize], order: Order, result: &mut Handover) {
    let serials: Vec<u64> =
        workers.iter().map(|worker| shared.workers[*worker].mailbox.give(order)).collect();
    for (worker, serial) in workers.iter().zip(serials) {
        if !shared.workers[*worker].mailbox.wait(serial, PATIENCE) {
            result.late.push(*worker);
        }
    }
}
