//! What forwards in a back-end that is a namespace, as threads that can be bound, weighed and confined to
//! parts of a CPU; and what slows such a back-end down.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_host::clock::monotonic;
use ebb_host::process;

use crate::command::{inside, run};

/// How long the kernel may take to start a thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Parts of a CPU are given out once in so long.
const PERIOD: Duration = Duration::from_millis(5);

static ALONE: Mutex<()> = Mutex::new(());

/// Has the interfaces of a namespace received by threads of the kernel, one each, and returns their
/// numbers; `far` is the namespace of their other ends, the caller's own where there is none. What a namespace forwards is then done by threads of its own, like a guest's, and not by
/// whoever sent the packet.
///
/// # Errors
/// Without `ip` and `ethtool`, or when the kernel has no threaded reception for virtual interfaces.
pub fn receiving_threads(
    namespace: &str,
    interfaces: &[&str],
    (far, far_ends): (Option<&str>, &[String]),
) -> Result<Vec<u32>> {
    // New threads are told from others by when they came.
    let _alone = ALONE.lock().expect("nobody panics with it");
    let mut threads = Vec::new();
    for (interface, far_end) in interfaces.iter().zip(far_ends) {
        let before = napi_threads(interface);
        // What comes from an end that could leave segments to the card is not worth a thread to the kernel
        // (veth_skb_is_eligible_for_gro).
        let segments = ["ethtool", "-K", far_end, "tso", "off"];
        match far {
            Some(far) => inside(far, &segments)?,
            None => run(segments[0], &segments[1..], "")?,
        };
        inside(namespace, &["ethtool", "-K", interface, "gro", "on"])?;
        let file = format!("/sys/class/net/{interface}/threaded");
        inside(namespace, &["sh", "-c", &format!("echo 0 > {file}; echo 1 > {file}")])?;
        let begun = monotonic();
        loop {
            let new: Vec<u32> = napi_threads(interface).difference(&before).copied().collect();
            if !new.is_empty() {
                threads.extend(new);
                break;
            }
            ensure!(
                monotonic().since(begun) < PATIENCE,
                "{interface}: the kernel started no thread for it"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(threads)
}

/// Threads of the kernel that receive from interfaces of that name, in whatever namespace.
fn napi_threads(interface: &str) -> BTreeSet<u32> {
    let prefix = format!("napi/{interface}-");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse::<u32>().ok());
    let receives = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(&prefix))
    };
    entries.filter_map(|entry| number(entry.file_name())).filter(receives).collect()
}

/// Binds a thread of any process, or of the kernel, to some CPUs.
///
/// # Errors
/// When there is no such thread or it may not be moved there.
pub fn bind(thread: u32, cpus: &[usize]) -> Result<()> {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    run("taskset", &["-pc", &list.join(","), &thread.to_string()], "").map(|_| ())
}

/// Sets a thread's niceness, -20 (the largest share of its CPU) to 19.
///
/// # Errors
/// When there is no such thread or that is not permitted.
pub fn weigh(thread: u32, niceness: i32) -> Result<()> {
    run("renice", &["-n", &niceness.to_string(), "-p", &thread.to_string()], "").map(|_| ())
}

/// Gives a thread of any process, or of the kernel, a part of a CPU and no more: within each 5 ms, by the
/// deadline scheduler (`SCHED_DEADLINE`: a constant bandwidth server, Abeni and Buttazzo 1998). Quotas of
/// control groups do not hold threads of the kernel since Linux 6.18. Such a thread cannot be bound, and
/// keeps its part until it ends: one that sleeps while it is given back to the fair scheduler leaves what the
/// kernel admits smaller for good (Linux 6.18, `switched_from_dl`).
///
/// # Errors
/// When there is no such thread, when all parts together are more than the kernel admits (95 % of its CPUs),
/// or when this process may not use all CPUs.
pub fn confine(thread: u32, share: f64) -> Result<()> {
    ensure!(share > 0.0 && share <= 1.0, "a share of a CPU is above 0 and at most 1, not {share}");
    bind(thread, &process::allowed_cpus()?)?;
    let [runtime, period] = [PERIOD.mul_f64(share), PERIOD].map(|time| time.as_nanos().to_string());
    let words =
        ["-d", "-T", &runtime, "-D", &period, "-P", &period, "-p", "0", &thread.to_string()];
    run("chrt", &words, "")
        .with_context(|| format!("cannot give thread {thread} {share} of a CPU"))?;
    Ok(())
}

/// How a thread runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// CPUs that it may use.
    pub cpus: Vec<usize>,
    /// -20 to 19.
    pub niceness: i32,
    /// Whether it has a part of a CPU of its own (`SCHED_DEADLINE`).
    pub confined: bool,
}

/// How a thread of any process, or of the kernel, runs now.
///
/// # Errors
/// When there is no such thread.
pub fn placed(thread: u32) -> Result<Placed> {
    let read = |file: &str| {
        let path = format!("/proc/{thread}/{file}");
        fs::read_to_string(&path).with_context(|| path)
    };
    let status = read("status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = list.and_then(cpu_list).with_context(|| format!("/proc/{thread}/status"))?;
    // Behind the name in parentheses, which may hold any character, the state is the third (proc(5)).
    let stat = read("stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let number = |at: usize| fields.get(at - 3).and_then(|field| field.parse::<i32>().ok());
    let niceness = number(19).with_context(|| format!("/proc/{thread}/stat"))?;
    Ok(Placed { cpus, niceness, confined: number(41) == Some(SCHED_DEADLINE) })
}

/// The number of the deadline scheduler (sched(7)).
const SCHED_DEADLINE: i32 = 6;

/// CPUs of a list such as `0-3,7`.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// Takes a part of a CPU from everyone else there, within each 5 ms. Dropping it gives it back.
pub struct Occupant {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Occupant {
    /// Takes `share` of `cpu`, at most 0.9.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(cpu: usize, share: f64) -> Result<Occupant> {
        ensure!((0.0..=0.9).contains(&share), "cannot limit all to {share} of a CPU");
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, busy) = (stop.clone(), PERIOD.mul_f64(share));
        let work = move || {
            _ = process::pin_to(cpu);
            process::before_others(1);
            let mut begun = monotonic();
            while !asked.load(Relaxed) {
                while monotonic().since(begun) < busy {
                    std::hint::spin_loop();
                }
                std::thread::sleep(PERIOD.saturating_sub(monotonic().since(begun)));
                begun = monotonic();
            }
        };
        let thread = std::thread::Builder::new().name("ebb-occupant".into()).spawn(work)?;
        Ok(Occupant { stop, thread: Some(thread) })
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            _ = thread.join();
        }
    }
}

/// Processor time of a thread of any process or of the kernel, in seconds.
///
/// # Errors
/// When there is no such thread.
pub fn cpu_seconds(thread: u32) -> Result<f64> {
    let path = format!("/proc/{thread}/schedstat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let nanos: Option<f64> = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Ok(nanos.with_context(|| format!("{path}: {text}"))? / 1e9)
}

/// Lines for [`tc`](crate::command::tc) that make an interface look at `rules` rules before it takes a packet, as
/// a router that filters does; none of them ever fits. `before`: rules were given to it before.
pub fn filters(interface: &str, rules: u32, before: bool) -> String {
    let mut lines = fresh(interface, before);
    for rule in 0..rules {
        // Addresses of 240.0.0.0/4 belong to nobody (RFC 1112).
        let address = format!("240.{}.{}.{}", rule >> 16 & 255, rule >> 8 & 255, rule & 255);
        lines += &format!(
            "filter add dev {interface} ingress protocol ip prio 1 u32 match ip dst {address}/32 flowid 1:1\n"
        );
    }
    lines
}

/// Lines that give an interface an empty place for rules; `before`: it has one.
pub fn fresh(interface: &str, before: bool) -> String {
    let away = if before { format!("qdisc del dev {interface} clsact\n") } else { String::new() };
    format!("{away}qdisc add dev {interface} clsact\n")
}

/// A line for [`tc`](crate::command::tc) that lets `mbps` through to an interface, and the one that takes that
/// back.
pub fn limit(interface: &str, mbps: Option<f64>) -> String {
    match mbps {
        Some(mbps) => format!(
            "qdisc replace dev {interface} root tbf rate {:.0}kbit burst 16kb latency 20ms\n",
            1000.0 * mbps
        ),
        None => format!("qdisc del dev {interface} root\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_again() {
        assert_eq!(cpu_list(" 0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list("x"), None);
        let ours = process::allowed_cpus().expect("some");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a program");
        let thread = child.id();
        let before = placed(thread);
        let set = bind(thread, &ours[..1]).and_then(|()| weigh(thread, 7));
        let after = placed(thread);
        _ = child.kill();
        _ = child.wait();
        let before = before.expect("it was there");
        assert_eq!((before.cpus, before.confined), (ours.clone(), false));
        set.expect("allowed");
        let wanted = Placed { cpus: vec![ours[0]], niceness: 7, confined: false };
        assert_eq!(after.expect("it was there"), wanted);
    }
}
