//! Programs that ask the driver which VLAN tag travels beside a frame: bound to one interface, whose
//! driver answers `bpf_xdp_metadata_rx_vlan_tag` (Linux 6.8). `aya` neither calls functions of the
//! kernel nor binds programs to interfaces, so these are loaded here, with the maps of its own.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use aya_obj::Object;
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::bpf_insn;

/// The function, and the number that stands for it in `bpf/helpers.h`.
const RX_VLAN_TAG: (&str, i32) = ("bpf_xdp_metadata_rx_vlan_tag", 0x4542_4201);
/// The Linux that has it first.
const SINCE: (u32, u32) = (6, 8);
/// For packets that may lie in several buffers.
const PIECES: &str = "steer_beside_frags";
/// Those of workers, in the order in which they are to be tried.
pub(super) const TO_WORKERS: [&str; 2] = [PIECES, "steer_beside"];
/// That of the kernel path.
pub(super) const IN_DRIVER: &str = "forward_in_driver_beside";

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// Code of a call, and the mark of one to a function of the kernel (`BPF_PSEUDO_KFUNC_CALL`).
const CALL: u8 = 0x85;
const TO_KERNEL: u8 = 2;

/// The programs for one interface, by name; those that the kernel takes.
#[derive(Debug)]
pub(super) struct Beside(Vec<(&'static str, OwnedFd)>);

impl Beside {
    /// Loads them for the interface of this index: the object in `bytes`, with `globals` as its
    /// constants and the maps that `aya` has made of the same object.
    ///
    /// # Errors
    /// When the kernel is too old or refuses.
    pub(super) fn load(
        bytes: &[u8],
        globals: &[(&str, &[u8])],
        maps: &[(String, RawFd)],
        index: u32,
    ) -> io::Result<Beside> {
        let Some(function) = function() else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut object = Object::parse(bytes).map_err(io::Error::other)?;
        let values = globals.iter().map(|(name, value)| (*name, (*value, true))).collect();
        object.patch_map_data(values).map_err(io::Error::other)?;
        let described = std::mem::take(&mut object.maps);
        let sections: HashSet<usize> =
            object.functions.keys().map(|(section, _)| *section).collect();
        let known =
            maps.iter().filter_map(|(name, fd)| Some((name.as_str(), *fd, described.get(name)?)));
        object.relocate_maps(known, &sections).map_err(io::Error::other)?;
        object.relocate_calls(&sections).map_err(io::Error::other)?;
        let mut loaded = Vec::new();
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for name in TO_WORKERS.into_iter().chain([IN_DRIVER]) {
            let program = &object.programs[name];
            let mut code = object.functions[&program.function_key()].instructions.clone();
            code.iter_mut().for_each(|step| call_kernel(step, function));
            let frags = if name == PIECES { BPF_F_XDP_HAS_FRAGS } else { 0 };
            match load_bound(&code, &program.license, frags, index) {
                Ok(fd) => loaded.push((name, fd)),
                Err(error) => refused = error,
            }
        }
        if loaded.is_empty() { Err(refused) } else { Ok(Beside(loaded)) }
    }

    pub(super) fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, fd)| fd.as_fd())
    }
}

/// The number of the function in the running kernel.
fn function() -> Option<u32> {
    static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        // Reading all types takes a slow machine seconds: not where an older kernel has no such function.
        (release()? >= SINCE).then_some(())?;
        let kernel = Btf::from_sys_fs().ok()?;
        kernel.id_by_type_name_kind(RX_VLAN_TAG.0, BtfKind::Func).ok()
    })
}

/// The first two numbers of the running kernel's release.
fn release() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|byte: char| !byte.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn call_kernel(step: &mut bpf_insn, function: u32) {
    if step.code == CALL && step.src_reg() == 0 && step.imm == RX_VLAN_TAG.1 {
        step.set_src_reg(TO_KERNEL);
        step.imm = function.cast_signed();
    }
}

/// The member of `union bpf_attr` for BPF_PROG_LOAD, as far as it is used.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

fn load_bound(code: &[bpf_insn], license: &CStr, flags: u32, index: u32) -> io::Result<OwnedFd> {
    let license = CString::from(license);
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"steer");
    let attributes = Load {
        kind: BPF_PROG_TYPE_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        flags: flags | BPF_F_XDP_DEV_BOUND_ONLY,
        name,
        interface: index,
        attach_type: BPF_XDP,
        ..Load::default()
    };
    let pointer: *const Load = &attributes;
    // SAFETY: `pointer` leads to a `bpf_attr` prefix of that length, which the kernel reads; the
    // instructions and the licence live through the call, of the lengths given.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, pointer, size_of::<Load>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
