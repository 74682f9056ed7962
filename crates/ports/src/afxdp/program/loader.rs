//! The object with the programs and their maps: compiled from `bpf/steer.c`, loaded with an interface's constants.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aya::maps::MapError;
use aya::{Ebpf, EbpfError, EbpfLoader};

use super::super::{KernelFlows, WORKERS_MAX, announced, connections, functions, spread};

pub(in super::super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));

/// The same with programs of the kernel path that count flows.
static COUNTED: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/counted.o"));

/// The object whose kernel path counts flows, or not.
pub(super) fn object(counted: bool) -> &'static [u8] {
    if counted { COUNTED } else { OBJECT }
}

/// Least time between two stamped packets, unless all are.
const STAMP_INTERVAL_NS: u64 = 1_000_000;

/// Loads objects. There is one: each new one reads all types of the kernel, for relocations that the object has
/// none of, which takes a slow machine seconds.
static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> =
    LazyLock::new(|| Mutex::new(EbpfLoader::new()));

/// Gets ready for opening interfaces while the caller does something else.
pub fn prepare() {
    std::thread::spawn(|| LazyLock::force(&LOADER));
}

/// Values of the object's constants that live as long as the loader.
static NUMBERS: [u32; WORKERS_MAX as usize + 1] = {
    let mut numbers = [0; WORKERS_MAX as usize + 1];
    let mut index = 0;
    while index < numbers.len() {
        numbers[index] = index as u32;
        index += 1;
    }
    numbers
};
/// Numbers that CPUs of this machine may have.
static CPUS: LazyLock<u32> = LazyLock::new(|| {
    aya::util::nr_cpus().ok().and_then(|count| count.try_into().ok()).unwrap_or(1)
});
static TICK_NS: LazyLock<u64> = LazyLock::new(connections::tick_ns);
static INTERVALS: [u64; 2] = [STAMP_INTERVAL_NS, 0];

/// What `stamp_interval_ns` is to be.
pub(super) fn interval(stamp_all: bool) -> &'static u64 {
    &INTERVALS[usize::from(stamp_all)]
}

/// Whether every packet carries its time of arrival; whether those with options come to workers; long ones.
pub(super) type Flags = (bool, bool, bool);

/// Loads the object for one interface with so many workers and receive queues, with places for `sockets` sockets; `flows`:
/// where its kernel path counts flows.
pub(super) fn load(
    form: u32,
    (workers, queues): (u32, u32),
    sockets: u32,
    (stamp_all, ip_options, long): Flags,
    flows: Option<&Arc<KernelFlows>>,
) -> Result<Ebpf, EbpfError> {
    let ebpf = LOADER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .override_global("form", &NUMBERS[form as usize], true)
        .override_global("workers", &NUMBERS[workers as usize], true)
        .override_global("stamp_interval_ns", interval(stamp_all), true)
        .override_global("ip_options", &NUMBERS[usize::from(ip_options)], true)
        .override_global("long_packets", &NUMBERS[usize::from(long)], true)
        .override_global("tick_ns", &*TICK_NS, true)
        .override_global("casts", &NUMBERS[usize::from(functions::casts())], true)
        .map_max_entries("sockets", sockets)
        .map_max_entries("flights", sockets)
        .map_max_entries("lanes", queues * spread::LANES as u32)
        .map_max_entries("lane_entries", queues * spread::ENTRIES)
        .map_max_entries("cpus", *CPUS)
        .load(object(flows.is_some()))?;
    announced::share(&ebpf)
        .and_then(|()| flows.map_or(Ok(()), |flows| flows.share(&ebpf)))
        .map_err(|io_error| MapError::CreateError { name: announced::MAP.to_owned(), io_error })?;
    Ok(ebpf)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever exports no flows pays for none.
    #[test]
    fn the_object_that_counts_no_flows_has_nothing_of_it() {
        let names = |object: &[u8], name: &[u8]| object.windows(name.len()).any(|it| it == name);
        for name in ["flows_even", "flows_odd", "flows_call", ".data.accounts", "account_of"] {
            let name = name.as_bytes();
            assert_eq!((names(OBJECT, name), names(COUNTED, name)), (false, true));
        }
    }

    /// Else two builds of one commit would differ.
    #[test]
    fn the_object_does_not_say_where_the_tree_lies() {
        let place = env!("CARGO_MANIFEST_DIR").trim_start_matches('/').as_bytes();
        for object in [OBJECT, COUNTED] {
            assert!(!object.windows(place.len()).any(|bytes| bytes == place));
        }
    }
}
