//! Arrivals packet by packet, drawn in blocks so that the engine's loop finds them ready.

use ebb_des::{Rng, Seed};
use rand::RngCore;
use rand::distr::Distribution;
use rand_distr::Exp1;

use super::Load;
use crate::machine::{PER_SECOND, Picos};
use crate::scenario::Arrivals;

/// Packets drawn at once.
pub(crate) const BLOCK: usize = 4096;

/// Packets in the order of their arrival; `at` ends with an instant that is never reached.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) at: Vec<Picos>,
    pub(crate) flow: Vec<u32>,
    pub(crate) bytes: Vec<u16>,
    /// The first that has not been taken.
    pub(crate) next: usize,
}

/// Draws the arrivals of a run.
#[derive(Debug)]
pub(crate) struct Source {
    process: Process,
    flows: Rng,
    sizes: Rng,
    ended: bool,
}

#[derive(Debug)]
enum Process {
    /// One at a time, at constant or exponential distances.
    Single {
        random: Option<Box<Rng>>,
        piece: usize,
        start: Picos,
        offset: f64,
    },
    Bursts {
        links: Vec<Link>,
    },
    Capture {
        next: usize,
        base: Picos,
    },
}

/// One source of bursts.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: f64,
    left: u32,
    began: f64,
}

impl Source {
    pub(crate) fn new(load: &Load, seed: Seed) -> Source {
        let mut arrivals = seed.stream("arrivals");
        let process = if load.capture.is_some() {
            Process::Capture { next: 0, base: 0 }
        } else if load.arrivals == Arrivals::Onoff {
            let first = load.rates.pieces()[0].pps.max(1e-3);
            let period = period(load, first);
            let phase = |random: &mut Rng| random.next_u32() as f64 / 4_294_967_296.0 * period;
            let link = |_| {
                let began = phase(&mut arrivals);
                Link { next: began, left: load.burst.0, began }
            };
            Process::Bursts { links: (0..load.links).map(link).collect() }
        } else {
            let random = (load.arrivals == Arrivals::Poisson).then(|| Box::new(arrivals));
            Process::Single { random, piece: 0, start: 0, offset: 0.0 }
        };
        let (flows, sizes) = (seed.stream("flows of packets"), seed.stream("sizes"));
        Source { process, flows, sizes, ended: false }
    }

    /// Draws the next packets; after the last, the block holds only the end mark.
    pub(crate) fn fill(&mut self, load: &Load, block: &mut Block) {
        block.at.clear();
        block.flow.clear();
        block.bytes.clear();
        block.next = 0;
        if !self.ended {
            match &mut self.process {
                Process::Single { random: None, piece, start, offset } => {
                    single(load, block, piece, start, offset, || 1.0);
                }
                Process::Single { random: Some(random), piece, start, offset } => {
                    single(load, block, piece, start, offset, || Exp1.sample(&mut **random));
                }
                Process::Bursts { links } => bursts(load, block, links),
                Process::Capture { next, base } => captured(load, block, next, base),
            }
            self.ended = block.at.len() < BLOCK;
        }
        if load.capture.is_none() {
            for _ in 0..block.at.len() {
                block.flow.push(load.flows.pick(&mut self.flows));
            }
            match load.sizes.only() {
                Some(len) => block.bytes.resize(block.at.len(), len),
                None => {
                    for _ in 0..block.at.len() {
                        block.bytes.push(load.sizes.pick(self.sizes.next_u32()));
                    }
                }
            }
        }
        block.at.push(Picos::MAX);
    }
}

/// Draws gaps in units of the mean gap and stretches them by the rate in force.
fn single(
    load: &Load,
    block: &mut Block,
    piece: &mut usize,
    start: &mut Picos,
    offset: &mut f64,
    mut gap: impl FnMut() -> f64,
) {
    let pieces = load.rates.pieces();
    while block.at.len() < BLOCK && *piece < pieces.len() {
        let mut units: f64 = gap();
        loop {
            let Some(now) = pieces.get(*piece) else { return };
            let len = now.until_ps.saturating_sub(*start) as f64;
            let at = *offset + units * (PER_SECOND / now.pps);
            if at < len {
                *offset = at;
                block.at.push(*start + at as Picos);
                break;
            }
            units -= (len - *offset) * now.pps / PER_SECOND;
            *start = now.until_ps;
            *offset = 0.0;
            *piece += 1;
        }
    }
}

/// Time from burst to burst of one link.
fn period(load: &Load, pps: f64) -> f64 {
    f64::from(load.burst.0) * f64::from(load.links) / pps * PER_SECOND
}

fn bursts(load: &Load, block: &mut Block, links: &mut [Link]) {
    let (burst, packet_ps) = load.burst;
    let pieces = load.rates.pieces();
    let end = load.end_ps as f64;
    while block.at.len() < BLOCK {
        let first = links.iter_mut().min_by(|one, other| one.next.total_cmp(&other.next));
        let link = first.expect("at least one link");
        if link.next >= end {
            return;
        }
        block.at.push(link.next as Picos);
        link.left -= 1;
        link.next += packet_ps;
        if link.left == 0 {
            let mut index = load.rates.at(link.began as Picos);
            let mut next = link.began + period(load, pieces[index].pps);
            while pieces[index].pps == 0.0 || next.is_infinite() {
                let until = pieces[index].until_ps as f64;
                index += 1;
                let Some(piece) = pieces.get(index) else {
                    next = f64::MAX;
                    break;
                };
                next = if piece.pps > 0.0 { until } else { f64::INFINITY };
            }
            link.next = link.next.max(next);
            link.began = link.next;
            link.left = burst;
        }
    }
}

fn captured(load: &Load, block: &mut Block, next: &mut usize, base: &mut Picos) {
    let capture = load.capture.as_ref().expect("a capture");
    while block.at.len() < BLOCK {
        let Some(packet) = capture.packets.get(*next) else {
            if !capture.repeat {
                return;
            }
            *next = 0;
            *base += capture.period_ps;
            continue;
        };
        if *base + packet.at_ps >= load.end_ps {
            return;
        }
        block.at.push(*base + packet.at_ps);
        block.flow.push(packet.flow);
        block.bytes.push(packet.bytes);
        *next += 1;
    }
}
