//! All daemons beside the router in one lab: circuits on the ports 3 to 8, 13 and 14, a cluster on 9 to 12.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ebb_lab::Program;

use super::lab::{Lab, run};
use super::router::{PATIENCE, binary, until};

/// Sends frames of IPv4 by a packet socket: INTERFACE MAC SOURCE DESTINATION SECONDS.
const SEND: &str = "
import socket, struct, sys, time
interface, mac, source, destination, seconds = sys.argv[1:]
head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 1228, 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(destination))
total = sum(struct.unpack('!10H', head))
total = (total & 0xffff) + (total >> 16)
total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack('!H', total ^ 0xffff) + head[12:]
frame = bytes.fromhex(mac.replace(':', '')) + bytes.fromhex('0200000001ff0800') + head
frame += struct.pack('!HHHH', 1000, 2000, 1208, 0) + bytes(1200)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((interface, 0))
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    for _ in range(20):
        try:
            out.send(frame)
        except OSError:
            pass
    time.sleep(0.002)
";

/// A lab with 15 ports in which these daemons are started.
pub struct Daemons {
    pub lab: Lab,
}

impl Daemons {
    /// With one network of control behind the ports that hear and give schedules.
    pub fn new(lab: Lab) -> Daemons {
        lab.ip_hosts(
            4,
            "link add sync type bridge\nlink set sync up\nlink set h4 master sync\nlink set h6 master sync\n\
             link set h7 master sync\nlink set h13 master sync\n",
        );
        Daemons { lab }
    }

    /// Where a file of the lab is.
    pub fn at(&self, name: &str) -> String {
        self.lab.directory.join(name).display().to_string()
    }

    /// Starts a program beside the router.
    pub fn start(&self, name: &str, words: &[&str]) -> Program {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.lab.router, "setpriv", "--pdeathsig", "KILL"]);
        command.args(words);
        Program::start(name, &mut command, Path::new(&self.at(&format!("{name}.log"))))
            .expect("ip runs")
    }

    /// Starts the command.
    pub fn daemon(&self, name: &str, words: &[&str]) -> Program {
        let binary = binary();
        self.start(name, &[&[binary.as_str()], words].concat())
    }

    /// Sends for so many seconds from the far end of a port.
    pub fn send(&self, port: usize, mac: &str, way: [&str; 2], seconds: &str) {
        let mut sender = self.stream(port, mac, way, seconds);
        let ended = until(PATIENCE, || sender.ended().expect("a child").is_some());
        assert!(ended, "{}", sender.log());
    }

    /// The same, while other things happen: until it is dropped, or the seconds are over.
    pub fn stream(&self, port: usize, mac: &str, way: [&str; 2], seconds: &str) -> Program {
        let interface = format!("h{port}");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.lab.host(port), "setpriv", "--pdeathsig", "KILL"]);
        command.args(["python3", "-c", SEND, &interface, mac, way[0], way[1], seconds]);
        let log = self.at(&format!("send{port}.log"));
        Program::start("python3", &mut command, Path::new(&log)).expect("ip runs")
    }

    /// `tor.toml`, `ocs.toml`, and `forger.toml`, which has another token.
    pub fn configure_circuits(&self) {
        let (token, other) = (self.at("token"), self.at("other"));
        for (file, words) in
            [(&token, "what only these racks know\n"), (&other, "what somebody made up\n")]
        {
            fs::write(file, words).expect("a token");
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        let at = |name: &str| self.at(name);
        let tor = format!(
            "[tor]\nlink_mbps = 1000\nqueue_kb = 64\nrotation_ms = 100\ntoken_file = \"{token}\"\ncontrol = \"p4\"\n\
             metrics = \"127.0.0.1:9465\"\nsocket = \"{}\"\n\
             [[rack]]\nnumber = 0\nuplink = \"p3\"\n[[rack.host]]\nname = \"p5\"\n\
             prefixes = [\"10.77.0.0/24\"]\nown = [\"10.77.0.1\"]\n[[remote]]\nrack = 1\nprefixes = [\"10.77.1.0/24\"]\n",
            at("tor.sock")
        );
        fs::write(at("tor.toml"), tor).expect("a configuration");
        for (name, token, control) in [("ocs", &token, "p6"), ("forger", &other, "p13")] {
            let ocs = format!(
                "[ocs]\nlink_mbps = 1000\ntoken_file = \"{token}\"\ncontrol = \"p7\"\nsocket = \"{}\"\n\
                 metrics = \"127.0.0.1:9466\"\n\
                 [[port]]\nrack = 0\nname = \"p8\"\n[[port]]\nrack = 1\nname = \"p14\"\n\
                 [controller]\ntoken_file = \"{token}\"\nracks = 2\nday_us = 2000.0\nnight_us = 200.0\nlead_ms = 20.0\n\
                 control = \"{control}\"\nsocket = \"{}\"\n",
                at("ocs.sock"),
                at(&format!("{name}-control.sock"))
            );
            fs::write(at(&format!("{name}.toml")), ocs).expect("a configuration");
        }
    }

    /// `cluster.toml`, with a store, the interfaces to the segments, and what keeps its one back-end.
    pub fn configure_cluster(&self, store: &str, inside: [&str; 2], keep: &str) {
        let side = |side: usize| {
            format!(
                "[[side]]\nmac = \"02:eb:b0:00:0{side}:10\"\naddresses = [\"10.78.{side}.1/24\"]\n\
                 probe = \"10.78.{side}.240\"\n"
            )
        };
        let cluster = format!(
            "[cluster]\nname = \"alerts\"\nsocket = \"{}\"\ntoken_file = \"{}\"\nmetrics = \"127.0.0.1:9467\"\n\
             [store]\n{store}\n[policy]\nname = \"all\"\n{}{}\
             [[back_end]]\nname = \"r0\"\nmacs = [\"02:eb:b0:01:00:00\", \"02:eb:b0:01:00:01\"]\n\
             [[member]]\nname = \"m\"\nleader = true\n\
             [member.balancer]\noutside = [\"p9\", \"p10\"]\ninside = {inside:?}\n\
             [[member.keep]]\nback_end = \"r0\"\n{keep}\n",
            self.at("cluster.sock"),
            self.at("token"),
            side(0),
            side(1),
        );
        fs::write(self.at("cluster.toml"), cluster).expect("a configuration");
    }

    /// What an interface of the far ends has sent and received, in frames.
    pub fn counts(&self, interface: &str) -> [u64; 2] {
        let words = ["-n", self.lab.host(0), "-j", "-s", "link", "show", interface];
        let shown = run("ip", &words).stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        ["tx", "rx"].map(|way| shown[0]["stats64"][way]["packets"].as_u64().expect("a number"))
    }
}
