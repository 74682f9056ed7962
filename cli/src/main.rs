//! The `ebb` command: all of it is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb_cli::main()
}
