//! Namespaces: the router's, and one for the hosts at the far ends of its ports.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ebb_host::namespace::Namespace;
pub use ebb_lab::test::{ip, must, skip, within};

/// How a lab is wired.
#[derive(Clone, Copy)]
pub struct Wiring {
    /// Ports of the router: `p0` with 10.0.0.1/24, whose host `h0` is 10.0.0.2, and so on.
    pub ports: usize,
    /// Queues of each end.
    pub queues: u32,
    /// IPv6 as well: 2001:db8:N::1/64 and 2001:db8:N::2.
    pub ipv6: bool,
    /// A namespace for each host instead of one for all.
    pub apart: bool,
}

impl Wiring {
    /// That many ports with one queue, IPv4 only.
    pub const fn plain(ports: usize) -> Wiring {
        Wiring { ports, queues: 1, ipv6: false, apart: false }
    }
}

/// See the module. Everything is removed when it is dropped.
pub struct Lab {
    /// Namespace of the router.
    pub router: String,
    hosts: Vec<String>,
    wiring: Wiring,
    /// For configurations, sockets and logs.
    pub directory: PathBuf,
    _spaces: Vec<Namespace>,
    _lab: ebb_lab::Lab,
    _use: Use,
}

/// Where CPU times and losses are measured (tests in [`crate::alone`]) there is no other laboratory.
static MACHINE: RwLock<()> = RwLock::new(());

/// How a test holds the machine.
enum Use {
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Together { _guard: RwLockReadGuard<'static, ()> },
}

impl Use {
    /// As the test's name, which is its thread's, has it.
    fn of_this_test() -> Use {
        let thread = std::thread::current();
        match thread.name().is_some_and(|name| name.starts_with("alone::")) {
            true => Use::Alone { _guard: MACHINE.write().unwrap_or_else(PoisonError::into_inner) },
            false => {
                Use::Together { _guard: MACHINE.read().unwrap_or_else(PoisonError::into_inner) }
            }
        }
    }
}

/// Runs a program and returns what came of it.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// The router's MAC address on a port.
pub fn router_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

/// The host's MAC address on a port.
pub fn host_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl Lab {
    /// Builds it; `None` with the reason printed where that is not permitted.
    pub fn build(wiring: Wiring) -> Option<Lab> {
        let machine = Use::of_this_test();
        let lab = ebb_lab::test::lab("ebb-faults")?;
        let roles: Vec<String> = match wiring.apart {
            true => (0..wiring.ports).map(|port| format!("h{port}")).collect(),
            false => vec!["h".to_owned()],
        };
        let spaces = ["r"].into_iter().chain(roles.iter().map(String::as_str));
        let spaces = spaces.map(|role| lab.namespace(role).expect("a namespace")).collect();
        let lab = Lab {
            router: lab.space("r"),
            hosts: roles.iter().map(|role| lab.space(role)).collect(),
            wiring,
            directory: lab.directory().to_owned(),
            _spaces: spaces,
            _lab: lab,
            _use: machine,
        };
        for namespace in [&lab.router].into_iter().chain(&lab.hosts) {
            let ipv6 = u8::from(!wiring.ipv6);
            let mut settings = vec![
                format!("net.ipv6.conf.all.disable_ipv6={ipv6}"),
                format!("net.ipv6.conf.default.disable_ipv6={ipv6}"),
            ];
            settings.push("net.ipv4.ip_forward=1".into());
            // Of errors to a single host as many as tests like; one of them bounds them again.
            settings.push("net.ipv4.icmp_ratelimit=0".into());
            settings.push("net.ipv6.icmp.ratelimit=0".into());
            if wiring.ipv6 {
                settings.push("net.ipv6.conf.all.forwarding=1".into());
                settings.push("net.ipv6.conf.default.accept_dad=0".into());
            }
            let arguments: Vec<&str> = ["netns", "exec", namespace, "sysctl", "-qw"]
                .into_iter()
                .chain(settings.iter().map(String::as_str))
                .collect();
            must("ip", &arguments);
            must("ip", &["-n", namespace, "link", "set", "lo", "up"]);
        }
        (0..wiring.ports).for_each(|port| lab.wire(port));
        Some(lab)
    }

    /// Makes one port with its host; also after [`Lab::cut`].
    pub fn wire(&self, port: usize) {
        self.wire_with(port, self.wiring.queues);
    }

    /// The same with another number of queues than the others have.
    pub fn wire_with(&self, port: usize, queues: u32) {
        let ipv6 = self.wiring.ipv6;
        let (router, host) = (&self.router, self.host(port));
        let (here, there) = (mac_text(router_mac(port)), mac_text(host_mac(port)));
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        let add = format!(
            "link add name p{port} netns {router} address {here} {count} type veth \
             peer name h{port} netns {host} address {there} {count}"
        );
        let words: Vec<&str> = add.split_whitespace().collect();
        must("ip", &words);
        let mut hosts = format!("link set h{port} up\naddress add 10.0.{port}.2/24 dev h{port}\n");
        let mut own = format!(
            "link set p{port} up\naddress add 10.0.{port}.1/24 dev p{port}\n\
             neighbour replace 10.0.{port}.2 lladdr {there} nud permanent dev p{port}\n"
        );
        if ipv6 {
            hosts += &format!("address add 2001:db8:{port}::2/64 dev h{port} nodad\n");
            own += &format!(
                "address add 2001:db8:{port}::1/64 dev p{port} nodad\n\
                 neighbour replace 2001:db8:{port}::2 lladdr {there} nud permanent dev p{port}\n"
            );
        }
        self.ip_hosts(port, &hosts);
        self.ip(&own);
        if queues > 1 {
            self.spread_by_flow(port);
        }
    }

    /// Has a host choose its transmit queue by flow. Otherwise it is that of the CPU on which the
    /// sender happens to run, and what a sender sends that moves is out of order from the start.
    fn spread_by_flow(&self, port: usize) {
        // SAFETY: no pointers involved.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as u64;
        let mut words = vec!["ffffffff".to_owned(); (cpus / 32) as usize];
        words.insert(0, format!("{:x}", (1u64 << (cpus % 32)) - 1));
        let every = words.join(",");
        let maps = format!("/sys/class/net/h{port}/queues/tx-*/xps_cpus");
        let script = format!("for map in {maps}; do echo {every} >$map || exit 1; done");
        must("ip", &["netns", "exec", self.host(port), "sh", "-c", &script]);
    }

    /// Removes one port with its host.
    pub fn cut(&self, port: usize) {
        self.ip(&format!("link delete p{port}"));
    }

    /// Namespace of a port's host.
    pub fn host(&self, port: usize) -> &str {
        if self.wiring.apart { &self.hosts[port] } else { &self.hosts[0] }
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.wiring.ports
    }

    /// `ip` commands, a line each, in the router's namespace.
    pub fn ip(&self, script: &str) {
        ip(&self.router, script);
    }

    /// `ip` commands, a line each, in the namespace of a port's host.
    pub fn ip_hosts(&self, port: usize, script: &str) {
        ip(self.host(port), script);
    }

    /// Routes 10.N.0.0/16 for hosts behind port N - 100.
    pub fn routes(&self) {
        for port in 0..self.ports() {
            self.ip(&format!("route add 10.{}.0.0/16 via 10.0.{port}.2", 100 + port));
        }
    }

    /// A program's standard output in the router's namespace.
    pub fn inside(&self, program: &[&str]) -> String {
        let arguments: Vec<&str> =
            ["netns", "exec", &self.router].into_iter().chain(program.iter().copied()).collect();
        must("ip", &arguments)
    }

    /// Packets that the router's interface of a port dropped instead of sending them.
    pub fn transmit_dropped(&self, port: usize) -> u64 {
        let statistics = format!("/sys/class/net/p{port}/statistics/tx_dropped");
        let count = self.inside(&["cat", &statistics]);
        count.trim().parse().expect("a number")
    }

    /// Packets that the interfaces themselves dropped.
    pub fn interfaces_dropped(&self) -> u64 {
        let namespaces = [&self.router].into_iter().chain(&self.hosts);
        let dropped = |namespace: &String| -> u64 {
            let text = must("ip", &["-n", namespace, "-s", "-j", "link", "show"]);
            let links: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
            let of = |link: &serde_json::Value, way: &str| {
                link["stats64"][way]["dropped"].as_u64().unwrap_or(0)
            };
            links.iter().map(|link| of(link, "rx") + of(link, "tx")).sum()
        };
        namespaces.map(dropped).sum()
    }

    /// Does `work` in the router's namespace.
    pub fn in_router<T>(&self, work: impl FnOnce() -> T) -> T {
        within(&self.router, work)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for port in 0..self.wiring.ports {
            run("ip", &["-n", &self.router, "link", "del", &format!("p{port}")]);
        }
    }
}
