//! From types to text: the configuration in force, as it could be fed back.

use toml::{Table, Value};

use super::types::{Config, Hop, Port, StaticRoute, StaticTarget, Vlan};

impl Config {
    /// As a table of TOML with every value spelled out; reading it gives the same configuration.
    ///
    /// ```
    /// use ebb_routerd::config::Config;
    /// let config = Config::from_str("a", "[[port]]\nname = \"eth1\"\n")?;
    /// let again = Config::from_str("b", &config.to_table().to_string())?;
    /// assert_eq!(again, config);
    /// # Ok::<(), ebb_routerd::config::ConfigError>(())
    /// ```
    pub fn to_table(&self) -> Table {
        let mut out = Table::new();
        let mut section = |name: &str, table: Table| {
            if !table.is_empty() {
                out.insert(name.to_owned(), table.into());
            }
        };
        section("router", self.router_table());
        let mut powersave = plain(&self.powersave);
        let model = powersave.remove("model");
        // Stands in [governor], for it is for every policy.
        powersave.remove("latency_budget_us");
        section("powersave", powersave);
        section("model", model.and_then(|model| model.as_table().cloned()).unwrap_or_default());
        section("governor", self.governor_table());
        let mut power = Table::new();
        put(&mut power, "model", self.power.model.as_ref().map(|path| shown(path)));
        put(&mut power, "paths", self.power.paths.as_ref().map(|path| shown(path)));
        section("power", power);
        section("limits", plain(&self.limits));
        let mut kernel = Table::new();
        let ignore = &self.kernel.ignore;
        put(&mut kernel, "ignore", Value::try_from(ignore).ok().filter(|_| !ignore.is_empty()));
        section("kernel", kernel);
        let mut metrics = Table::new();
        put(&mut metrics, "listen", self.metrics.listen.map(|address| address.to_string()));
        section("metrics", metrics);
        section("ipfix", plain(&self.ipfix));
        section("esp", plain(&self.esp));
        section("dedup", plain(&self.dedup));
        let mut status = Table::new();
        let socket = self.status.socket.as_ref().map(|path| shown(path)).unwrap_or_default();
        put(&mut status, "socket", Some(socket));
        section("status", status);
        let mut list = |name: &str, tables: Vec<Table>| {
            if !tables.is_empty() {
                out.insert(name.to_owned(), tables.into());
            }
        };
        list("port", self.ports.iter().map(port).collect());
        list("route", self.routes.iter().map(route).collect());
        let neighbours = self.neighbours.iter().map(|neighbour| {
            let mut table = Table::new();
            put(&mut table, "address", Some(neighbour.address.to_string()));
            put(&mut table, "dev", Some(neighbour.device.clone()));
            put(&mut table, "mac", Some(mac(neighbour.mac)));
            table
        });
        list("neighbour", neighbours.collect());
        out
    }

    fn router_table(&self) -> Table {
        let router = &self.router;
        let mut table = Table::new();
        put(&mut table, "workers", router.workers.map(i64::from));
        if !router.cpus.is_empty() {
            let cpus: Vec<i64> = router.cpus.iter().map(|cpu| i64::from(*cpu)).collect();
            put(&mut table, "cpus", Some(cpus));
        }
        put(&mut table, "mode", Some(router.mode.clone()));
        put(&mut table, "redirect", Value::try_from(router.redirect).ok());
        put(
            &mut table,
            "apps",
            Value::try_from(&router.apps).ok().filter(|_| !router.apps.is_empty()),
        );
        put(&mut table, "frames", router.frames.map(i64::from));
        put(&mut table, "routes_file", router.routes_file.as_ref().map(|path| shown(path)));
        table
    }

    fn governor_table(&self) -> Table {
        let governor = &self.governor;
        let mut table = Table::new();
        put(&mut table, "frequency", Some(governor.frequency));
        put(&mut table, "idle", Some(governor.idle));
        put(&mut table, "latency_budget_us", Some(i64::from(self.powersave.latency_budget_us)));
        put(&mut table, "sysfs_root", Some(shown(&governor.sysfs_root)));
        put(&mut table, "journal_directory", Some(shown(&governor.journal_directory)));
        put(&mut table, "interrupts", Some(governor.interrupts));
        put(&mut table, "moderation", Value::try_from(governor.moderation).ok());
        put(&mut table, "kernel_full_percent", Some(i64::from(governor.kernel_full_percent)));
        put(&mut table, "record", governor.record.as_ref().map(|path| shown(path)));
        table
    }
}

fn put(table: &mut Table, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        table.insert(key.to_owned(), value.into());
    }
}

fn plain(of: &impl serde::Serialize) -> Table {
    Table::try_from(of).expect("numbers and switches")
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}

fn mac([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn nets(nets: &[ipnet::IpNet]) -> Option<Vec<String>> {
    (!nets.is_empty()).then(|| nets.iter().map(ToString::to_string).collect())
}

fn port(port: &Port) -> Table {
    let mut table = Table::new();
    put(&mut table, "name", Some(port.name.clone()));
    put(&mut table, "path", Value::try_from(port.path).ok());
    put(&mut table, "xdp", Value::try_from(port.xdp).ok());
    put(&mut table, "zero_copy", Value::try_from(port.zero_copy).ok());
    put(&mut table, "checksums", Value::try_from(port.checksums).ok());
    put(&mut table, "queues", port.queues.map(i64::from));
    put(&mut table, "fill", port.fill.map(i64::from));
    put(&mut table, "ring", Some(i64::from(port.ring)));
    put(&mut table, "mac", port.mac.map(mac));
    put(&mut table, "address", nets(&port.address));
    put(&mut table, "mtu", Some(i64::from(port.mtu)));
    if !port.vlan.is_empty() {
        let vlan = |vlan: &Vlan| {
            let mut table = Table::new();
            put(&mut table, "id", Some(i64::from(vlan.id)));
            put(&mut table, "address", nets(&vlan.address));
            Value::Table(table)
        };
        put(&mut table, "vlan", Some(port.vlan.iter().map(vlan).collect::<Vec<_>>()));
    }
    table
}

fn route(route: &StaticRoute) -> Table {
    let mut table = Table::new();
    put(&mut table, "to", Some(route.to.to_string()));
    match &route.target {
        StaticTarget::Via(hops) => {
            let hop = |hop: &Hop| {
                let mut table = Table::new();
                put(&mut table, "gateway", Some(hop.gateway.to_string()));
                put(&mut table, "dev", Some(hop.device.clone()));
                put(&mut table, "weight", Some(i64::from(hop.weight)));
                Value::Table(table)
            };
            put(&mut table, "via", Some(hops.iter().map(hop).collect::<Vec<_>>()));
        }
        StaticTarget::Device(device) => put(&mut table, "dev", Some(device.clone())),
        StaticTarget::Blackhole => put(&mut table, "kind", Some("blackhole")),
        StaticTarget::Unreachable => put(&mut table, "kind", Some("unreachable")),
        StaticTarget::Prohibit => put(&mut table, "kind", Some("prohibit")),
        StaticTarget::Kernel => put(&mut table, "kind", Some("kernel")),
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_fed_back() {
        let minimal = "[[port]]\nname = \"eth1\"\n[status]\nsocket = \"\"\n";
        for text in [Config::example(), minimal] {
            let config = Config::from_str("in", text).expect("right");
            let shown = config.to_table().to_string();
            let again = Config::from_str("out", &shown);
            assert_eq!(again.expect("what is shown can be read"), config, "{shown}");
        }
    }
}
