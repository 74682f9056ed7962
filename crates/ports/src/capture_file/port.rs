//! A port on capture files.

use ebb_graph::{Batch, FRAME_LEN, HEADROOM, Pool};
use ebb_units::Time;

use ebb_capture::Captured;

use super::{CaptureError, CaptureReader, CaptureWriter, LINKTYPE_ETHERNET};
use crate::{Port, PortCounters};

/// A port that receives the packets of one capture and transmits into another; either may be
/// absent.
///
/// Packets longer than a frame of the region holds, and packets captured on another kind of link
/// than Ethernet, are left out and counted ([`CapturePort::oversized`], [`CapturePort::foreign`]).
/// The first error of the file being read ends receiving and is kept for [`CapturePort::error`].
#[derive(Debug)]
pub struct CapturePort {
    name: String,
    reader: Option<CaptureReader>,
    writer: Option<CaptureWriter>,
    /// Read from the file, not yet received.
    next: Option<Captured>,
    error: Option<CaptureError>,
    now: Time,
    oversized: u64,
    foreign: u64,
    first_foreign: Option<CaptureError>,
    counters: PortCounters,
}

impl CapturePort {
    /// A port over open captures.
    pub fn new(
        name: &str,
        reader: Option<CaptureReader>,
        writer: Option<CaptureWriter>,
    ) -> CapturePort {
        let mut port = CapturePort {
            name: name.to_owned(),
            reader,
            writer,
            next: None,
            error: None,
            now: Time::ZERO,
            oversized: 0,
            foreign: 0,
            first_foreign: None,
            counters: PortCounters::default(),
        };
        port.advance();
        port
    }

    /// When the next packet was captured; `None` after the last.
    pub fn next_time(&self) -> Option<Time> {
        self.next.as_ref().map(|packet| packet.time)
    }

    /// Sets the time that transmitted packets are stamped with.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Packets left out because no frame holds them.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Packets left out because they were captured on another kind of link.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// The first packet left out because of its link, with that link's name.
    pub fn first_foreign(&self) -> Option<&CaptureError> {
        self.first_foreign.as_ref()
    }

    /// Why receiving or transmitting ended early, if it did.
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// Closes the files and returns the error that ended receiving or transmitting early.
    ///
    /// # Errors
    /// As said, or when the last bytes can't be written.
    pub fn finish(self) -> Result<(), CaptureError> {
        let written = self.writer.map_or(Ok(()), CaptureWriter::finish);
        self.error.map_or(written, Err)
    }

    fn advance(&mut self) {
        self.next = None;
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                Some(Ok(packet)) if packet.link_type != LINKTYPE_ETHERNET => {
                    self.foreign += 1;
                    self.first_foreign.get_or_insert_with(|| reader.not_ethernet(packet.link_type));
                }
                Some(Ok(packet)) if packet.data.len() > FRAME_LEN - HEADROOM => {
                    self.oversized += 1;
                }
                Some(Ok(packet)) => {
                    self.next = Some(packet);
                    return;
                }
                Some(Err(error)) => {
                    self.error = Some(error);
                    self.reader = None;
                }
                None => self.reader = None,
            }
        }
    }
}

/// A capture waits for its reader: nothing in it is ever marked, or handed over.
impl Port for CapturePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        let mut count = 0;
        while count < max {
            let Some(captured) = &self.next else { break };
            let Some(frame) = pool.get() else { break };
            let mut packet = frame.fill(&captured.data);
            packet.rx_time = captured.time;
            batch.push(packet);
            count += 1;
            self.advance();
        }
        self.counters.received += count as u64;
        count
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        for packet in batch.drain(..) {
            if let Some(writer) = &mut self.writer {
                match writer.write(self.now, packet.data()) {
                    Ok(()) => self.counters.transmitted += 1,
                    Err(error) => {
                        self.error.get_or_insert(error);
                        self.counters.transmit_invalid += 1;
                    }
                }
            } else {
                self.counters.transmitted += 1;
            }
            pool.put(packet.into_frame());
        }
        count
    }

    fn queue_len(&self) -> u32 {
        u32::from(self.next.is_some())
    }

    fn prepare_wait(&mut self) -> bool {
        self.next.is_none()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn close(&mut self, _pool: &mut Pool) {
        self.reader = None;
        self.next = None;
    }
}
