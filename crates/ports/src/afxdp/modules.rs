//! Types and functions of the kernel's modules, where distributions have the tracking of connections: what the kernel
//! says of them (BTF) continues what it says of itself, in numbers and in names. Knows the format only as far as finding
//! a function takes; `functions` does the rest.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use tracing::info;

const BPF_BTF_GET_FD_BY_ID: libc::c_int = 19;
const BPF_BTF_GET_NEXT_ID: libc::c_int = 23;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
/// Where the kernel tells them.
const PLACE: &str = "/sys/kernel/btf";
/// That with the functions, and that with a type which programs read.
const TRACKING: &str = "nf_conntrack";
const TRANSLATION: &str = "nf_nat";
/// Of the format: its mark, the length of its head, of a type, and the kinds that are told apart.
const MAGIC: u16 = 0xeb9f;
const HEAD_LEN: usize = 24;
const TYPE_LEN: usize = 12;
const FUNC: u32 = 12;

/// The module that tracks connections: a descriptor by which programs name it, and what it says.
pub(super) struct Module {
    fd: OwnedFd,
    types: Vec<u8>,
}

static FOUND: OnceLock<Option<Module>> = OnceLock::new();

/// Finds the module that tracks connections, if it is one and is loaded. To be called while the process has
/// `CAP_SYS_ADMIN`, without which the kernel gives no descriptor of it; or `inherited` is one, of a process that had.
pub fn find_modules(inherited: Option<OwnedFd>) {
    let inherited = inherited.filter(|fd| is_of(fd, TRACKING).unwrap_or(false));
    _ = FOUND.get_or_init(|| find(inherited));
}

/// For another process: its descriptor.
pub fn module_descriptor() -> Option<OwnedFd> {
    tracking()?.fd.try_clone().ok()
}

/// That module.
pub(super) fn tracking() -> Option<&'static Module> {
    FOUND.get_or_init(|| find(None)).as_ref()
}

fn find(inherited: Option<OwnedFd>) -> Option<Module> {
    let types = std::fs::read(format!("{PLACE}/{TRACKING}")).ok()?;
    let asked = || {
        descriptor(TRACKING)
            .inspect_err(|error| info!(%error, code = "EBB-P008", "the module that tracks connections cannot be named"))
            .ok()
            .flatten()
    };
    Some(Module { fd: inherited.or_else(asked)?, types })
}

/// The kernel's own types.
pub(super) fn own_types() -> io::Result<Vec<u8>> {
    std::fs::read(format!("{PLACE}/vmlinux"))
}

/// The kernel's own types and, behind them, those of the module that translates addresses, where it is one.
pub(super) fn types_with_translation() -> io::Result<Vec<u8>> {
    let own = own_types()?;
    let module = std::fs::read(format!("{PLACE}/{TRANSLATION}")).ok();
    Ok(module.and_then(|module| join(&own, &module)).unwrap_or(own))
}

impl Module {
    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The number of one of its functions; `kernel`: the kernel's own types.
    pub(super) fn function(&self, kernel: &[u8], name: &str) -> Option<u32> {
        let (before, own) = (Parts::of(kernel)?, Parts::of(&self.types)?);
        let first = before.types().count() as u32 + 1;
        let found = |(_, (named, kind)): &(u32, (u32, u32))| {
            let at = (*named as usize).checked_sub(before.names.len());
            *kind == FUNC && at.is_some_and(|at| own.name(at) == Some(name.as_bytes()))
        };
        (first..).zip(own.types()).find(found).map(|(number, _)| number)
    }
}

/// One piece of the format, taken apart.
struct Parts<'a> {
    types: &'a [u8],
    names: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Option<Parts<'a>> {
        let magic = bytes.get(..2)?;
        (magic == MAGIC.to_ne_bytes()).then_some(())?;
        let body = bytes.get(number(bytes, 4)? as usize..)?;
        let part = |at| {
            let (begin, len) = (number(bytes, at)? as usize, number(bytes, at + 4)? as usize);
            body.get(begin..begin.checked_add(len)?)
        };
        Some(Parts { types: part(8)?, names: part(16)? })
    }

    /// Where each type's name stands, and its kind.
    fn types(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut rest = self.types;
        std::iter::from_fn(move || {
            let (name, info) = (number(rest, 0)?, number(rest, 4)?);
            let (kind, members) = (info >> 24 & 31, (info & 0xffff) as usize);
            // What follows: of integers, arrays, structures and the like, enumerations, parameters, variables.
            let more = match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * members,
                6 | 13 => 8 * members,
                _ => 0,
            };
            rest = rest.get(TYPE_LEN + more..)?;
            Some((name, kind))
        })
    }

    fn name(&self, at: usize) -> Option<&[u8]> {
        self.names.get(at..)?.split(|byte| *byte == 0).next()
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// One piece from two, of which the second continues the first.
fn join(first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
    let (one, other) = (Parts::of(first)?, Parts::of(second)?);
    let types = (one.types.len() + other.types.len()) as u32;
    let names = (one.names.len() + other.names.len()) as u32;
    let mut joined = first.get(..4)?.to_vec();
    for value in [HEAD_LEN as u32, 0, types, types, names] {
        joined.extend(value.to_ne_bytes());
    }
    [one.types, other.types, one.names, other.names].iter().for_each(|part| joined.extend(*part));
    Some(joined)
}

/// The members of `union bpf_attr` by which objects are found.
#[repr(C)]
#[derive(Default)]
struct Find {
    id: u32,
    next_id: u32,
    flags: u32,
    unused: u32,
}

/// Those by which one is asked about.
#[repr(C)]
struct Ask {
    fd: u32,
    len: u32,
    info: u64,
}

/// `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    types: u64,
    types_len: u32,
    id: u32,
    name: u64,
    name_len: u32,
    in_kernel: u32,
}

/// A descriptor of what a module of the kernel's says; none: no such module is loaded.
fn descriptor(wanted: &str) -> io::Result<Option<OwnedFd>> {
    let mut find = Find::default();
    loop {
        match bpf(BPF_BTF_GET_NEXT_ID, &mut find) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            other => other?,
        };
        let mut of = Find { id: find.next_id, ..Find::default() };
        find.id = find.next_id;
        match bpf(BPF_BTF_GET_FD_BY_ID, &mut of) {
            // It is gone again.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            fd => {
                // SAFETY: the descriptor is new and owned by nobody else.
                let fd = unsafe { OwnedFd::from_raw_fd(fd?) };
                if is_of(&fd, wanted)? {
                    return Ok(Some(fd));
                }
            }
        }
    }
}

fn is_of(fd: &OwnedFd, wanted: &str) -> io::Result<bool> {
    let mut name = [0_u8; 64];
    let name_len = name.len() as u32;
    let mut info = Info { name: name.as_mut_ptr() as u64, name_len, ..Info::default() };
    let len = size_of::<Info>() as u32;
    let mut ask = Ask { fd: fd.as_raw_fd() as u32, len, info: &raw mut info as u64 };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut ask)?;
    let said = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(info.in_kernel != 0 && said == wanted.as_bytes())
}

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<RawFd> {
    let pointer: *mut T = attributes;
    // SAFETY: `pointer` leads to a `bpf_attr` prefix of that length; what it points to lives through the call, of
    // the lengths given.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya_obj::btf::{Btf, BtfKind};

    /// What a module would say that has one structure and one function, named so.
    fn module(kernel: &[u8], function: &str) -> Vec<u8> {
        let before = Parts::of(kernel).unwrap().names.len() as u32;
        let names = format!("\0ebb_structure\0{function}\0");
        let at = |name: &str| before + names.find(name).unwrap() as u32;
        // A structure of one member, which is an array of another's; the function's prototype; the function.
        let structure = [at("ebb_structure"), 4 << 24 | 1, 4, at("ebb_structure"), 1, 0];
        let types = [&structure[..], &[0, 13 << 24, 0], &[at(function), FUNC << 24, 0]].concat();
        let mut bytes = kernel[..4].to_vec();
        let len = 4 * types.len() as u32;
        [HEAD_LEN as u32, 0, len, len, names.len() as u32]
            .iter()
            .chain(&types)
            .for_each(|value| bytes.extend(value.to_ne_bytes()));
        bytes.extend(names.as_bytes());
        bytes
    }

    #[test]
    fn a_module_continues_the_kernel() {
        let Ok(kernel) = own_types() else {
            println!("skipped: the kernel says nothing of its types");
            return;
        };
        let types = module(&kernel, "ebb_function");
        let endianness = aya_obj::Object::parse(super::super::program::OBJECT).unwrap().endianness;
        let joined = Btf::parse(&join(&kernel, &types).unwrap(), endianness).unwrap();
        let module = Module { fd: std::fs::File::open("/dev/null").unwrap().into(), types };
        let number = module.function(&kernel, "ebb_function").unwrap();
        assert_eq!(joined.id_by_type_name_kind("ebb_function", BtfKind::Func).unwrap(), number);
        assert_eq!(module.function(&kernel, "ebb_structure"), None);
        assert_eq!(module.function(&kernel, "schedule"), None);
    }

    #[test]
    fn bytes_that_are_cut_off_say_nothing() {
        let whole = [&MAGIC.to_ne_bytes()[..], &[1, 0], &[24, 0, 0, 0]].concat();
        let head = [0_u32, 12, 12, 4].iter().flat_map(|value| value.to_ne_bytes());
        let whole: Vec<u8> = whole.into_iter().chain(head).chain([0; 16]).collect();
        assert_eq!(Parts::of(&whole).unwrap().types().count(), 1);
        for len in 0..whole.len() {
            assert!(
                Parts::of(&whole[..len]).is_none_or(|parts| parts.types().count() == 0),
                "{len}"
            );
        }
    }
}
