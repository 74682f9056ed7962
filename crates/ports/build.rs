//! Compiles the XDP program, and those that count what the kernel announces.

use std::path::PathBuf;
use std::process::Command;

/// Objects and their sources, without their endings, and what is defined in them.
const OBJECTS: [(&str, &str, &[&str]); 3] =
    [("steer", "steer", &[]), ("counted", "steer", &["-DCOUNTED"]), ("announce", "announce", &[])];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    OBJECTS.into_iter().for_each(compile);
}

fn compile((object, source, defined): (&str, &str, &[&str])) {
    let place = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let object = place.join(format!("{object}.o"));
    let source = format!("bpf/{source}.c");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // What stands in the object of the source's place: the same wherever the tree lies.
    let place = std::env::var("CARGO_MANIFEST_DIR").expect("CARGO_MANIFEST_DIR");
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").expect("CARGO_CFG_TARGET_ARCH");
    let status = Command::new(&clang)
        .args(["-target", "bpfel", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3"])
        .arg("-fno-stack-protector")
        .args(defined)
        .arg(format!("-ffile-prefix-map={place}=/usr/src/ebb/crates/ports"))
        // Debian keeps <asm/types.h> in a folder per architecture.
        .arg(format!("-I/usr/include/{architecture}-linux-gnu"))
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!(
            "{clang} cannot compile crates/ports/{source} ({status}); <linux/bpf.h> is needed: \
            apt-get install linux-libc-dev"
        )),
        Err(error) => fail(&format!(
            "{clang} is needed to compile the XDP program: {error}; apt-get install clang"
        )),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1)
}
