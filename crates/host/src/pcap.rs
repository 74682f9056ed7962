//! Filters in tcpdump's language, compiled by the libpcap that the machine has.
//!
//! Loaded when it is asked for, so that a router does without the library.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::ptr;

/// `struct bpf_insn` of pcap/bpf.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInstruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

/// `struct bpf_program` of pcap/bpf.h.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut RawInstruction,
}

/// `DLT_EN10MB`, and `PCAP_NETMASK_UNKNOWN`.
const ETHERNET: c_int = 1;
const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

type Open = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);

/// Instructions of classic BPF: code, jump if true, jump if false, constant.
pub type Instructions = Vec<(u16, u8, u8, u32)>;

/// Compiles a filter such as `udp port 53` for Ethernet frames.
///
/// # Errors
/// When there is no libpcap, or it does not understand the filter: what it says.
pub fn compile(filter: &str) -> io::Result<Instructions> {
    let text = CString::new(filter)?;
    let library = library()?;
    // SAFETY: names and types are those of pcap/pcap.h, in libpcap since version 0.8.
    unsafe {
        let open: Open = std::mem::transmute(symbol(library, c"pcap_open_dead")?);
        let compile: Compile = std::mem::transmute(symbol(library, c"pcap_compile")?);
        let error: GetError = std::mem::transmute(symbol(library, c"pcap_geterr")?);
        let free: FreeCode = std::mem::transmute(symbol(library, c"pcap_freecode")?);
        let close: Close = std::mem::transmute(symbol(library, c"pcap_close")?);
        let handle = open(ETHERNET, 65_535);
        if handle.is_null() {
            return Err(io::Error::other("libpcap is out of memory"));
        }
        let mut program = Program { len: 0, instructions: ptr::null_mut() };
        let result = if compile(handle, &mut program, text.as_ptr(), 1, NETMASK_UNKNOWN) == 0 {
            let raw = std::slice::from_raw_parts(program.instructions, program.len as usize);
            let lines = raw.iter().map(|one| (one.code, one.jump_true, one.jump_false, one.k));
            let lines = lines.collect();
            free(&mut program);
            Ok(lines)
        } else {
            let message = CStr::from_ptr(error(handle)).to_string_lossy().into_owned();
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        };
        close(handle);
        result
    }
}

fn library() -> io::Result<*mut c_void> {
    // Debian kept the name of version 0.8; others count on.
    for name in [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"] {
        // SAFETY: the name is terminated; libpcap's constructors do nothing.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !library.is_null() {
            return Ok(library);
        }
    }
    let message = "filters need libpcap: install libpcap0.8 (Debian) or libpcap";
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

fn symbol(library: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the library is open and the name terminated.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    match found.is_null() {
        true => Err(io::Error::other(format!("libpcap lacks {}", name.to_string_lossy()))),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcpdumps_language_is_compiled() {
        match compile("udp port 53") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs libpcap");
                println!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
            // Ends with a return, begins with the Ethernet type.
            Ok(lines) => {
                assert_eq!(lines[0], (0x28, 0, 0, 12));
                assert_eq!(lines.last().map(|line| line.0), Some(6));
            }
        }
        let error = compile("udp prot 53").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(!error.to_string().is_empty());
        assert!(compile("a\0b").is_err());
    }
}
