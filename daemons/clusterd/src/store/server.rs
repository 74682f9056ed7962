//! An etcd of one's own, for demonstrations and tests.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_host::clock::monotonic;

use super::Etcd;
use crate::config::{StoreConfig, StoreKind};

/// How long it may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// A single etcd on the loopback interface. Dropping it ends it.
#[derive(Debug)]
pub struct EtcdServer {
    child: Child,
    endpoint: String,
    version: String,
}

impl EtcdServer {
    /// Whether the program is there (Debian: `etcd-server`).
    pub fn installed() -> bool {
        let mut command = Command::new("etcd");
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Starts one that keeps its data in `directory`, which exists, and waits until it answers.
    ///
    /// # Errors
    /// When it does not, with its last words.
    pub fn start(directory: &Path) -> Result<EtcdServer> {
        let port = || -> Result<u16> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
        let client = format!("http://127.0.0.1:{}", port()?);
        let peer = format!("http://127.0.0.1:{}", port()?);
        let log = directory.join("etcd.log");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.join("etcd"));
        command.args(["--name", "ebb", "--logger", "zap", "--log-level", "error"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("ebb={peer}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn().context("cannot start etcd")?;
        let mut server = EtcdServer { child, endpoint: client, version: String::new() };
        let mut store = Etcd::new(&server.options(), "probe", START_PATIENCE)?;
        let begun = monotonic();
        loop {
            if let Ok(version) = store.version() {
                server.version = version;
                return Ok(server);
            }
            let ended = server.child.try_wait()?.is_some();
            if ended || monotonic().since(begun) > START_PATIENCE {
                let words = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("etcd does not answer: {}", words.lines().last().unwrap_or("no message"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// How it is reached.
    pub fn options(&self) -> StoreConfig {
        StoreConfig {
            kind: StoreKind::Etcd,
            endpoints: vec![self.endpoint.clone()],
            ..StoreConfig::default()
        }
    }

    /// The version that it says it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
