//! Flows that the kernel path forwards, counted by its programs (`bpf/account.h`) in two tables that all interfaces of a
//! process share. While one is read, and emptied, programs count in the other.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::Ebpf;
use aya::maps::Map;

use super::maps::{Create, Words, create, mapped};
use crate::grace;

const BPF_MAP_LOOKUP_AND_DELETE_BATCH: libc::c_int = 25;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;

/// Names of the tables in the object, of what they share, and of what calls the reader.
const TABLES: [&str; 2] = ["flows_even", "flows_odd"];
const ACCOUNTS: &str = ".data.accounts";
const CALL: &str = "flows_call";

/// Words of `struct accounts`.
const SIDE: usize = 0;
const BEGUN: usize = 1;
const CALLED_AT: usize = 3;
const UNACCOUNTED: usize = 4;
const WORDS: usize = 6;

/// Flows that one system call takes out.
const BATCH: usize = 2048;

/// `struct flow_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawKey {
    source: [u8; 16],
    destination: [u8; 16],
    ports: [u8; 4],
    protocol: u32,
    input: u64,
}

/// `struct flow`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawFlow {
    packets: u64,
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
    flags: u64,
    output: u32,
    tos: u32,
}

/// Packets of a flow that the kernel path forwarded since it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFlow {
    /// Source; of IPv4 as an IPv4-mapped address.
    pub source: Ipv6Addr,
    /// Destination.
    pub destination: Ipv6Addr,
    /// Source and destination port; of ICMP 0, and type and code as one number.
    pub ports: (u16, u16),
    /// Protocol, behind a fragment header of IPv6.
    pub protocol: u8,
    /// Index of the interface where they came in, a VLAN's or a port's.
    pub input: u32,
    /// Index of the one by which the first of them left.
    pub output: u32,
    /// Packets, those of super-frames singly.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// First and last of them in nanoseconds of the monotonic clock, by the kernel's tick.
    pub seen_ns: (u64, u64),
    /// All TCP flags.
    pub tcp_flags: u8,
    /// Type of service or traffic class of the first.
    pub tos: u8,
}

impl KernelFlow {
    fn new(key: &RawKey, flow: &RawFlow) -> KernelFlow {
        let [a, b, c, d] = key.ports;
        KernelFlow {
            source: key.source.into(),
            destination: key.destination.into(),
            ports: (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            protocol: key.protocol as u8,
            input: key.input as u32,
            output: flow.output,
            packets: flow.packets,
            bytes: flow.bytes,
            seen_ns: (flow.first_ns, flow.last_ns),
            tcp_flags: flow.flags as u8,
            tos: flow.tos as u8,
        }
    }
}

/// The tables.
pub struct KernelFlows {
    tables: [OwnedFd; 2],
    accounts: OwnedFd,
    words: Words,
    call: Call,
    /// What was said of packets without room, and where flows are read into; whoever takes has it.
    taking: Mutex<Taking>,
}

struct Taking {
    told: [u64; 2],
    keys: Vec<RawKey>,
    flows: Vec<RawFlow>,
}

impl KernelFlows {
    /// With room for so many flows in each table.
    ///
    /// # Errors
    /// When the kernel refuses, for example for want of memory.
    pub fn create(room: u32) -> io::Result<KernelFlows> {
        let table = || {
            create(&Create {
                kind: BPF_MAP_TYPE_HASH,
                key_bytes: size_of::<RawKey>() as u32,
                value_bytes: size_of::<RawFlow>() as u32,
                entries: room.max(2),
                flags: 0,
            })
        };
        let (accounts, words) = Words::create(WORDS)?;
        words.set(CALLED_AT, u64::from(room / 2).max(1));
        let taking = Taking {
            told: [0; 2],
            keys: vec![RawKey::default(); BATCH],
            flows: vec![RawFlow::default(); BATCH],
        };
        let tables = [table()?, table()?];
        Ok(KernelFlows { tables, accounts, words, call: Call::create()?, taking: taking.into() })
    }

    /// Readable when a table is half full: then [`KernelFlows::take`] should not be put off.
    pub fn call(&self) -> RawFd {
        self.call.fd.as_raw_fd()
    }

    /// Whether something was counted since the last [`KernelFlows::take`].
    pub fn has_some(&self) -> bool {
        let side = self.words.get(SIDE) as usize & 1;
        let unaccounted = self.unaccounted();
        self.words.get(BEGUN + side) > 0 || self.taking.lock().expect("flows").told != unaccounted
    }

    /// Whether the table that is counted in is half full, or more.
    pub fn is_half_full(&self) -> bool {
        let side = self.words.get(SIDE) as usize & 1;
        self.words.get(BEGUN + side) >= self.words.get(CALLED_AT)
    }

    fn unaccounted(&self) -> [u64; 2] {
        [0, 1].map(|at| self.words.get(UNACCOUNTED + at))
    }

    /// Takes all flows out that were counted until now, each once, and hands them to `each`; how many packets and bytes
    /// found no room meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses: what is left is taken the time after next, or said to have had no room.
    pub fn take(&self, mut each: impl FnMut(&KernelFlow)) -> io::Result<[u64; 2]> {
        let mut taking = self.taking.lock().expect("flows");
        self.call.drain();
        let side = self.words.get(SIDE) as usize & 1;
        self.words.set(SIDE, side as u64 ^ 1);
        // Behind it nobody adds to what is read. What could not be waited for stays until the next time, when it is long past.
        grace::wait_at_leisure()?;
        self.words.set(BEGUN + side, 0);
        let Taking { told, keys, flows } = &mut *taking;
        let taken = empty(self.tables[side].as_fd(), keys, flows, &mut each);
        let unaccounted = self.unaccounted();
        let lost = [0, 1].map(|at| unaccounted[at] - told[at]);
        *told = unaccounted;
        taken.map(|()| lost)
    }

    /// Puts the tables in the place of those that `aya` has made of the object, as `announced` does with its own.
    pub(super) fn share(&self, ebpf: &Ebpf) -> io::Result<()> {
        let [even, odd] = &self.tables;
        for (name, own) in
            [(TABLES[0], even), (TABLES[1], odd), (ACCOUNTS, &self.accounts), (CALL, &self.call.fd)]
        {
            let made = match ebpf.map(name) {
                Some(Map::HashMap(made) | Map::Array(made) | Map::RingBuf(made)) => made,
                _ => panic!("the object that counts has no map {name}"),
            };
            // SAFETY: both are open; the number goes on being the map's that `aya` closes.
            let result = unsafe {
                libc::dup3(own.as_raw_fd(), made.fd().as_fd().as_raw_fd(), libc::O_CLOEXEC)
            };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for KernelFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFlows").finish_non_exhaustive()
    }
}

/// The member `batch` of `union bpf_attr`.
#[repr(C)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Takes everything out of a table that nobody writes to.
fn empty(
    table: BorrowedFd<'_>,
    keys: &mut [RawKey],
    flows: &mut [RawFlow],
    each: &mut impl FnMut(&KernelFlow),
) -> io::Result<()> {
    let (mut place, mut next) = (0_u32, 0_u32);
    let mut begun = false;
    loop {
        let mut batch = Batch {
            in_batch: if begun { &raw const place as u64 } else { 0 },
            out_batch: &raw mut next as u64,
            keys: keys.as_mut_ptr() as u64,
            values: flows.as_mut_ptr() as u64,
            count: keys.len().min(flows.len()) as u32,
            map_fd: table.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        let len = size_of::<Batch>();
        let pointer: *mut Batch = &mut batch;
        // SAFETY: `pointer` leads to a `bpf_attr` prefix of length `len`, which the kernel writes to; its own pointers lead
        // to memory for as many keys and values as it says, of the lengths that the table was made with, and to the
        // four bytes of a place in a hash table.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_AND_DELETE_BATCH, pointer, len) };
        let error = (result < 0).then(io::Error::last_os_error);
        let ended = error.as_ref().is_some_and(|error| error.raw_os_error() == Some(libc::ENOENT));
        if error.is_none() || ended {
            let count = batch.count as usize;
            for (key, flow) in keys.iter().zip(&*flows).take(count) {
                each(&KernelFlow::new(key, flow));
            }
        }
        match error {
            None => (place, begun) = (next, true),
            Some(_) if ended => return Ok(()),
            Some(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(error) => return Err(error),
        }
    }
}

/// A ring buffer of which only the bell is of use: what stands in it is passed over.
struct Call {
    fd: OwnedFd,
    consumed: NonNull<AtomicU64>,
    produced: NonNull<AtomicU64>,
}

// SAFETY: atomics in mappings that live as long as the value.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

/// The pages of its positions: the reader's, which it writes, and the kernel's behind it.
const RING_BYTES: u32 = 4096;

impl Call {
    fn create() -> io::Result<Call> {
        let kind = BPF_MAP_TYPE_RINGBUF;
        let wanted = Create { kind, key_bytes: 0, value_bytes: 0, entries: RING_BYTES, flags: 0 };
        let fd = create(&wanted)?;
        // SAFETY: of the system's page; a ring buffer's first page holds the reader's position, the second the kernel's.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let consumed = mapped(fd.as_fd(), page, (libc::PROT_READ | libc::PROT_WRITE, 0))?;
        let produced = mapped(fd.as_fd(), page, (libc::PROT_READ, page));
        match produced {
            Ok(produced) => Ok(Call { fd, consumed: consumed.cast(), produced: produced.cast() }),
            Err(error) => {
                // SAFETY: mapped above, and nobody refers to it.
                unsafe { libc::munmap(consumed.as_ptr(), page) };
                Err(error)
            }
        }
    }

    /// It is readable again only when somebody calls after this.
    fn drain(&self) {
        // SAFETY: both lie in mappings that live as long as `self`.
        let (consumed, produced) = unsafe { (self.consumed.as_ref(), self.produced.as_ref()) };
        consumed.store(produced.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: mapped by `Call::create`, a page each, and no reference outlives `self`.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            libc::munmap(self.consumed.as_ptr().cast(), page);
            libc::munmap(self.produced.as_ptr().cast(), page);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    use ebb_host::wait::{Readiness, WaitSet};

    use super::super::Form;
    use super::super::program::Program;
    use super::super::test_run::TestRun;
    use super::*;
    use crate::samples::{self, udp4, udp6};

    /// A program that counts what it is given.
    fn counting(room: u32) -> Option<(Arc<KernelFlows>, Program, OwnedFd)> {
        samples::privileged("load BPF programs")?;
        let flows = Arc::new(KernelFlows::create(room).unwrap());
        let flags = (false, false, false);
        let loaded = Program::load_for(Form::Rss, (1, 1), 1, flags, (None, Some(&flows)));
        let mut program = loaded.unwrap().0;
        let fd = program.classifier("account_of").unwrap().try_clone_to_owned().unwrap();
        Some((flows, program, fd))
    }

    /// Counts a frame so often as one that goes from interface 7 to 9; nanoseconds for each time.
    fn count(program: &OwnedFd, frame: &[u8], times: u32) -> u32 {
        // `cb` of `struct __sk_buff`.
        let mut context = [0_u32; 17];
        (context[12], context[13]) = (7, 9);
        let mut left = vec![0_u8; frame.len()];
        let mut run = TestRun {
            prog_fd: program.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_size_out: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: left.as_mut_ptr() as u64,
            repeat: times,
            ctx_size_in: size_of_val(&context) as u32,
            ctx_in: &raw const context as u64,
            ..TestRun::default()
        };
        run.run().unwrap();
        assert_eq!(run.retval, 1);
        run.duration
    }

    /// `cargo test --release -p ebb-ports --lib counting_takes -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn what_counting_takes() {
        let Some((flows, _kept, program)) = counting(65_536) else { return };
        let known = (0..21).map(|_| count(&program, &udp4(1, 0), 1_000_000)).min();
        flows.take(|_| ()).unwrap();
        println!("{known:?} ns for a packet of a flow that is known");
    }

    fn taken(flows: &KernelFlows) -> (Vec<KernelFlow>, [u64; 2]) {
        let mut taken = Vec::new();
        let lost = flows.take(|flow| taken.push(*flow)).unwrap();
        taken.sort_by_key(|flow| (flow.source, flow.destination, flow.ports));
        (taken, lost)
    }

    #[test]
    fn packets_are_told_once_with_what_their_headers_say() {
        let Some((flows, _kept, program)) = counting(64) else { return };
        let mut four = udp4(3, 0);
        four[15] = 0x48;
        let mut tcp = udp4(3, 0);
        tcp[23] = 6;
        let flagged = |flags: u8| {
            let mut tcp = tcp.clone();
            tcp[47] = flags;
            tcp
        };
        let mut fragment = four.clone();
        fragment[21] = 1;
        let mut ping = four.clone();
        (ping[23], ping[34], ping[35]) = (1, 8, 0);
        let mut six = udp6(3, 0);
        (six[14], six[15]) = (0x64, 0x80);
        six[54..58].copy_from_slice(&[4, 0, 0, 9]);
        let mut first = six[..54].to_vec();
        (first[19], first[20]) = (28, 44);
        first.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        first.extend(&six[54..]);
        let mut later = first.clone();
        later[57] = 8;
        assert!(!flows.has_some());
        for (frame, times) in [(&four, 3), (&flagged(2), 1), (&flagged(16), 2), (&six, 2)] {
            count(&program, frame, times);
        }
        for frame in [&fragment, &ping, &first, &later] {
            count(&program, frame, 1);
        }
        assert!(flows.has_some());
        let (mut told, lost) = taken(&flows);
        assert_eq!(lost, [0, 0]);
        told.sort_by_key(|flow| (flow.source, flow.protocol, flow.ports));
        let brief = |flow: &KernelFlow| {
            (flow.protocol, flow.ports, flow.packets, flow.bytes, flow.tcp_flags, flow.tos)
        };
        let ports = (1024, 9);
        let wanted = [
            (1, (0, 8 << 8), 1, 46, 0, 0x48),
            (6, ports, 3, 3 * 46, 18, 0),
            (17, (0, 0), 1, 46, 0, 0x48),
            (17, ports, 3, 3 * 46, 0, 0x48),
            (17, (0, 0), 1, 68, 0, 0x48),
            (17, ports, 3, 60 + 60 + 68, 0, 0x48),
        ];
        assert_eq!(told.iter().map(brief).collect::<Vec<_>>(), wanted);
        let sides = |flow: &KernelFlow| (flow.input, flow.output);
        assert!(told.iter().all(|flow| sides(flow) == (7, 9)));
        assert!(told.iter().all(|flow| flow.seen_ns.0 <= flow.seen_ns.1 && flow.seen_ns.0 > 0));
        assert_eq!(told[0].source, std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert_eq!(told[0].destination, std::net::Ipv4Addr::new(10, 1, 0, 3).to_ipv6_mapped());
        assert_eq!(told[4].source.octets()[..], six[22..38]);
        assert!(!flows.has_some());
        assert_eq!(taken(&flows), (Vec::new(), [0, 0]));
    }

    #[test]
    fn what_finds_no_room_is_counted_together_and_the_reader_is_called_before() {
        let Some((flows, _kept, program)) = counting(64) else { return };
        let is_called = || {
            let mut wait_set = WaitSet::new();
            wait_set.add(flows.call());
            wait_set.wait(Some(Duration::ZERO));
            wait_set.readiness(0) != Readiness::Idle
        };
        for round in 0..3 {
            for flow in 0..31 {
                count(&program, &udp4(flow, 0), 1);
            }
            assert!(!is_called(), "round {round}");
            for flow in 31..100 {
                count(&program, &udp4(flow, 0), 2);
            }
            assert!(is_called(), "round {round}");
            let (told, lost) = taken(&flows);
            assert_eq!((told.len(), lost), (64, [2 * 36, 2 * 36 * 46]), "round {round}");
            assert!(!is_called() && !flows.has_some(), "round {round}");
        }
    }

    /// On two CPUs at once, while a third thread reads.
    #[test]
    fn nothing_is_lost_or_told_twice_while_it_is_read() {
        let Some((flows, _kept, program)) = counting(4096) else { return };
        let (sent, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut told: BTreeMap<(u16, u16), u64> = BTreeMap::new();
        let mut all = 0;
        let mut add = |flow: &KernelFlow| {
            *told.entry(flow.ports).or_default() += flow.packets;
            all += flow.packets;
            assert_eq!(flow.bytes, 46 * flow.packets);
        };
        let mut lost = 0;
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for round in 0..3000_u32 {
                            count(&program, &udp4((round % 500) << 16, 0), 16);
                            sent.fetch_add(16, Relaxed);
                        }
                    })
                })
                .collect();
            let (ended, flows) = (&ended, &flows);
            scope.spawn(move || {
                senders.into_iter().for_each(|sender| sender.join().expect("sent"));
                ended.store(true, Relaxed);
            });
            while !ended.load(Relaxed) {
                lost += flows.take(&mut add).unwrap()[0];
            }
        });
        for _ in 0..2 {
            lost += flows.take(&mut add).unwrap()[0];
        }
        assert_eq!(all + lost, sent.load(Relaxed));
        assert_eq!(lost, 0, "there is room for all");
        let whole = told.values().filter(|packets| **packets == 2 * 6 * 16).count();
        assert!(told.len() == 500 && whole == 500, "{told:?}");
    }
}
