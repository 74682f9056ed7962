//! Moves redirect-table entries between workers without reordering a flow.
//!
//! A flow is reordered when its new worker sends a later packet before its old worker has sent the
//! earlier ones. So, in this order: the workers that gain entries stop receiving; all tables are
//! written, then one wait makes sure that no packet is on its way to an old owner any more (see
//! [`RedirectTable::write`]); the workers that lose entries receive and send all that waits; then
//! the gainers go on. Gainers lose nothing meanwhile, their packets wait in their rings.
//!
//! Packets that a node holds for an unresolved neighbour go with their flows, and so do the timers that
//! end their wait: a loser gives them up with its answer and the gainer has them before it receives.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_control::redirect::{Change, ENTRIES, Table, Workers, changes, gainers, losers};
use ebb_ports::{Fence, RedirectTable};

use crate::mailbox::{Message, Owners};
use crate::shared::{Order, PORTS_MAX, Shared, WorkerShared};

/// How long a worker may take to answer when all are to stop for another process. Its rings fill
/// meanwhile.
const HOLD_PATIENCE: Duration = Duration::from_millis(200);

/// Longest wait for one worker's answer. A worker answers within a batch; the rest is for a machine
/// that does not schedule it.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a worker may take to hand over what its nodes keep: millions of flows, while it gives way to everybody.
const RETIREMENT: Duration = Duration::from_secs(5);

/// What a handover did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Entries that changed their worker.
    pub entries_moved: usize,
    /// Held packets that went with them.
    pub packets_moved: usize,
    /// Ports whose table could not be written, and waits that were refused, with the reason.
    pub refused: Vec<String>,
    /// Workers that did not answer in time; order is then not guaranteed for this change.
    pub late: Vec<usize>,
}

/// The redirect tables of all ports.
pub struct Redirects {
    ports: Vec<Option<PortTable>>,
    /// What every port holds that has not refused.
    table: Table,
}

/// The ports' redirect tables by port number, shared between governor and control thread.
pub type RedirectTables = Arc<Mutex<Redirects>>;

/// One port's table and what it holds: a port that refused a change has fallen behind.
struct PortTable {
    redirect: Box<dyn RedirectTable>,
    present: Table,
}

impl Redirects {
    /// The tables of these ports, all entries on worker 0 at first; `None` where a port has none.
    pub fn new(tables: impl IntoIterator<Item = Option<Box<dyn RedirectTable>>>) -> Redirects {
        let table = [0; ENTRIES];
        let place = |redirect| PortTable { redirect, present: table };
        let mut ports: Vec<_> = tables.into_iter().map(|port| port.map(place)).collect();
        ports.resize_with(PORTS_MAX, || None);
        Redirects { ports, table }
    }

    /// The table in force.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What each port holds, by number; none where it has no table.
    pub fn present(&self) -> Vec<Option<Table>> {
        self.ports.iter().map(|port| port.as_ref().map(|port| port.present)).collect()
    }

    /// Who receives what, as each port has it.
    fn owners(&self) -> Owners {
        let held = |port: &PortTable| (port.present, port.redirect.form() != "rss");
        Owners::new(self.ports.iter().map(|port| port.as_ref().map(held)).collect())
    }

    /// Takes for granted that the ports hold these tables, and all others `table`: another process
    /// has written them.
    pub fn resume(&mut self, table: &Table, present: &[Option<Table>]) {
        self.table = *table;
        for (slot, port) in self.ports.iter_mut().enumerate() {
            let held = present.get(slot).copied().flatten();
            if let Some(port) = port {
                port.present = held.unwrap_or(*table);
            }
        }
    }

    /// Takes a new port's table over, with the table in force written to it.
    ///
    /// # Errors
    /// When the port refuses; it then has no table here.
    pub fn attach(
        &mut self,
        slot: usize,
        redirect: Option<Box<dyn RedirectTable>>,
    ) -> io::Result<()> {
        self.ports[slot] = None;
        if let Some(mut redirect) = redirect {
            // Nobody receives from this port yet: nothing to wait for.
            let _unneeded: Fence = redirect.write(&self.table)?;
            self.ports[slot] = Some(PortTable { redirect, present: self.table });
        }
        Ok(())
    }

    /// Forgets a port's table.
    pub fn detach(&mut self, slot: usize) {
        self.ports[slot] = None;
    }

    /// Writes all tables of a change, then waits once.
    fn write(&mut self, change: &Change, refused: &mut Vec<String>) {
        let mut fence = Fence::PASSED;
        for slot in &change.ports {
            let Some(port) = &mut self.ports[*slot] else { continue };
            match port.redirect.write(&change.new) {
                Ok(more) => {
                    fence = fence.and(more);
                    port.present = change.new;
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        if let Err(error) = fence.wait() {
            refused.push(format!(
                "cannot tell whether the old redirect table is still in use: {error}"
            ));
        }
    }
}

/// Changes every port's table so that workers below `active` share the packets; they run
/// afterwards, the others are parked.
///
/// A port that refuses keeps its old table, and workers it still feeds stay awake for it: a parked
/// worker forwards what reaches it.
pub fn hand_over(shared: &Shared, redirects: &mut Redirects, active: u16) -> Handover {
    let mut result = Handover::default();
    let workers = shared.workers.len();
    let among = |set: Workers| -> Vec<usize> {
        set.iter().map(usize::from).filter(|worker| *worker < workers).collect()
    };
    let changes = changes(&redirects.table, &redirects.present(), active);
    redirects.table = changes[0].new;
    result.entries_moved =
        changes[0].old.iter().zip(&changes[0].new).filter(|(old, new)| old != new).count();
    let mut given = vec![false; workers];
    for change in changes {
        order_all(shared, &among(gainers(&change.old, &change.new)), Order::Hold, &mut result);
        redirects.write(&change, &mut result.refused);
        let losing = among(losers(&change.old, &change.new));
        let owners = Arc::new(redirects.owners());
        for worker in &losing {
            let owners = Some(owners.clone());
            shared.workers[*worker].mailbox.send(Message { owners, ..Message::default() });
        }
        order_all(shared, &losing, Order::Drain, &mut result);
        result.packets_moved += pass_on(shared, &losing, &mut given);
    }
    for (worker, state) in shared.workers.iter().enumerate() {
        let order = if worker < usize::from(active) { Order::Run } else { Order::Park };
        if state.mailbox.order().0 != order || given[worker] {
            state.mailbox.give(order);
        }
    }
    result
}

/// Lays what workers gave up before those who are to have it, who take it with their next order.
fn pass_on(shared: &Shared, from: &[usize], given: &mut [bool]) -> usize {
    let mut count = 0;
    for worker in from {
        for (to, state) in shared.workers[*worker].mailbox.transfers() {
            count += state.packets();
            given[to] = true;
            shared.workers[to].mailbox.send(Message { state, ..Message::default() });
        }
    }
    count
}

/// Has every worker receive and send all that waits now, and go on as before. To be called with the redirect
/// tables locked; returns the workers that did not answer in time.
pub fn drain_all(shared: &Shared) -> Vec<usize> {
    let orders: Vec<Order> = shared.workers.iter().map(|worker| worker.mailbox.order().0).collect();
    let all: Vec<usize> = (0..orders.len()).collect();
    let mut result = Handover::default();
    order_all(shared, &all, Order::Drain, &mut result);
    for (worker, order) in shared.workers.iter().zip(orders) {
        worker.mailbox.give(order);
    }
    result.late
}

/// Workers that receive nothing, so that another process can.
pub struct Held {
    orders: Vec<Order>,
}

impl Held {
    /// Stops every worker: what it has received is sent, handed on or held back when this returns,
    /// what comes from now on waits in the rings. To be called with the redirect tables locked.
    ///
    /// # Errors
    /// The workers that did not answer in time; all go on then.
    pub fn all(shared: &Shared) -> Result<Held, Vec<usize>> {
        let orders = shared.workers.iter().map(|worker| worker.mailbox.order().0).collect();
        let held = Held { orders };
        let serials: Vec<u64> =
            shared.workers.iter().map(|worker| worker.mailbox.give(Order::Hold)).collect();
        let waited = shared.workers.iter().zip(serials).enumerate();
        let late: Vec<usize> = waited
            .filter(|(_, (worker, serial))| !worker.mailbox.wait(*serial, HOLD_PATIENCE))
            .map(|(index, _)| index)
            .collect();
        if late.is_empty() {
            return Ok(held);
        }
        held.release(shared);
        Err(late)
    }

    /// Has the workers go on as before.
    pub fn release(self, shared: &Shared) {
        for (worker, order) in shared.workers.iter().zip(self.orders) {
            worker.mailbox.give(order);
        }
    }
}

/// Has workers that hold hand over what their nodes keep for others: they will never receive again. Returns the workers that
/// did not answer in time.
pub fn retire_all(shared: &Shared) -> Vec<usize> {
    let orders = shared.workers.iter().map(|worker| worker.mailbox.give(Order::Retire));
    let serials: Vec<u64> = orders.collect();
    let waited = shared.workers.iter().zip(serials).enumerate();
    let late = |(_, (worker, serial)): &(usize, (&WorkerShared, u64))| {
        !worker.mailbox.wait(*serial, RETIREMENT)
    };
    waited.filter(late).map(|(index, _)| index).collect()
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

#[cfg(test)]
mod tests;
