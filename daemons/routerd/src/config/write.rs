//! From types to text: the configuration in force, as it could be fed back.

use ebb_scenario::Described;
use ebb_scenario::schema::table;
use toml::{Table, Value};

use super::types::{Config, Hop, Port, StaticRoute, StaticTarget};

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
        let mut router = plain(&self.router);
        let mut powersave = plain(&self.powersave);
        let mut governor = plain(&self.governor);
        let model = powersave.remove("model");
        for name in ["batch", "latency_budget_us"] {
            powersave.remove(name);
        }
        router.insert("batch".to_owned(), i64::from(self.powersave.batch).into());
        let budget = i64::from(self.powersave.latency_budget_us);
        governor.insert("latency_budget_us".to_owned(), budget.into());
        section("router", router);
        section("powersave", powersave);
        section("model", model.and_then(|model| model.as_table().cloned()).unwrap_or_default());
        section("governor", governor);
        section("power", plain(&self.power));
        section("limits", plain(&self.limits));
        section("kernel", plain(&self.kernel));
        section("metrics", plain(&self.metrics));
        section("ipfix", plain(&self.ipfix));
        section("esp", plain(&self.esp));
        section("dedup", plain(&self.dedup));
        let mut status = plain(&self.status);
        // What is left out is the default.
        status.entry("socket").or_insert_with(|| "".into());
        section("status", status);
        let mut list = |name: &str, tables: Vec<Table>| {
            if !tables.is_empty() {
                out.insert(name.to_owned(), tables.into());
            }
        };
        let port = |port: &Port| {
            let mut table = plain(port);
            // None is not the router's.
            if port.apps.as_ref().is_some_and(Vec::is_empty) {
                table.insert("apps".to_owned(), Value::Array(Vec::new()));
            }
            table
        };
        list("port", self.ports.iter().map(port).collect());
        list("route", self.routes.iter().map(route).collect());
        let neighbours = self.neighbours.iter().map(|neighbour| {
            let mut table = Table::new();
            put(&mut table, "address", Some(neighbour.address.to_string()));
            put(&mut table, "dev", Some(neighbour.device.clone()));
            put(&mut table, "mac", neighbour.mac.value());
            table
        });
        list("neighbour", neighbours.collect());
        out
    }
}

fn put(table: &mut Table, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        table.insert(key.to_owned(), value.into());
    }
}

/// What is none is left out.
fn plain(of: &impl Described) -> Table {
    let mut table = table(of);
    table.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
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
