//! The balancer's interfaces: opened when they are there, watched, closed and opened anew when they go and
//! come back. Forwarding goes on over the others meanwhile.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_cluster::{Attachment, LinkState, Step, There};
use ebb_host::clock::monotonic;
use ebb_host::ethtool;
use ebb_host::netlink::{self, Requests};
use ebb_ports::PacketSocket;
use ebb_ports::afxdp::{AfXdpError, Form, Interface, InterfaceOptions, TagWatch, Umem};
use ebb_units::Time;
use serde::{Deserialize, Serialize};

use super::plane::Link;
use super::topology::{Mac, Topology};
use super::workers::entry_worker;

/// Places in each ring at most.
const RING_LEN_MAX: u32 = 2048;
/// And at least: a batch.
const RING_LEN_MIN: u32 = 64;
/// Queues of one interface with the longest rings at most; with more queues each gets shorter ones.
const LONGEST_MAX: u32 = 8;
/// Between two looks at the interfaces where other balancers take over, and where there are none.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(50)];
/// Between two looks at how many queues they have.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// One of the balancer's links, as it shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its interface.
    pub interface: String,
    /// `up`, `no carrier`, `down`, `absent` or `refused`.
    pub state: String,
    /// Why it could not be opened.
    pub why: Option<String>,
    /// Receive queues, all of which are served.
    pub queues: u32,
}

impl LinkStatus {
    /// Whether packets can pass.
    pub fn is_up(&self) -> bool {
        self.state == LinkState::Up.word()
    }
}

impl fmt::Display for LinkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interface {} is {}", self.interface, self.state)?;
        if let Some(why) = &self.why {
            write!(f, ": {why}")?;
        }
        Ok(())
    }
}

/// What a thread that forwards is to do.
pub enum Order {
    /// Use this link.
    Attach(usize, Link),
    /// Close it, and say that it is closed.
    Detach(usize),
}

/// What it answers.
pub enum Closed {
    /// This link was to be closed, and is.
    Ordered(usize),
    /// It turned out to be gone.
    Lost(usize),
}

/// How the links are, for the thread that forwards.
pub struct Board {
    states: Vec<AtomicU8>,
    unfit: AtomicBool,
}

const STATES: [LinkState; 5] =
    [LinkState::Absent, LinkState::Down, LinkState::Refused, LinkState::NoCarrier, LinkState::Up];

impl Board {
    /// For so many links, none of which is there.
    pub fn new(links: usize) -> Board {
        let states = (0..links).map(|_| AtomicU8::new(0)).collect();
        Board { states, unfit: AtomicBool::new(true) }
    }

    /// How a link was when it was last looked at.
    pub fn state(&self, link: usize) -> LinkState {
        STATES[usize::from(self.states[link].load(Relaxed))]
    }

    fn set(&self, link: usize, state: LinkState) {
        let number = STATES.iter().position(|one| *one == state).expect("one of them");
        self.states[link].store(number as u8, Relaxed);
    }

    /// Whether not all links carry.
    pub fn is_unfit(&self) -> bool {
        self.unfit.load(Relaxed)
    }
}

struct Kept {
    name: String,
    /// The addresses whose frames are taken; all, on a segment.
    macs: Option<Vec<Mac>>,
    /// Frames that were laid out for its queues.
    frames: u32,
    attachment: Attachment,
    /// Workers that were told to close it and have not answered yet.
    closing: usize,
    interface: Option<Interface>,
    /// Where the XDP program does not see VLAN tags: tells when tagged frames come.
    tags: Option<TagWatch>,
    why: Option<String>,
    said: Option<(LinkState, Option<String>)>,
}

/// Opens and closes links. Interfaces are those of the thread's network namespace.
pub struct Links {
    kept: Vec<Kept>,
    umem: Arc<Umem>,
    requests: Requests,
    board: Arc<Board>,
    /// To each worker.
    orders: Vec<Sender<Order>>,
    several: bool,
    counted: Time,
}

/// Rings that a queue's frames are in: the one that it receives into, and the one that each worker receives from.
fn rings(workers: usize) -> u32 {
    1 + workers as u32
}

/// The longest rings for so many queues, each with so many of them, and frames.
fn ring_len((queues, rings): (u32, u32), frames: u32) -> Option<u32> {
    let fits = |len: &u32| u64::from(queues) * u64::from(len * rings) <= u64::from(frames);
    let halves = std::iter::successors(Some(RING_LEN_MAX), |len| Some(len / 2));
    halves.take_while(|len| *len >= RING_LEN_MIN).find(fits)
}

/// Frames for so many queues, each with so many rings.
fn frames_for((queues, rings): (u32, u32)) -> u32 {
    queues.min(LONGEST_MAX) * RING_LEN_MAX * rings
}

/// Receive queues of an interface, if it is there.
fn queues_of(name: &str) -> Option<u32> {
    let channels = ethtool::Interface::open(name).ok()?.channels();
    // Drivers that can't say have one.
    Some(channels.map_or(1, |channels| channels.receiving().max(1)))
}

/// Frames for each link of a balancer, outside 0, inside 0, outside 1, ...: what is not there may come with
/// a queue for each CPU.
pub fn frames(topology: &Topology, workers: usize) -> Vec<u32> {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let all = names(topology).map(|name| queues_of(name).unwrap_or(cpus));
    all.map(|queues| frames_for((queues, rings(workers)))).collect()
}

fn names(topology: &Topology) -> impl Iterator<Item = &String> {
    topology.sides.iter().flat_map(|side| [&side.outside, &side.inside])
}

impl Links {
    /// Opens what is there; what is missing or set down is waited for.
    ///
    /// # Errors
    /// When an interface is there and cannot be served.
    pub fn open(
        topology: &Topology,
        frames: &[u32],
        umem: &Arc<Umem>,
        board: &Arc<Board>,
        orders: Vec<Sender<Order>>,
    ) -> Result<Links> {
        let macs = topology.sides.iter().flat_map(|side| [Some(side.macs.clone()), None]);
        let kept = |((name, macs), frames): ((&String, _), &u32)| Kept {
            name: name.clone(),
            macs,
            frames: *frames,
            attachment: Attachment::default(),
            closing: 0,
            interface: None,
            tags: None,
            why: None,
            said: None,
        };
        let mut links = Links {
            kept: names(topology).zip(macs).zip(frames).map(kept).collect(),
            umem: umem.clone(),
            requests: Requests::open()?,
            board: board.clone(),
            orders,
            several: topology.balancers() > 1,
            counted: monotonic(),
        };
        let there = links.requests.links()?;
        for number in 0..links.kept.len() {
            links.look(number, &there, false)?;
        }
        links.publish();
        Ok(links)
    }

    /// Watches until `stop`; `closed` says which links are closed.
    pub fn watch(
        &mut self,
        closed: &Receiver<Closed>,
        stop: &AtomicBool,
        mut show: impl FnMut(Vec<LinkStatus>),
    ) {
        while !stop.load(Relaxed) {
            show(self.status());
            std::thread::sleep(LOOK_EVERY[usize::from(!self.several)]);
            for closed in closed.try_iter() {
                self.note_closed(closed);
            }
            let now = monotonic();
            let counts = now.since(self.counted) >= COUNT_EVERY;
            if counts {
                self.counted = now;
            }
            let there = match self.requests.links() {
                Ok(there) => there,
                // A socket that is out of step answers no more: another one does.
                Err(_) => {
                    if let Ok(requests) = Requests::open() {
                        self.requests = requests;
                    }
                    continue;
                }
            };
            for number in 0..self.kept.len() {
                if let Err(error) = self.look(number, &there, counts) {
                    let kept = &mut self.kept[number];
                    kept.why = Some(format!("{error:#}"));
                    kept.attachment.refused(now);
                }
            }
            self.publish();
        }
    }

    /// What is to be shown.
    fn status(&self) -> Vec<LinkStatus> {
        let one = |kept: &Kept| LinkStatus {
            interface: kept.name.clone(),
            state: kept.attachment.state().word().to_owned(),
            why: kept.why.clone(),
            queues: kept.interface.as_ref().map_or(0, Interface::queues),
        };
        self.kept.iter().map(one).collect()
    }

    fn look(&mut self, number: usize, there: &[netlink::Link], counts: bool) -> Result<()> {
        let kept = &mut self.kept[number];
        if kept.tags.as_ref().is_some_and(TagWatch::has_seen)
            && let Some(interface) = &mut kept.interface
        {
            leave_to_kernel(interface)?;
            kept.tags = None;
        }
        let seen = |link: &netlink::Link| There {
            index: link.index,
            set_up: link.admin_up,
            carries: link.up,
        };
        let named = there.iter().find(|link| link.name == kept.name).map(seen);
        let open = kept.attachment.open();
        let opened = there.iter().find(|link| Some(link.index) == open).map(seen);
        let changed = |interface: &Interface| interface.queues_changed().unwrap_or(false);
        let stale = counts && kept.interface.as_ref().is_some_and(changed);
        match kept.attachment.look(monotonic(), named, opened, stale) {
            _ if kept.closing > 0 => {}
            Some(Step::Close) => self.close(number),
            Some(Step::Open) => {
                let opened = open_link(kept, &self.umem, self.orders.len());
                let (interface, tags, links) = match opened {
                    Ok(open) => open,
                    // Gone or down between the look and the opening.
                    Err(error) if is_absent(&error) => return Ok(()),
                    Err(error) => return Err(error),
                };
                kept.attachment.opened(interface.index());
                (kept.interface, kept.tags, kept.why) = (Some(interface), tags, None);
                for (orders, link) in self.orders.iter().zip(links) {
                    _ = orders.send(Order::Attach(number, link));
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Has all workers close a link.
    fn close(&mut self, number: usize) {
        self.kept[number].closing = self.orders.len();
        self.orders.iter().for_each(|orders| _ = orders.send(Order::Detach(number)));
    }

    fn note_closed(&mut self, closed: Closed) {
        let kept = match closed {
            // What one has lost the others close.
            Closed::Lost(number) if self.kept[number].closing == 0 => return self.close(number),
            Closed::Lost(_) => return,
            Closed::Ordered(number) => &mut self.kept[number],
        };
        kept.closing -= 1;
        if kept.closing == 0 {
            kept.attachment.closed();
            kept.interface = None;
        }
    }

    /// Shows how the links are, and says what has changed.
    fn publish(&mut self) {
        let mut unfit = false;
        for (number, kept) in self.kept.iter_mut().enumerate() {
            let state = kept.attachment.state();
            let open = kept.attachment.open().is_some();
            self.board.set(number, state);
            unfit |= state != LinkState::Up || !open;
            let word = (state, kept.why.clone());
            let first = kept.said.is_none();
            if kept.said.as_ref() == Some(&word) || (state == LinkState::Up && !open) {
                continue;
            }
            let interface = kept.name.as_str();
            match (&word, first) {
                ((LinkState::Up, _), true) => {}
                ((LinkState::Up, _), false) => {
                    tracing::info!(
                        interface,
                        code = "EBB-C001",
                        "the link is up: the balancer uses it again"
                    );
                }
                ((state, Some(why)), _) => {
                    tracing::warn!(
                        interface,
                        code = "EBB-C002",
                        "the link is {}: {why}; trying again",
                        state.word()
                    );
                }
                ((state, None), _) => {
                    let state = state.word();
                    tracing::warn!(
                        interface,
                        code = "EBB-C003",
                        "the link is {state}: waiting for it; the other links keep working"
                    );
                }
            }
            kept.said = Some(word);
        }
        self.board.unfit.store(unfit, Relaxed);
    }
}

/// Whether that may pass by itself: nobody has to mend anything.
fn is_absent(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<AfXdpError>();
    matches!(error, Some(AfXdpError::NoInterface { .. } | AfXdpError::Down { .. }))
}

/// Frames of a VLAN are nobody's here: the cluster has no interface in one. The program leaves those that it
/// sees to the kernel, which shows them to nobody ([`PacketSocket`]). Where it cannot see them, all frames
/// take that way as soon as a tagged one has come.
fn leave_to_kernel(interface: &mut Interface) -> Result<()> {
    tracing::warn!(
        interface = interface.name(),
        code = "EBB-C004",
        "tagged frames come, whose VLAN tags the XDP program cannot read on this kernel: frames take the slower \
        way through the kernel until the interface is opened anew"
    );
    Ok(interface.set_macs(&[])?)
}

/// An open interface, what tells of VLAN tags on it, and the link of each worker.
type OpenLink = (Interface, Option<TagWatch>, Vec<Link>);

fn open_link(kept: &Kept, umem: &Arc<Umem>, workers: usize) -> Result<OpenLink> {
    let name = &kept.name;
    let queues = queues_of(name).unwrap_or(1);
    let Some(ring_len) = ring_len((queues, rings(workers)), kept.frames) else {
        let most = kept.frames / (RING_LEN_MIN * rings(workers));
        bail!(
            "interface {name} has {queues} receive queues, but the balancer has memory for {most} \
            at most: run `ethtool -L {name} combined {most}`, or restart the balancer if the \
            interface had fewer queues before"
        );
    };
    let form = InterfaceOptions::new(name, workers as u32, Form::Steer);
    let options = InterfaceOptions { ring_len, queues: Some(queues), ..form };
    let mut interface = Interface::open(umem, &options)?;
    match &kept.macs {
        Some(macs) => interface.set_macs(macs)?,
        None => interface.set_every_mac()?,
    }
    interface.set_vlans(&[])?;
    let tags = match interface.sees_tags() {
        true => None,
        false => Some(TagWatch::open(interface.index()).context("cannot watch for VLAN tags")?),
    };
    if let Some(mut table) = interface.steer_table() {
        table.rewrite(&std::array::from_fn(|entry| entry_worker(entry, workers) as u8))?;
    }
    let rest =
        PacketSocket::open(name).with_context(|| format!("{name}: cannot open a raw socket"))?;
    ensure!(
        interface.unserved_queues() == 0,
        "the number of queues of interface {name} changed meanwhile"
    );
    let mut rest = Some(rest);
    let link = |port| Link { port: Box::new(port), rest: rest.take() };
    let links = interface.take_ports().into_iter().map(link).collect();
    Ok((interface, tags, links))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_queues_have_frames_and_more_queues_shorter_rings() {
        for rings in [1, 2, 8].map(rings) {
            let len = |queues| ring_len((queues, rings), frames_for((queues, rings)));
            assert_eq!(
                [1, 4, 8, 16, 64, 256].map(len),
                [2048, 2048, 2048, 1024, 256, 64].map(Some)
            );
            assert_eq!(len(257), None, "that is refused");
            for queues in 1..=256 {
                let taken = queues * rings * len(queues).expect("rings");
                assert!(taken <= frames_for((queues, rings)));
            }
        }
        // Laid out for two queues, found with 32.
        assert_eq!(ring_len((32, rings(1)), frames_for((2, rings(1)))), Some(128));
    }
}
