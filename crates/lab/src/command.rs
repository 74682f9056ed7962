//! Programs of the system that run to their end.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a program over `input` and returns its standard output.
///
/// # Errors
/// When it does not start, or ends badly: then with what it said.
pub fn run(program: &str, words: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program} (Debian packages: iproute2, ethtool)"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that has refused already says why below.
        _ = pipe.write_all(input.as_bytes());
    }
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{program} {}: {}", words.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a program in a namespace, with its `/sys`.
///
/// # Errors
/// As [`run`].
pub fn inside(namespace: &str, words: &[&str]) -> Result<String> {
    run("ip", &[&["netns", "exec", namespace], words].concat(), "")
}

/// Runs `ip` in a namespace over lines of commands.
///
/// # Errors
/// As [`run`].
pub fn ip(namespace: &str, lines: &str) -> Result<()> {
    run("ip", &["-n", namespace, "-batch", "-"], lines).map(|_| ())
}

/// Runs `tc` in a namespace over lines of commands.
///
/// # Errors
/// As [`run`].
pub fn tc(namespace: &str, lines: &str) -> Result<()> {
    run("tc", &["-n", namespace, "-batch", "-"], lines).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_said_is_in_the_error() {
        assert_eq!(run("cat", &[], "lines").expect("cat runs"), "lines");
        let error = run("sh", &["-c", "echo no >&2; false"], "").expect_err("it fails");
        assert_eq!(error.to_string(), "sh -c echo no >&2; false: no");
        assert!(run("/nonexistent/program", &[], "").is_err());
    }
}
