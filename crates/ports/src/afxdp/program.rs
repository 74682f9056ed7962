//! The XDP program and its maps: everything the project wants from `aya`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, DevMapHash, HashMap, Map, MapData};
use aya::programs::{ProgramError, Xdp};
use aya::{Ebpf, EbpfError};
use tracing::debug;

use super::beside::{self, Beside};
use super::decision::Slot;
use super::link::{self, Link};
use super::maps::{Flights, Sockets, Table};
use super::policy::{RawHead, raw_route};
use super::policy_maps::Held;
use super::spread::Spread;
use super::vlans::{Tagged, Vlans};
use super::{AfXdpError, Form, KernelFlows, Mode, PacketPath};

mod loader;
mod policy;
mod state;

pub(super) use loader::OBJECT;
pub use loader::prepare;
pub(super) use state::States;
pub use state::Work;

/// Most MAC addresses of one interface.
pub(super) const MACS_MAX: usize = 16;
const FILTER_WORDS: usize = 64;

/// The program for packets that lie in one buffer each.
const WHOLE: &str = "steer";
/// The program for packets that may lie in several.
const PIECES: &str = "steer_frags";

/// `NEAR` of `bpf/state.h`.
pub(super) const NEAR: usize = 4096;

/// The program of the kernel path, and that in a card's driver.
pub(super) const FORWARD: &str = "forward";
pub(super) const FORWARD_TAGGED: &str = "forward_tagged";
pub(super) const IN_DRIVER: &str = "forward_in_driver";

/// Whom the XDP program gives packets that workers may have, as in `bpf/state.h`.
#[derive(Clone, Copy)]
pub(super) enum PacketsGo {
    ToWorkers = 0,
    BeforeTheStack = 1,
    WhenSent = 2,
}

/// A loaded program; detaches from its interface when dropped, or when the process ends.
pub(super) struct Program {
    pub(super) ebpf: Ebpf,
    /// The object that it is of.
    pub(super) object: &'static [u8],
    /// The programs that see VLAN tags beside frames, where there are such.
    beside: Option<Beside>,
    /// Its maps' descriptors by name: the fields below hold them open.
    pub(super) maps: Vec<(String, RawFd)>,
    /// The program of the kernel path that knows connections, once it was asked for; none where the kernel has no such.
    pub(super) connected: Option<Option<OwnedFd>>,
    pub(super) explains: [Option<OwnedFd>; 2],
    pub(super) link: Option<Link>,
    pub(super) vlans: Array<MapData, Vlans>,
    pub(super) path: PacketPath,
    /// Where its program stands, or is to.
    pub(super) in_driver: bool,
    pub(super) tagged: Tagged,
    pub(super) near_exits: Array<MapData, [u8; NEAR]>,
    pub(super) exits: HashMap<MapData, u32, u8>,
    pub(super) driver_exits: DevMapHash<MapData>,
    pub(super) spread: Spread,
    /// Mapped elsewhere; programs that are loaded later name their descriptors.
    _mapped: [MapData; 2],
    /// Who gets what workers may have.
    packets_go: Array<MapData, u64>,
    /// What keeps the program of the path attached that the interface is leaving.
    pub(super) former: Option<Link>,
    macs: Array<MapData, Macs>,
    /// The same array.
    station: OwnedFd,
    filter: Array<MapData, Filter>,
    local4: HashMap<MapData, [u8; 4], u8>,
    local6: HashMap<MapData, [u8; 16], u8>,
    states: States,
    policies: Array<MapData, RawHead>,
    policy_vlans: Array<MapData, [u8; 2]>,
    prefixes: LpmTrie<MapData, [u8; 20], u8>,
    policy: Held,
    /// Where the decision is that packets ask.
    slot: Option<Arc<Slot>>,
    /// Prefixes of routes in `prefixes`, and the families they are of.
    routes: BTreeMap<(IpAddr, u8), bool>,
    route_sides: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Macs {
    count: u64,
    mac: [u64; MACS_MAX],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct Filter {
    v4: [u64; FILTER_WORDS],
    v6: [u64; FILTER_WORDS],
}

// SAFETY: only integers, without padding.
unsafe impl aya::Pod for Macs {}
// SAFETY: as above.
unsafe impl aya::Pod for Filter {}

pub(super) fn refused(error: EbpfError) -> AfXdpError {
    let errno = match &error {
        EbpfError::MapError(aya::maps::MapError::CreateError { io_error, .. }) => {
            io_error.raw_os_error()
        }
        EbpfError::ProgramError(error) => errno(error),
        _ => None,
    };
    match errno {
        Some(errno @ (libc::EPERM | libc::EACCES)) if !judged(&error) => AfXdpError::Permission {
            what: "load the XDP program".to_owned(),
            source: io::Error::from_raw_os_error(errno),
        },
        _ => AfXdpError::Program { reason: chain(&error) },
    }
}

/// Whether the verifier has looked at the program: it refuses with the same number as one who may
/// not load any.
fn judged(error: &EbpfError) -> bool {
    match error {
        EbpfError::ProgramError(ProgramError::LoadError { verifier_log, .. }) => {
            !verifier_log.to_string().trim().is_empty()
        }
        _ => false,
    }
}

fn errno(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::LoadError { io_error, .. } => io_error.raw_os_error(),
        ProgramError::SyscallError(error) => error.io_error.raw_os_error(),
        _ => None,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

pub(super) fn broken<E: std::error::Error>(error: E) -> io::Error {
    io::Error::other(chain(&error))
}

/// The programs of a path that are tried in a driver, in this order.
fn native(path: PacketPath) -> impl Iterator<Item = &'static str> {
    let (beside, plain): (&[_], &[_]) = match path {
        PacketPath::Worker => (&beside::TO_WORKERS, &[PIECES, WHOLE]),
        PacketPath::Kernel => (&[beside::IN_DRIVER], &[IN_DRIVER]),
    };
    beside.iter().chain(plain).copied()
}

/// Whether it sees VLAN tags beside frames.
fn is_beside(name: &str) -> bool {
    beside::TO_WORKERS.contains(&name) || name == beside::IN_DRIVER
}

/// Takes a map out of the object that `bpf/steer.c` is known to have.
pub(super) fn map<T: TryFrom<aya::maps::Map>>(ebpf: &mut Ebpf, name: &str) -> T
where
    T::Error: std::fmt::Debug,
{
    let map = ebpf.take_map(name).unwrap_or_else(|| panic!("the program has no map {name}"));
    T::try_from(map).unwrap_or_else(|error| panic!("map {name}: {error:?}"))
}

pub(super) fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut Xdp {
    ebpf.program_mut(name)
        .and_then(|program| program.try_into().ok())
        .unwrap_or_else(|| panic!("no XDP program {name} in the object"))
}

/// Its maps, none of them taken yet.
fn descriptors(ebpf: &Ebpf) -> Vec<(String, RawFd)> {
    let of = |map: &Map| match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::CpuMap(data)
        | Map::DevMapHash(data)
        | Map::LpmTrie(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data)
        | Map::XskMap(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    };
    ebpf.maps().filter_map(|(name, map)| Some((name.to_owned(), of(map)?))).collect()
}

impl Program {
    /// Loads the program for any interface, with places for `sockets` sockets.
    #[cfg(test)]
    pub(super) fn load(
        form: Form,
        workers: u32,
        sockets: u32,
        stamp_all: bool,
    ) -> Result<(Program, Sockets, Table), AfXdpError> {
        Program::load_for(form, (workers, 1), sockets, (stamp_all, false, false), (None, None))
    }

    /// Loads the program for one interface and so many workers and receive queues, with places for `sockets` sockets.
    /// `beside`: its index where VLAN tags may travel beside frames. `flows`: where the kernel path counts them, if it is to.
    pub(super) fn load_for(
        form: Form,
        (workers, queues): (u32, u32),
        sockets: u32,
        flags: loader::Flags,
        (beside, flows): (Option<u32>, Option<&Arc<KernelFlows>>),
    ) -> Result<(Program, Sockets, Table), AfXdpError> {
        let form_number = match form {
            Form::Rss => 0u32,
            Form::Steer => 1,
        };
        let mut ebpf =
            loader::load(form_number, (workers, queues), sockets, flags, flows).map_err(refused)?;
        let object = loader::object(flows.is_some());
        // Older kernels refuse it; then there is only the other, which is loaded when it is asked for as well.
        if program(&mut ebpf, PIECES).load().is_err() {
            program(&mut ebpf, WHOLE).load().map_err(|error| refused(error.into()))?;
        }
        let maps = descriptors(&ebpf);
        let beside = beside.and_then(|index| {
            let globals: [(&str, &[u8]); 4] = [
                ("form", &form_number.to_ne_bytes()),
                ("workers", &workers.to_ne_bytes()),
                ("stamp_interval_ns", &loader::interval(flags.0).to_ne_bytes()),
                ("ip_options", &u32::from(flags.1).to_ne_bytes()),
            ];
            let loaded = Beside::load(object, &globals, &maps, index);
            loaded
                .inspect_err(|error| debug!(index, %error, code = "EBB-P007", "VLAN tags in metadata cannot be read"))
                .ok()
        });
        let Some(Map::Array(flights)) = ebpf.take_map("flights") else {
            panic!("the program has no array flights")
        };
        let flown = Flights::map(flights.fd().as_fd(), sockets);
        let flown =
            flown.map_err(|error| AfXdpError::system("map the counts of packets", error))?;
        let sockets = Sockets::new(map(&mut ebpf, "sockets"), flown);
        let Some(Map::Array(redirect)) = ebpf.take_map("redirect") else {
            panic!("the program has no array redirect")
        };
        let table = Table::map(redirect.fd().as_fd());
        let table = table.map_err(|error| AfXdpError::system("map the redirect table", error))?;
        let (station, macs) = match ebpf.take_map(".data.macs") {
            Some(Map::Array(data)) => (data.fd().as_fd().try_clone_to_owned(), Map::Array(data)),
            _ => panic!("the program has no array .data.macs"),
        };
        let station =
            station.map_err(|error| AfXdpError::system("keep the interface's addresses", error))?;
        let program = Program {
            macs: Array::try_from(macs).unwrap_or_else(|error| panic!("map .data.macs: {error:?}")),
            station,
            beside,
            maps,
            connected: None,
            explains: [None, None],
            vlans: map(&mut ebpf, ".data.vlans"),
            filter: map(&mut ebpf, ".data.filter"),
            local4: map(&mut ebpf, "local4"),
            local6: map(&mut ebpf, "local6"),
            states: States::new(map(&mut ebpf, "cpu_states")),
            policies: map(&mut ebpf, ".data.policies"),
            policy_vlans: map(&mut ebpf, "policy_vlans"),
            prefixes: map(&mut ebpf, "policy_prefixes"),
            near_exits: map(&mut ebpf, ".data.exits"),
            exits: map(&mut ebpf, "exits"),
            driver_exits: map(&mut ebpf, "driver_exits"),
            spread: Spread::of(&mut ebpf, queues)?,
            _mapped: [redirect, flights],
            packets_go: map(&mut ebpf, ".data.packets_go"),
            former: None,
            path: PacketPath::Worker,
            in_driver: false,
            tagged: Tagged::new(map(&mut ebpf, "vlan_interfaces")),
            policy: Held::default(),
            slot: None,
            routes: BTreeMap::new(),
            route_sides: 0,
            link: None,
            object,
            ebpf,
        };
        Ok((program, sockets, table))
    }

    /// Attaches the XDP program of a path; whether it runs in the driver, and whether it sees VLAN tags beside
    /// frames. `long`: packets may be longer than a buffer of the driver's.
    pub(super) fn attach(
        &mut self,
        (interface, path): (&str, PacketPath),
        index: u32,
        mode: Mode,
        long: bool,
    ) -> Result<(bool, bool), AfXdpError> {
        let mut attempts: Vec<(&str, u32)> = Vec::new();
        // A driver that runs the program for whole packets only bounds its MTU, or that of a veth's
        // far end, from then on.
        if mode != Mode::Generic {
            attempts.extend(native(path).map(|name| (name, link::DRIVER)));
        }
        // There each packet lies in one piece unless the program takes others.
        if mode != Mode::Native {
            let names = if long { [PIECES, WHOLE] } else { [WHOLE, PIECES] };
            attempts.extend(names.map(|name| (name, link::GENERIC)));
        }
        let mut reason = String::new();
        for (name, attempt) in attempts {
            let Some(program) = self.xdp(name) else { continue };
            let error = match Link::create(program, index, attempt) {
                Ok(link) => {
                    (self.path, self.in_driver) = (path, attempt == link::DRIVER);
                    self.link = Some(link);
                    return Ok((attempt == link::DRIVER, is_beside(name)));
                }
                Err(error) => error,
            };
            let interface = interface.to_owned();
            match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => {
                    return Err(AfXdpError::ProgramBusy { interface });
                }
                Some(libc::ENODEV) => return Err(AfXdpError::NoInterface { interface }),
                Some(errno @ (libc::EPERM | libc::EACCES)) => {
                    return Err(AfXdpError::Permission {
                        what: format!("attach an XDP program to {interface}"),
                        source: io::Error::from_raw_os_error(errno),
                    });
                }
                _ => reason = error.to_string(),
            }
        }
        let mode = match mode {
            Mode::Auto => "native or generic",
            Mode::Native => "native",
            Mode::Generic => "generic",
        };
        Err(AfXdpError::NoXdp { interface: interface.to_owned(), mode, reason })
    }

    /// What keeps the program attached, once it is.
    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Takes the place of the program that `link` attached in another process, or takes it again.
    ///
    /// # Errors
    /// When the driver refuses or the interface is gone; the present program stays.
    pub(super) fn replace(&mut self, link: &mut Link, native: bool) -> io::Result<()> {
        if self.path == PacketPath::Kernel && !native {
            return link.update(self.forward().map_err(broken)?);
        }
        // Which of them the driver takes depends on its MTU and its peer's.
        let attempts: Vec<&str> = match native {
            true => self::native(self.path).collect(),
            false => vec![WHOLE, PIECES],
        };
        let mut result = Ok(());
        for name in attempts {
            let Some(program) = self.xdp(name) else { continue };
            result = link.update(program);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// One of the programs, loaded when it is first asked for, if the kernel takes it.
    pub(super) fn xdp(&mut self, name: &str) -> Option<BorrowedFd<'_>> {
        if is_beside(name) {
            return self.beside.as_ref()?.program(name);
        }
        let program = program(&mut self.ebpf, name);
        if program.fd().is_err() {
            program.load().ok()?;
        }
        program.fd().ok().map(AsFd::as_fd)
    }

    /// Whether it would see VLAN tags beside frames in a driver.
    pub(super) fn may_see_tags_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// Gets ready to take the place of the program of a path that another process has attached.
    pub(super) fn set_path(&mut self, path: PacketPath, native: bool) -> Result<(), AfXdpError> {
        (self.path, self.in_driver) = (path, native);
        if path == PacketPath::Kernel && !native {
            self.forward().map_err(|error| refused(error.into()))?;
        }
        Ok(())
    }

    /// Says who gets the packets that workers may have.
    pub(super) fn set_packets_go(&mut self, to: PacketsGo) -> io::Result<()> {
        self.packets_go.set(0, to as u64, 0).map_err(broken)
    }

    /// Keeps itself attached from now on by a link of another process.
    pub(super) fn keep(&mut self, link: Link) {
        self.link = Some(link);
        self.follow_vlans();
    }

    /// The array of own addresses, and the length of its value.
    pub(super) fn station(&self) -> io::Result<(OwnedFd, u32)> {
        Ok((self.station.try_clone()?, size_of::<Macs>() as u32))
    }

    pub(super) fn set_macs(&mut self, macs: &[[u8; 6]]) -> io::Result<()> {
        if macs.len() > MACS_MAX {
            let message = format!("{} MAC addresses; the most is {MACS_MAX}", macs.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut value = Macs { count: macs.len() as u64, mac: [0; MACS_MAX] };
        for (place, mac) in value.mac.iter_mut().zip(macs) {
            *place = u64::from_le_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0]);
        }
        self.macs.set(0, value, 0).map_err(broken)
    }

    /// Frames to every unicast address are for this interface.
    pub(super) fn set_every_mac(&mut self) -> io::Result<()> {
        self.macs.set(0, Macs { count: u64::MAX, mac: [0; MACS_MAX] }, 0).map_err(broken)
    }

    /// Makes `addresses` the local ones. At no moment is an address that stays, or one that
    /// comes, missing once its family's maps have been written.
    pub(super) fn set_local_addresses(&mut self, addresses: &[IpAddr]) -> io::Result<()> {
        let mut wanted = Filter { v4: [0; FILTER_WORDS], v6: [0; FILTER_WORDS] };
        let (mut new4, mut new6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => {
                    let bit = bit4(*address);
                    wanted.v4[bit / 64] |= 1 << (bit % 64);
                    new4.push(address.octets());
                }
                IpAddr::V6(address) => {
                    let bit = bit6(*address);
                    wanted.v6[bit / 64] |= 1 << (bit % 64);
                    new6.push(address.octets());
                }
            }
        }
        let before = self.filter.get(&0, 0).map_err(broken)?;
        let mut union = wanted;
        union.v4.iter_mut().zip(before.v4).for_each(|(word, old)| *word |= old);
        union.v6.iter_mut().zip(before.v6).for_each(|(word, old)| *word |= old);
        let old4 = merge(&mut self.local4, &new4)?;
        let old6 = merge(&mut self.local6, &new6)?;
        self.filter.set(0, union, 0).map_err(broken)?;
        old4.iter().try_for_each(|key| self.local4.remove(key)).map_err(broken)?;
        old6.iter().try_for_each(|key| self.local6.remove(key)).map_err(broken)?;
        self.filter.set(0, wanted, 0).map_err(broken)
    }

    /// See [`super::Interface::set_kernel_routes`].
    pub(super) fn set_kernel_routes(&mut self, routes: &[(IpAddr, u8, bool)]) -> io::Result<()> {
        let wanted: BTreeMap<(IpAddr, u8), bool> = routes
            .iter()
            .map(|(address, length, kernels)| ((*address, *length), *kernels))
            .collect();
        let result = self.replace_routes(&wanted);
        let sides = |((address, _), _): (&(IpAddr, u8), &bool)| 1 << raw_route(*address, 0).side;
        self.route_sides = match result {
            Ok(()) => wanted.iter().map(sides).fold(0, |all, side: u8| all | side),
            Err(_) => 0,
        };
        self.write_head(self.policy.head())?;
        result
    }

    fn replace_routes(&mut self, wanted: &BTreeMap<(IpAddr, u8), bool>) -> io::Result<()> {
        let key = |(address, length): &(IpAddr, u8)| {
            let prefix = raw_route(*address, *length);
            Key::new(prefix.length, prefix.data())
        };
        for (prefix, kernels) in wanted {
            if self.routes.get(prefix) != Some(kernels) {
                self.prefixes.insert(&key(prefix), u8::from(*kernels), 0).map_err(broken)?;
                self.routes.insert(*prefix, *kernels);
            }
        }
        let gone: Vec<_> =
            self.routes.keys().filter(|prefix| !wanted.contains_key(prefix)).copied().collect();
        for prefix in gone {
            self.prefixes.remove(&key(&prefix)).map_err(broken)?;
            self.routes.remove(&prefix);
        }
        Ok(())
    }
}

/// Adds what is missing and returns what is left over.
fn merge<K: aya::Pod + Ord>(map: &mut HashMap<MapData, K, u8>, wanted: &[K]) -> io::Result<Vec<K>> {
    let mut present = map.keys().collect::<Result<Vec<K>, _>>().map_err(broken)?;
    present.sort_unstable();
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    for key in &wanted {
        if present.binary_search(key).is_err() {
            map.insert(key, 1, 0).map_err(broken)?;
        }
    }
    present.retain(|key| wanted.binary_search(key).is_err());
    Ok(present)
}

/// Bit of an address in the filter, as in `bpf/policy.h`.
fn bit4(address: Ipv4Addr) -> usize {
    (u32::from_le_bytes(address.octets()).wrapping_mul(0x9e37_79b1) >> 20) as usize
}

fn bit6(address: Ipv6Addr) -> usize {
    let bits = u128::from_le_bytes(address.octets());
    let folded = bits as u64 ^ (bits >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// Loads one of the object's helper programs alone and returns its descriptor.
pub(super) fn load_helper(name: &str) -> Result<(Ebpf, OwnedFd), AfXdpError> {
    let mut ebpf = loader::load(0, (1, 1), 1, (false, false, false), None).map_err(refused)?;
    let program = program(&mut ebpf, name);
    program.load().map_err(|error| refused(error.into()))?;
    let fd = program.fd().map_err(|error| refused(error.into()))?;
    let fd = fd
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| AfXdpError::Program { reason: error.to_string() })?;
    Ok((ebpf, fd))
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
