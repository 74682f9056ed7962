//! What programs do between two system calls, and in them.

use ebb_scenario::{Check, Described, FileError, Invalid};
use serde::Deserialize;

/// How interrupts meet the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Interrupts {
    /// It goes on while they are served, where there is a core for them.
    #[default]
    Overlap,
    /// It waits until they have been served, as for a disk.
    Wait,
}

/// A program as a cycle of phases; times on a complex core at 3 GHz, µs.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    #[serde(default = "Workload::default_name")]
    #[schema(default = "phases")]
    pub name: String,
    /// In the program.
    #[schema(least = 0, most = 1_000_000_000)]
    pub user_us: f64,
    /// In system calls that stay on the program's core.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub kernel_us: f64,
    /// In one system call that can move to another core.
    #[schema(least = 0, most = 1_000_000_000)]
    pub moved_us: f64,
    /// In interrupts that the system call causes.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub interrupt_us: f64,
    /// Waiting for others; no core's speed changes it.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub idle_us: f64,
    /// How the interrupts meet the program.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// The units that a cycle yields.
    #[serde(default = "Workload::default_units")]
    #[schema(above = 0, default = 1.0)]
    pub units: f64,
    /// The unit that is counted, for example `KB` or `transactions`.
    #[serde(default = "Workload::default_unit")]
    #[schema(default = "cycles")]
    pub unit: String,
    /// Least time of a cycle, for what the network takes; 0 for none.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub least_us: f64,
    /// Protocol work for what interrupts bring, of the call's: done in the call while the program is in one, by
    /// the interrupt otherwise, where that has a core of its own.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub backlog_us: f64,
    /// Cycles whose interrupts may be outstanding before the program waits for them; 0 for any number.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000)]
    pub window: u32,
    /// How much longer its system code takes on a simple core, over what the code of switches does there.
    #[serde(default = "Workload::default_simple_system")]
    #[schema(least = 0.01, most = 100, default = 1.0)]
    pub simple_system: f64,
    /// How much longer its own code takes on a simple core, over what the web server's does there.
    #[serde(default = "Workload::default_simple_system")]
    #[schema(least = 0.01, most = 100, default = 1.0)]
    pub simple_user: f64,
}

impl Check for Workload {
    fn check(&self) -> Result<(), Invalid> {
        let some = self.user_us + self.kernel_us + self.moved_us + self.idle_us > 0.0;
        Invalid::unless(
            some,
            "user_us",
            "makes a cycle of length 0",
            "set at least one phase above 0",
        )
    }
}

// Two processes of the web server share a core (`threads = 2`): while one's call is served elsewhere, the other runs. With
// three or four the numbers below fit no better.
/// Round trips per KB of the web benchmark: fitted to `sim_CS` and `sim_Cs` under V5, Table 3.8.
pub(crate) const WEB_TRIPS: f64 = 10.0;
/// System-call time that the web benchmark moves, µs per KB: fitted to the same two.
pub(crate) const WEB_MOVED_US: f64 = 11.0;
/// What a process of the web server waits for its clients, µs per KB: fitted to `sim_C`, Table 3.8. The 8.6 % of
/// Table 3.3 are the time in which all processes wait.
pub(crate) const WEB_IDLE_US: f64 = 30.0;
/// System code of the database on a simple core, over the code of switches there: fitted to the profile of
/// `sim_CS` under V5 in section 3.6.2, where `fdatasync` takes 24 % of 1/8,952 s and on `sim_C` 13 % of 1/11,411 s.
pub(crate) const DATABASE_SIMPLE_SYSTEM: f64 =
    (0.24 / 8952.0) / (0.13 / 11_411.0) / crate::cores::SIMPLE_SYSTEM;
/// The database's own code on a simple core, over the web server's: fitted to `sim_SS`, bound, Table 3.11.
pub(crate) const DATABASE_SIMPLE_USER: f64 = 1.11;
/// Time of which Table 3.3 gives the shares for a call of the incoming stream, µs: fitted to `sim_Cs` under V5,
/// Table 3.15, whose system core never idles.
pub(crate) const INCOMING_US: f64 = 244.0;
/// What 64 KB of the incoming stream take whatever the cores do, µs: fitted to `sim_CC`, bound, Table 3.15.
const INCOMING_LEAST_US: f64 = STREAM_KB * 167_000.0 / 18_966.0;
/// What TCP does for the acknowledgements of a call of the outgoing stream, µs: fitted to `sim_Cs`, bound, of Table 3.14.
/// While the program is in a call on the socket they wait in its backlog and the call does it, else the interrupt
/// (Linux 2.6.18, `tcp_v4_rcv`: `sock_owned_by_user`).
const BACKLOG_US: f64 = 26.0;
/// Calls whose data a socket holds until they are acknowledged: at most 128 KB (Linux 2.6.18, `tcp_wmem`).
const SEND_WINDOW: u32 = 2;
/// Bytes of a call of the streams, KB (section 3.6.3).
const STREAM_KB: f64 = 64.0;

/// The programs that were published.
pub(crate) const PUBLISHED: [(&str, &str); 7] = [
    ("web", "A web server."),
    ("ex_tpcb", "A database with transactions."),
    ("tcpstream", "A stream out, network of 10 Gbit/s."),
    ("tcpmaerts", "A stream in, network of 10 Gbit/s."),
    ("tcpstream-1g", "The stream out at 1 Gbit/s."),
    ("tcpmaerts-1g", "The stream in at 1 Gbit/s."),
    ("gettid", "One short system call after another."),
];

/// The published mixes (Table 3.3 and section 3.6), by name: `gettid`, `web`, `ex_tpcb`, `tcpstream`,
/// `tcpmaerts`; the last three letters `-1g` give the streams a network of 1 Gbit/s.
///
/// The total of each is what one complex core took (`sim_C`; of the streams at 10 Gbit/s).
pub fn named(name: &str) -> Option<Workload> {
    let (base, gigabit) = match name.strip_suffix("-1g") {
        Some(base) => (base, true),
        None => (name, false),
    };
    // At 1 Gbit/s every unmodified row of Table 3.14 has 21,185 KB in 167 ms.
    let least_us = if gigabit { STREAM_KB * 167_000.0 / 21_185.0 } else { 0.0 };
    let cycle = |total: f64, [user, kernel, interrupt, idle]: [f64; 4], unit: &str| Workload {
        name: name.to_owned(),
        user_us: total * user,
        kernel_us: 0.0,
        moved_us: total * kernel,
        interrupt_us: total * interrupt,
        idle_us: total * idle,
        interrupts: Interrupts::Overlap,
        units: 1.0,
        unit: unit.to_owned(),
        least_us: 0.0,
        backlog_us: 0.0,
        window: 0,
        simple_system: 1.0,
        simple_user: 1.0,
    };
    Some(match base {
        "gettid" if !gigabit => Workload { kernel_us: 0.12, ..cycle(0.0, [0.0; 4], "calls") },
        "web" if !gigabit => {
            // 1,231 KB in 133 ms.
            let web = cycle(133_000.0 / 1231.0 / WEB_TRIPS, [0.550, 0.258, 0.106, 0.086], "KB");
            let moved = WEB_MOVED_US / WEB_TRIPS;
            let (kernel_us, units) = (web.moved_us - moved, 1.0 / WEB_TRIPS);
            Workload { kernel_us, moved_us: moved, idle_us: WEB_IDLE_US / WEB_TRIPS, units, ..web }
        }
        "ex_tpcb" if !gigabit => {
            // 11,411 transactions/s; section 3.6.2: 56 % user, 24 % in system calls, of which 13 % in
            // the one that moves, 8 % interrupts. The rest is the system's.
            let all = cycle(1e6 / 11_411.0, [0.56, 0.13, 0.08, 0.0], "transactions");
            let kernel_us = 1e6 / 11_411.0 * (0.24 - 0.13 + 0.12);
            let simple_system = DATABASE_SIMPLE_SYSTEM;
            let simple_user = DATABASE_SIMPLE_USER;
            Workload { kernel_us, interrupts: Interrupts::Wait, simple_system, simple_user, ..all }
        }
        "tcpstream" => {
            // 47,639 KB in 167 ms. What Table 3.3 calls idle scales with the core in Table 3.14 as system
            // time does (`sim_SS` is 3.4 times slower in all): it counts as such.
            let total = STREAM_KB * 167_000.0 / 47_639.0;
            let mix = [0.001, 0.270 + 0.475, 0.254, 0.0];
            let (backlog_us, window) = (BACKLOG_US, SEND_WINDOW);
            let all = cycle(total, mix, "KB");
            Workload { units: STREAM_KB, least_us, backlog_us, window, ..all }
        }
        "tcpmaerts" => {
            // "Profiles show even the uniprocessor core is mostly idle" (section 3.6.3), and four configurations of
            // very different cores carry nearly the same: the network and its other end set the pace.
            let mix = [0.250, 0.462, 0.129, 0.0];
            let least_us = least_us.max(INCOMING_LEAST_US);
            Workload { units: STREAM_KB, least_us, ..cycle(INCOMING_US, mix, "KB") }
        }
        _ => return None,
    })
}

/// Pairs of phases that were measured: what `strace -ttt -T` wrote of one thread, or CSV with the columns
/// `app_us` and `os_us`, the time between two system calls and that of the call.
///
/// # Errors
/// When a line has no two times; the error names it.
pub fn read_trace(file: &str, bytes: &[u8]) -> Result<Vec<(f64, f64)>, FileError> {
    let text = String::from_utf8_lossy(bytes);
    let calls: Vec<(f64, f64)> = text.lines().filter_map(strace_line).collect();
    if calls.is_empty() {
        return read_phases(file, bytes);
    }
    let mut ended = calls[0].0;
    let mut phases = Vec::with_capacity(calls.len());
    for (began, took) in calls {
        // Rounding to microseconds may put a call before the end of the last.
        phases.push((((began - ended) * 1e6).max(0.0), took * 1e6));
        ended = began + took;
    }
    Ok(phases)
}

/// When a call began and how long it took, s: `1700000000.123456 fsync(3) = 0 <0.000045>`.
fn strace_line(line: &str) -> Option<(f64, f64)> {
    let (start, rest) = line.split_once(' ')?;
    let (_, took) = rest.rsplit_once('<')?;
    let span = |text: &str| text.parse::<f64>().ok().filter(|span| (0.0..1e12).contains(span));
    Some((span(start)?, span(took.trim_end().strip_suffix('>')?)?))
}

fn read_phases(file: &str, bytes: &[u8]) -> Result<Vec<(f64, f64)>, FileError> {
    let wrong = |line: usize, message: &str| FileError {
        name: file.to_owned(),
        message: format!(
            "line {line}: {message}; expected two times in microseconds, for example \
            `12.5,3.1`"
        ),
    };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(1, "is not UTF-8"))?;
    let mut phases = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (index == 0 && line.starts_with("app_us")) {
            continue;
        }
        let mut times = line.split(',').map(|field| field.trim().parse::<f64>());
        let (Some(Ok(app)), Some(Ok(os)), None) = (times.next(), times.next(), times.next()) else {
            return Err(wrong(index + 1, "does not have two numbers"));
        };
        if !(0.0..=1e9).contains(&app) || !(0.0..=1e9).contains(&os) {
            return Err(wrong(
                index + 1,
                "has a time that is negative or above a thousand seconds",
            ));
        }
        phases.push((app, os));
    }
    if phases.is_empty() {
        return Err(wrong(1, "the file has no phases"));
    }
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_mixes_make_the_published_cycles() {
        for name in ["gettid", "web", "ex_tpcb", "tcpstream", "tcpmaerts", "tcpstream-1g"] {
            let workload = named(name).unwrap();
            workload.check().unwrap();
            assert_eq!(workload.name, name);
        }
        assert_eq!(named("specweb"), None);
        let web = named("web").unwrap();
        let busy = web.user_us + web.kernel_us + web.moved_us + web.interrupt_us;
        assert!((busy / web.units - 0.914 * 108.04).abs() < 0.01);
    }

    #[test]
    fn what_strace_wrote_becomes_phases() {
        let text = "1.000000 execve(\"a\") = 0 <0.000500>\n1.000700 fsync(3) = 0 <0.002000>\n\
                    1.002690 write(1, \"<x>\", 3) = 3 <0.000010>\n1.1 exit_group(0) = ?\n+++ exited +++\n";
        let phases = read_trace("t.strace", text.as_bytes()).unwrap();
        let near =
            |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 1e-3 && (b - d).abs() < 1e-3;
        assert_eq!(phases.len(), 3);
        assert!(near(phases[0], (0.0, 500.0)) && near(phases[1], (200.0, 2000.0)));
        assert!(near(phases[2], (0.0, 10.0)));
    }

    #[test]
    fn phases_are_read_or_refused_by_line() {
        let read = |text: &str| read_trace("p.csv", text.as_bytes());
        assert_eq!(read("app_us,os_us\n1,2\n\n# x\n3.5, 4\n").unwrap(), [(1.0, 2.0), (3.5, 4.0)]);
        for wrong in ["1\n", "1,2,3\n", "a,b\n", "1,-2\n", "", "app_us,os_us\n", "1,nan\n"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("p.csv: line 1"), "{error}");
        }
    }
}
