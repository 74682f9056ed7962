//! One port's packets on several CPUs, on the kernel path in a driver (`bpf/spread.h`): which CPU has each of 128
//! entries, and how many packets are on their way to each.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use aya::Ebpf;
use aya::maps::xdp::CpuMap;
use aya::maps::{Array, Map, MapData};
use tracing::info;

use super::maps::Flights;
use super::program::{self, Program, broken};
use super::{AfXdpError, Interface, PacketPath};

/// Most CPUs of one port, that which receives among them; as in `bpf/state.h`.
pub const LANES: usize = 16;
/// Entries of each receive queue.
pub(super) const ENTRIES: u32 = 128;
/// The program that forwards what another CPU has received.
const ON_LANE: &str = "forward_on_lane";
/// Packets that may be on their way from one queue to one CPU: as many as the rings of most cards hold by default.
const ROOM: u32 = 512;
/// Most places of the kernel's queue to a CPU.
const PLACES_MAX: u32 = 16_384;

/// The nice value of the kernel's threads.
const FIRST: libc::c_int = -20;

/// `struct spread` of `bpf/state.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    lane: [u8; ENTRIES as usize],
    cpu: [u32; LANES],
    room: u64,
    on: u64,
}

// SAFETY: only integers, without padding.
unsafe impl aya::Pod for Raw {}

/// The lanes of one port's program.
pub(super) struct Spread {
    head: Array<MapData, Raw>,
    cpus: CpuMap<MapData>,
    counts: Flights,
    /// Programs that are loaded later name its descriptor.
    _counts: MapData,
    queues: u32,
    /// The CPUs of lanes 1 and up.
    opened: Vec<u32>,
    value: Raw,
}

/// Packets of one port that another CPU than the one that received them is to forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Sent to the other CPU.
    pub given: u64,
    /// Arrived there.
    pub done: u64,
    /// Dropped, for there were too many on their way.
    pub dropped: u64,
}

impl LaneCounters {
    /// Packets on their way.
    pub fn waiting(&self) -> u64 {
        self.given.saturating_sub(self.done)
    }
}

impl Spread {
    /// Of an object for so many receive queues.
    pub(super) fn of(ebpf: &mut Ebpf, queues: u32) -> Result<Spread, AfXdpError> {
        let Some(Map::Array(counts)) = ebpf.take_map("lanes") else {
            panic!("the program has no array lanes")
        };
        let mapped = Flights::map(counts.fd().as_fd(), queues * LANES as u32);
        let mapped =
            mapped.map_err(|error| AfXdpError::system("map the counts of lanes", error))?;
        Ok(Spread {
            head: program::map(ebpf, ".data.spread"),
            cpus: program::map(ebpf, "cpus"),
            counts: mapped,
            _counts: counts,
            queues,
            opened: Vec::new(),
            value: Raw { lane: [0; 128], cpu: [0; LANES], room: 0, on: 0 },
        })
    }

    /// By lane.
    pub(super) fn counters(&self) -> Vec<LaneCounters> {
        (0..=self.opened.len()).map(|lane| self.lane(lane)).collect()
    }

    fn lane(&self, lane: usize) -> LaneCounters {
        let mut sum = LaneCounters::default();
        for queue in 0..self.queues as usize {
            let (given, done, lost) = self.counts.read((queue * LANES + lane) as u32);
            sum.given += given;
            sum.done += done;
            sum.dropped += lost;
        }
        sum
    }
}

impl Program {
    /// See [`Interface::open_lanes`].
    fn open_lanes(&mut self, cpus: &[u32]) -> io::Result<()> {
        if cpus.len() >= LANES || !self.spread.opened.is_empty() {
            let message = format!("lanes to {} CPUs; the most is {}, once", cpus.len(), LANES - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let program = program::program(&mut self.ebpf, ON_LANE);
        if program.fd().is_err() {
            program.load().map_err(broken)?;
        }
        let program = program.fd().map_err(broken)?;
        // The kernel's queue frees its places some at a time: it seems full before it is.
        let places = (2 * ROOM * self.spread.queues).next_power_of_two().min(PLACES_MAX);
        for (lane, cpu) in (1..).zip(cpus) {
            self.spread.cpus.set(*cpu, places, Some(program), 0).map_err(broken)?;
            self.spread.value.cpu[lane] = *cpu;
        }
        self.spread.value.room = u64::from(places / 2 / self.spread.queues);
        self.spread.opened = cpus.to_vec();
        if let Err(error) = self.hurry(cpus) {
            info!(%error, code = "EBB-P004", "the kernel's threads for packets wait behind other programs");
        }
        Ok(())
    }

    /// Has the kernel's threads run before other programs, as what they take over from did: softirq.
    fn hurry(&self, cpus: &[u32]) -> io::Result<()> {
        let map = self.maps.iter().find(|(name, _)| name == "cpus").expect("the object's map").1;
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{map}"))?;
        let id = about.lines().find_map(|line| line.strip_prefix("map_id:")).unwrap_or("").trim();
        let mut wanted: Vec<String> =
            cpus.iter().map(|cpu| format!("cpumap/{cpu}/map:{id}")).collect();
        for process in fs::read_dir("/proc")?.flatten() {
            let Some(number) = process.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let Ok(name) = fs::read_to_string(process.path().join("comm")) else { continue };
            let Some(at) = wanted.iter().position(|wanted| *wanted == name.trim_end()) else {
                continue;
            };
            // SAFETY: no memory is involved.
            if unsafe { libc::setpriority(libc::PRIO_PROCESS, number, FIRST) } != 0 {
                return Err(io::Error::last_os_error());
            }
            wanted.swap_remove(at);
        }
        match wanted.first() {
            Some(thread) => Err(io::Error::new(io::ErrorKind::NotFound, thread.clone())),
            None => Ok(()),
        }
    }

    /// See [`Interface::set_lanes`].
    fn set_lanes(&mut self, table: &[u8; 128]) -> io::Result<()> {
        let lanes = self.spread.opened.len();
        if table.iter().any(|lane| usize::from(*lane) > lanes) {
            let message = format!("a lane beyond the {lanes} that are open");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.spread.value.lane = *table;
        // Once on it stays on: entries that are to come back have to be seen.
        self.spread.value.on |= u64::from(lanes > 0);
        let value = self.spread.value;
        self.spread.head.set(0, value, 0).map_err(broken)
    }
}

impl Interface {
    /// Whether packets can be sent to other CPUs: on the kernel path in a driver.
    pub fn can_have_lanes(&self) -> bool {
        let program = self.program();
        program.path == PacketPath::Kernel && program.in_driver
    }

    /// Gets ready to have packets forwarded by these CPUs too, once: lane i + 1 leads to `cpus[i]`, lane 0 is the CPU that
    /// receives.
    ///
    /// # Errors
    /// When there are [`LANES`] or more, or the kernel refuses.
    pub fn open_lanes(&mut self, cpus: &[u32]) -> io::Result<()> {
        self.program().open_lanes(cpus)
    }

    /// Has the packets of each entry forwarded by a lane. An entry changes its lane as soon as its packets cannot
    /// overtake those before; all are on lane 0 at first.
    ///
    /// # Errors
    /// When a lane is not open, or the kernel refuses.
    pub fn set_lanes(&mut self, table: &[u8; 128]) -> io::Result<()> {
        self.program().set_lanes(table)
    }

    /// What was sent by each lane, that of the CPU that receives first.
    pub fn lanes(&self) -> Vec<LaneCounters> {
        self.program().spread.counters()
    }
}
