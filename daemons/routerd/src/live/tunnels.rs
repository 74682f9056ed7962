//! Tunnels with fixed keys, listed, added and removed while the router runs.
//!
//! What is added becomes a part of the configuration in force: a reload keeps it, and says that the file differs; a
//! program that takes over reads its keys from their files. Neighbours: `tunnel_state` remembers which numbers are used.

use anyhow::{Context, Result, bail, ensure};
use ebb_apps::esp::{Key, Tunnel};
use serde_json::{Value, json};
use tracing::info;

use super::Live;
use crate::api::AddTunnel;
use crate::config::{self, App, EspTunnel};
use crate::{applications, cleartext};

impl Live {
    /// Without keys, and without where these are.
    pub(super) fn tunnel_list(&self) -> Value {
        let list = |nets: &[ipnet::IpNet]| {
            nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let one = |tunnel: &EspTunnel| {
            json!({
                "spi_in": tunnel.spi_in,
                "spi_out": tunnel.spi_out,
                "local": tunnel.local,
                "remote": tunnel.remote,
                "local_prefixes": list(&tunnel.local_prefixes),
                "remote_prefixes": list(&tunnel.remote_prefixes),
                "clear_prefixes": list(&tunnel.clear_prefixes),
                "algorithm": tunnel.algorithm,
                "udp": tunnel.udp,
                "keys": if tunnel.is_lasting() { "in files" } else { "in memory" },
            })
        };
        json!({ "tunnels": self.config.esp.tunnels.iter().map(one).collect::<Vec<_>>() })
    }

    pub(super) fn add_tunnel(&mut self, asked: &AddTunnel) -> Result<Value> {
        ensure!(
            self.config.apps().contains(&App::Esp),
            "router.apps: \"esp\" is not in it: add it and restart the router"
        );
        let folder = asked.folder.as_deref();
        let described = config::read_tunnel("the tunnel", &asked.text, folder)?;
        let at = self.config.esp.tunnels.len();
        let mut with = self.config.clone();
        with.esp.tunnels.push(described.clone());
        with.check_tunnels("the tunnel")?;
        let tunnel = match (&asked.key_out, &asked.key_in) {
            (Some(out), Some(into)) => {
                let key = |field: &str, digits: &str| {
                    Key::from_hex(digits, described.algorithm())
                        .with_context(|| format!("{field}: this is no key of the algorithm"))
                };
                described.keyed(key("key_out", &out.0)?, key("key_in", &into.0)?)
            }
            _ => described.with_keys(at)?,
        };
        self.ensure_no_way(&with, at, "is not added")?;
        self.begin(&tunnel)?;
        info!(spi_in = described.spi_in, remote = %described.remote, code = "EBB-R124", "tunnel added");
        let spi_in = described.spi_in;
        self.config = with;
        self.reserve_addresses();
        Ok(json!({ "added": spi_in }))
    }

    fn begin(&self, tunnel: &Tunnel) -> Result<()> {
        let keeper = self.tunnels.as_ref().context("the router carries no tunnels")?;
        keeper.add(tunnel)
    }

    pub(super) fn remove_tunnel(&mut self, spi_in: u32) -> Result<Value> {
        let tunnels = &self.config.esp.tunnels;
        let Some(at) = tunnels.iter().position(|tunnel| tunnel.spi_in == spi_in) else {
            let known: Vec<String> = tunnels.iter().map(|one| one.spi_in.to_string()).collect();
            let known = if known.is_empty() { "there is none".into() } else { known.join(", ") };
            bail!("spi_in: no tunnel receives with {spi_in}; those that can be removed: {known}");
        };
        // From then on its packets go as the routes say, of which none may lead on.
        self.ensure_no_way(&self.config, at, "is not removed")?;
        let keeper = self.tunnels.as_ref().context("the router carries no tunnels")?;
        let removed = keeper.remove(spi_in);
        let gone = self.config.esp.tunnels.remove(at);
        info!(spi_in, remote = %gone.remote, code = "EBB-R125", "tunnel removed");
        removed.context("it is removed, but what came by it cannot be written down")?;
        self.reserve_addresses();
        Ok(json!({ "removed": spi_in }))
    }

    /// Before it is there, and when it is gone, its packets must not leave in clear.
    fn ensure_no_way(&self, config: &config::Config, at: usize, what: &str) -> Result<()> {
        let field = format!("esp.tunnel[{at}].");
        let ways = cleartext::ways(config)?;
        match ways.into_iter().find(|way| way.starts_with(&field)) {
            Some(way) => bail!("the tunnel {what}: {}", &way[field.len()..]),
            None => Ok(()),
        }
    }

    /// Keys that are in memory alone would be lost, and with them what keeps packets from leaving in clear.
    pub(super) fn ensure_lasting_tunnels(&self) -> Result<()> {
        match self.config.esp.tunnels.iter().find(|tunnel| !tunnel.is_lasting()) {
            Some(tunnel) => bail!(
                "the keys of the tunnel that receives with {} are in memory alone, and would be lost: remove it (ebb router \
                 tunnel remove {0}), or remove it and add it with files of keys",
                tunnel.spi_in
            ),
            None => Ok(()),
        }
    }

    fn reserve_addresses(&mut self) {
        self.sync.reserve(applications::addresses(self.backend.router.applications()));
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        self.sync.turn(&mut *interfaces);
    }
}
