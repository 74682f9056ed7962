//! What can be said of a configuration before the router starts: what a start would refuse, and
//! what it would go on without.

use std::path::Path;

use ebb_control::policies::{self, Points};
use ebb_graph::FRAME_LEN;
use ebb_host::{Sysfs, ethtool, netlink, topology};
use ebb_ports::afxdp::{self, AfXdpError};

use super::{open, placement, start};
use crate::cleartext;
use crate::config::{App, Config, PacketPath, Port, Redirect};
use crate::power::Fitted;
use crate::router::limits;
use crate::tunnel_state;

/// What [`preflight`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// The router refuses to start.
    pub problems: Vec<String>,
    /// It starts; the operator may have meant something else.
    pub warnings: Vec<String>,
    /// Who would forward the packets of each port that is there, and why.
    pub paths: Vec<String>,
}

/// Compares a configuration with the machine and the network namespace it is run in. Changes
/// nothing and needs no privilege.
pub fn preflight(config: &Config) -> Preflight {
    let mut found = Preflight::default();
    if let Err(error) = config.check_files() {
        found.problems.push(format!("{error:#}"));
    }
    match cleartext::ways(config) {
        // Who refused to start again would leave to the kernel what Ebb has encrypted until now.
        Ok(ways) if tunnel_state::has_begun(&config.esp) => found.warnings.extend(ways),
        Ok(ways) => found.problems.extend(ways),
        Err(error) => found.problems.push(format!("esp: {error:#}")),
    }
    let esp = &config.esp;
    if config.apps().contains(&App::Esp) && esp.tunnels.is_empty() && !esp.kernel {
        found.warnings.push(
            "esp.tunnel: apps has \"esp\", but there is no tunnel: nothing is encrypted until one is added (ebb router \
             tunnel add)"
                .into(),
        );
    }
    match placement::workers(config) {
        Ok(cpus) => workers(config, cpus.len(), &mut found),
        Err(error) => found.problems.push(format!("{error:#}")),
    }
    found
}

fn workers(config: &Config, workers: usize, found: &mut Preflight) {
    let online = topology::cpus(&Sysfs::new("/")).map_or(0, |cpus| cpus.len());
    if online > 0 && workers > online {
        found.warnings.push(format!(
            "router.workers: {workers} workers share {online} CPUs: set {online}, more are not \
            faster"
        ));
    }
    let frames = start::frames(config, workers);
    let bytes = *frames.as_ref().unwrap_or(&0) as usize * FRAME_LEN;
    found.problems.extend(frames.err().map(|error| error.to_string()));
    if let Some(memory) = memory().filter(|memory| bytes > *memory) {
        let gib = |bytes: usize| bytes as f64 / (1 << 30) as f64;
        found.problems.push(format!(
            "router.frames: packet memory of {:.1} GiB on a machine with {:.1} GiB: use fewer \
            workers, fewer ports or a smaller `ring`, or set `frames`",
            gib(bytes),
            gib(memory)
        ));
    }
    let limits = limits(workers, 1);
    let points = match &config.power.model {
        Some(path) => Fitted::load(path, workers, &[]).and_then(|fitted| fitted.points(limits)),
        None => Ok(Points::published(limits)),
    };
    match points {
        // What the model lacks for this many workers; a missing file is said already.
        Err(error) if config.power.model.as_deref().is_some_and(Path::exists) => {
            found.problems.push(format!("power.model: {error:#}"));
        }
        Err(_) => {}
        Ok(points) => {
            let mode = &config.router.mode;
            let policy = policies::with_points(mode, limits, &config.powersave, &points);
            found.problems.extend(policy.err().map(|error| format!("router.mode: {error}")));
        }
    }
    for port in &config.ports {
        port_on(port, config, workers as u32, found);
    }
}

fn port_on(port: &Port, config: &Config, workers: u32, found: &mut Preflight) {
    let router = &config.router;
    let (name, redirect) = (port.name.as_str(), router.redirect);
    // By netlink: /sys may show another network namespace than this one.
    let link = netlink::Requests::open().and_then(|mut requests| requests.link_by_name(name));
    let Ok(link) = link else { return };
    let Some(link) = link else {
        found.warnings.push(format!(
            "port {name}: there is no such interface yet; it is opened when it appears"
        ));
        return;
    };
    if let Some(kind @ ("bond" | "team")) = link.kind.as_deref() {
        found.problems.push(aggregate(name, kind));
    }
    if !link.up {
        found.warnings.push(format!(
            "port {name}: the interface is down or without carrier; it is opened when it comes \
            up: ip link set {name} up"
        ));
    }
    let measured = config.power.paths.is_some();
    found.paths.push(format!("port {name}: {}", path_and_reason(port, config, measured)));
    if redirect == Redirect::Rss
        && let Err(error) = open::rss(name, workers)
    {
        found.problems.push(format!("port {name}: {error:#}"));
    }
    let queues = ethtool::Interface::open(name).and_then(|interface| interface.channels());
    if let Ok(queues) = queues
        && redirect == Redirect::Steer
        && queues.receiving() >= workers.max(2)
    {
        found.warnings.push(format!(
            "port {name}: redirect = \"steer\" although the interface has {} receive queues",
            queues.receiving()
        ));
    }
}

fn path_and_reason(port: &Port, config: &Config, measured: bool) -> String {
    let path = match open::path_of(port, config, None) {
        afxdp::PacketPath::Worker => "packets are forwarded by workers",
        afxdp::PacketPath::Kernel if afxdp::forwards_in_driver(&port.name, open::mode_of(port)) => {
            "packets are forwarded in the kernel, in the driver where it can (XDP)"
        }
        afxdp::PacketPath::Kernel => {
            "packets are forwarded in the kernel, before its network stack"
        }
    };
    let reason = match (port.path, port.needs_workers(config)) {
        (PacketPath::Auto, Some(setting)) => format!("because of {setting}"),
        (PacketPath::Auto, None) if measured => {
            "path = \"auto\": at first; then the one that costs less for the load by power.paths"
                .to_owned()
        }
        (PacketPath::Auto, None) => {
            "path = \"auto\": the cheaper path for this interface".to_owned()
        }
        _ => "path in the file".to_owned(),
    };
    format!("{path} ({reason})")
}

/// What the start would say of a port made of other interfaces, which may be down until then.
fn aggregate(name: &str, kind: &str) -> String {
    let refusal = AfXdpError::Aggregate { interface: name.to_owned() };
    format!("port {name} ({kind}): {refusal}")
}

/// Bytes of memory that the machine has.
fn memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Preflight {
        preflight(&Config::from_str("x", text).expect("it parses"))
    }

    #[test]
    fn what_a_start_refuses_is_a_problem_and_the_rest_a_warning() {
        let good = of("[router]\nworkers = 1\n[[port]]\nname = \"lo\"\n");
        let paths = vec![
            "port lo: packets are forwarded by workers (because of router.mode = \"poll\")"
                .to_owned(),
        ];
        let polled = of("[router]\nworkers = 1\nmode = \"poll\"\n[[port]]\nname = \"lo\"\n");
        assert!(good.problems.is_empty() && good.warnings.is_empty(), "{good:?}");
        assert_eq!(polled, Preflight { paths, ..Preflight::default() });
        let absent = of("[router]\nworkers = 1\n[[port]]\nname = \"no-such-port\"\n");
        assert!(absent.problems.is_empty() && absent.warnings[0].contains("no-such-port"));
        let routes =
            of("[router]\nworkers = 1\nroutes_file = \"/no/routes\"\n[[port]]\nname = \"lo\"\n");
        assert!(routes.problems[0].contains("routes_file"), "{routes:?}");
        assert!(routes.problems[0].contains("/no/routes"), "{routes:?}");
        let model =
            of("[router]\nworkers = 1\n[power]\nmodel = \"/no/model\"\n[[port]]\nname = \"lo\"\n");
        assert!(model.problems[0].contains("power.model"), "{model:?}");
        assert_eq!(model.problems.len(), 1, "{model:?}");
        let many = of("[router]\nworkers = 128\n[[port]]\nname = \"lo\"\n");
        let cpus = topology::cpus(&Sysfs::new("/")).expect("CPUs").len();
        assert_eq!(many.warnings.iter().any(|text| text.contains("128 workers")), cpus < 128);
        let cpu = of("[router]\ncpus = [9999]\n[[port]]\nname = \"lo\"\n");
        assert!(cpu.problems[0].contains("CPU 9999"), "{cpu:?}");
        let huge = "[router]\nframes = 16777216\nworkers = 1\n[[port]]\nname = \"lo\"\n";
        let fits = memory().is_some_and(|memory| memory >= (16 << 20) * FRAME_LEN);
        assert_eq!(of(huge).problems.is_empty(), fits);
    }
}
