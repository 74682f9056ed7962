//! Programs that call functions of the kernel, which `aya` does not: the object's code, in which numbers that no helper
//! has stand for functions, is completed here with those of the running kernel, and with the places of
//! the kernel's own members. Knows nothing of what a program is for.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use aya_obj::Object;
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::bpf_insn;

use super::modules;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// Code of a call, and the mark of one to a function of the kernel (`BPF_PSEUDO_KFUNC_CALL`).
const CALL: u8 = 0x85;
const TO_KERNEL: u8 = 2;
/// The function that makes the kernel's own packet of a program's, and the first Linux that has it. Programs can do without.
pub(super) const CAST: &str = "bpf_cast_to_kern_ctx";
const CASTS_SINCE: (u32, u32) = (6, 2);
/// Where the module stands among the descriptors that programs name functions by; the first is the kernel itself.
const MODULE: i16 = 1;

/// A function of the kernel, and the number that stands for it in the object.
pub(super) struct Function(pub(super) &'static str, pub(super) i32);

/// A call that is never reached where the kernel lacks the function.
const NO_CALL: (u8, i32) = (0xb7, 0);

impl Function {
    fn find(&self, kernel: &Btf) -> io::Result<Known> {
        if self.0 == CAST && !casts() {
            return Ok(Known { stands: self.1, number: None, in_module: false });
        }
        if let Ok(number) = kernel.id_by_type_name_kind(self.0, BtfKind::Func) {
            return Ok(Known { stands: self.1, number: Some(number), in_module: false });
        }
        let lacks = || {
            let message =
                format!("the kernel has no function {}, nor has its module nf_conntrack", self.0);
            io::Error::new(io::ErrorKind::Unsupported, message)
        };
        let module = modules::tracking().ok_or_else(lacks)?;
        let number = module.function(&modules::own_types()?, self.0).ok_or_else(lacks)?;
        Ok(Known { stands: self.1, number: Some(number), in_module: true })
    }
}

/// What a program is loaded as.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// XDP for one interface only; `frags`: packets may lie in several buffers.
    Bound { index: u32, frags: bool },
    /// Traffic control.
    Classifier,
}

/// The object, complete but for its loading.
pub(super) struct Source {
    object: Object,
    numbers: Vec<Known>,
}

/// What stands for a function, its number in the running kernel if it has it, and whether that is in the module that
/// tracks connections.
struct Known {
    stands: i32,
    number: Option<u32>,
    in_module: bool,
}

impl Source {
    /// Completes the object in `bytes`: with `globals` as its constants, the maps that `aya` has made of the same
    /// object, and these functions, which no kernel has before `since`.
    ///
    /// # Errors
    /// When the kernel has not all functions and members.
    pub(super) fn read(
        bytes: &[u8],
        globals: &[(&str, &[u8])],
        maps: &[(String, RawFd)],
        (functions, since): (&[Function], (u32, u32)),
    ) -> io::Result<Source> {
        let mut object = Object::parse(bytes).map_err(io::Error::other)?;
        let kernel = kernel(since, &object).ok_or(io::ErrorKind::Unsupported)?;
        let numbers = functions
            .iter()
            .map(|function| function.find(kernel))
            .collect::<io::Result<Vec<_>>>()?;
        let values = globals.iter().map(|(name, value)| (*name, (*value, true))).collect();
        object.patch_map_data(values).map_err(io::Error::other)?;
        let described = std::mem::take(&mut object.maps);
        let sections: HashSet<usize> =
            object.functions.keys().map(|(section, _)| *section).collect();
        let known =
            maps.iter().filter_map(|(name, fd)| Some((name.as_str(), *fd, described.get(name)?)));
        object.relocate_btf(kernel).map_err(io::Error::other)?;
        object.relocate_maps(known, &sections).map_err(io::Error::other)?;
        object.relocate_calls(&sections).map_err(io::Error::other)?;
        Ok(Source { object, numbers })
    }

    /// Loads one of its programs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn load(&self, name: &str, kind: Kind) -> io::Result<OwnedFd> {
        let program = &self.object.programs[name];
        let mut code = self.object.functions[&program.function_key()].instructions.clone();
        code.iter_mut().for_each(|step| self.call_kernel(step));
        load(&code, &program.license, kind, name)
    }

    fn call_kernel(&self, step: &mut bpf_insn) {
        if let Some(known) = self.numbers.iter().find(|known| known.stands == step.imm)
            && step.code == CALL
            && step.src_reg() == 0
        {
            let Some(number) = known.number else {
                (step.code, step.imm) = NO_CALL;
                return;
            };
            step.set_src_reg(TO_KERNEL);
            step.imm = number.cast_signed();
            step.off = if known.in_module { MODULE } else { 0 };
        }
    }
}

/// The types of the running kernel. Reading them takes a slow machine seconds: not where an older kernel has no such
/// functions.
fn kernel(since: (u32, u32), like: &Object) -> Option<&'static Btf> {
    static KERNEL: OnceLock<Option<Btf>> = OnceLock::new();
    (release()? >= since).then_some(())?;
    let read = || Btf::parse(&modules::types_with_translation().ok()?, like.endianness).ok();
    KERNEL.get_or_init(read).as_ref()
}

/// Whether the kernel has [`CAST`].
pub(super) fn casts() -> bool {
    release().is_some_and(|release| release >= CASTS_SINCE)
}

/// Whether the running kernel is of this release or a later one.
pub(super) fn is_from(major: u32, minor: u32) -> bool {
    release().is_some_and(|release| release >= (major, minor))
}

/// The first two numbers of the running kernel's release.
fn release() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|byte: char| !byte.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
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
    /// What describes the program, which nothing does here.
    described: [u64; 6],
    descriptors: u64,
}

fn load(code: &[bpf_insn], license: &CStr, kind: Kind, called: &str) -> io::Result<OwnedFd> {
    let license = CString::from(license);
    let mut name = [0; 16];
    name.iter_mut().zip(called.bytes().take(15)).for_each(|(place, byte)| *place = byte);
    let (kind, flags, interface, attach_type) = match kind {
        Kind::Bound { index, frags } => {
            let frags = if frags { BPF_F_XDP_HAS_FRAGS } else { 0 };
            (BPF_PROG_TYPE_XDP, frags | BPF_F_XDP_DEV_BOUND_ONLY, index, BPF_XDP)
        }
        Kind::Classifier => (BPF_PROG_TYPE_SCHED_CLS, 0, 0, 0),
    };
    let descriptors = [0, modules::tracking().map_or(0, |module| module.fd())];
    let mut attributes = Load {
        kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        flags,
        name,
        interface,
        attach_type,
        descriptors: descriptors.as_ptr() as u64,
        ..Load::default()
    };
    let error = match attempt(&attributes) {
        Ok(fd) => return Ok(fd),
        Err(error) => error,
    };
    // What the verifier has to say of it, from the end.
    let mut log = vec![0_u8; 1 << 24];
    (attributes.log_level, attributes.log_len) = (1, log.len() as u32);
    attributes.log = log.as_mut_ptr() as u64;
    let again = attempt(&attributes);
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.split('\0').next().unwrap_or_default().lines().collect();
    let last = lines[lines.len().saturating_sub(6)..].join("; ");
    again.map_err(|_| io::Error::new(error.kind(), format!("{error}: {last}")))
}

fn attempt(attributes: &Load) -> io::Result<OwnedFd> {
    let pointer: *const Load = attributes;
    // SAFETY: `pointer` leads to a `bpf_attr` prefix of that length, which the kernel reads; the
    // instructions, the licence and the log live through the call, of the lengths given.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, pointer, size_of::<Load>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
