//! Topologies of BookSim 2, with the routing functions that are run on them.

use std::fmt::Write as _;

use super::ConfigError;
use super::config::Config;

/// A network as lines of a scenario.
pub(super) struct Network {
    /// Of its first table.
    pub(super) top: String,
    /// Of the router's.
    pub(super) router: String,
    /// Ports of a router.
    pub(super) ports: u64,
    /// Whether its elements lie in a square, whose patterns are BookSim 2's.
    pub(super) square: bool,
    /// Whether its elements lie in rows and columns of routers with an element each.
    pub(super) grid: bool,
}

impl Network {
    /// Most virtual channels of a port.
    pub(super) fn vcs_max(&self) -> u64 {
        if self.ports <= 8 { 16 } else { 8 }
    }
}

/// The network that a configuration asks for.
pub(super) fn network(config: &Config) -> Result<Network, ConfigError> {
    match config.get("topology")? {
        "mesh" => mesh(config),
        "cmesh" => concentrated(config),
        "torus" => torus(config),
        "fattree" => fat_tree(config),
        "flatfly" => flattened_butterfly(config),
        "dragonflynew" => dragonfly(config),
        "fly" => single_switch(config),
        _ => {
            let known = "mesh, cmesh, torus, fattree, flatfly, dragonflynew or fly";
            Err(config.unsupported("topology", known))
        }
    }
}

/// Rows x columns of a mesh or torus.
fn grid(config: &Config, least: u64) -> Result<(u64, u64), ConfigError> {
    let k = config.within("k", (least, 256), "2 to 256 routers in a row, 3 at least in a ring")?;
    match config.whole("n")? {
        1 => Ok((1, k)),
        2 => Ok((k, k)),
        _ => Err(config.unsupported("n", "one or two dimensions")),
    }
}

/// One element at each router.
fn no_concentration(config: &Config) -> Result<(), ConfigError> {
    config.within("c", (1, 1), "one element at each router").map(|_| ())
}

fn routing(config: &Config, known: &[&str], remedy: &'static str) -> Result<(), ConfigError> {
    let named = config.get("routing_function")?;
    if known.contains(&named) {
        Ok(())
    } else {
        Err(config.unsupported("routing_function", remedy))
    }
}

fn mesh(config: &Config) -> Result<Network, ConfigError> {
    no_concentration(config)?;
    let known = ["dor", "dim_order", "dor_mesh", "dim_order_mesh"];
    if config.whole("n")? > 2 {
        routing(config, &known, "dor or dim_order in more than two dimensions")?;
        return mesh_of(config);
    }
    let (rows, cols) = grid(config, 2)?;
    let romm = config.get("routing_function")? == "romm";
    if !romm {
        routing(config, &known, "dor, dim_order or romm")?;
    }
    let mut top = format!("mesh = \"{rows}x{cols}\"\ntorus = false");
    if romm {
        even_channels(config)?;
        top.push_str("\nrouting = \"romm\"");
    }
    let router = "link = 1".to_owned();
    Ok(Network { top, router, ports: 5, square: rows == cols, grid: true })
}

/// `cmesh.cpp`: 2 x 2 elements at ports of their own at each router. Its links around the rim are not taken by
/// routes without express channels; the others are as long as the elements that they pass.
fn concentrated(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 128), "2 to 128 routers in a row")?;
    config.within("n", (2, 2), "two dimensions")?;
    config.within("c", (4, 4), "4 elements at a router")?;
    // BookSim 2 itself looks at these two only to see that they are alike.
    if config.whole("x")? != config.whole("y")? {
        return Err(config.unsupported("x", "as many as y"));
    }
    config.within("xr", (2, 2), "2 elements in a row at a router")?;
    config.within("yr", (2, 2), "2 elements in a column at a router")?;
    let express = config.get("routing_function")? == "dor";
    if !express {
        routing(config, &["dor_no_express", "dor_no_express_cmesh"], "dor or dor_no_express")?;
    }
    if !k.is_power_of_two() {
        return Err(config.unsupported("k", "a power of two"));
    }
    let link = if config.whole("use_noc_latency")? == 1 { 2 } else { 1 };
    let all = 2 * k;
    let mut router = format!("link = {link}\nelement_link = 1");
    let mut top = format!("mesh = \"{all}x{all}\"\n");
    if express {
        config.within("k", (4, 32), "4 to 32 routers in a row with express links")?;
        write!(top, "topology = \"express-mesh:{k}\"\nrouting = \"minimal\"").expect("memory");
        write!(router, "\nlink_by_length = {}", link == 2).expect("memory");
    } else {
        top.push_str("concentration = \"2x2\"\nown_ports = true");
    }
    Ok(Network { top, router, ports: 8, square: true, grid: false })
}

/// `kncube.cpp`: every link of a torus takes two cycles where lengths count, as its rings are folded.
fn torus(config: &Config) -> Result<Network, ConfigError> {
    let (rows, cols) = grid(config, 3)?;
    no_concentration(config)?;
    routing(config, &["dim_order", "dim_order_torus"], "dim_order")?;
    even_channels(config)?;
    let link = if config.whole("use_noc_latency")? == 1 { 2 } else { 1 };
    let top = format!("mesh = \"{rows}x{cols}\"\ntorus = true\nrouting = \"xy-dateline\"");
    let router = format!("link = {link}\nelement_link = 1");
    Ok(Network { top, router, ports: 5, square: rows == cols, grid: true })
}

/// `fattree.cpp`: k-ary n-tree, elements numbered along the last level.
fn fat_tree(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 8), "2 to 8 links down")?;
    let n = config.within("n", (1, 16), "1 to 16 levels")? as u32;
    routing(config, &["nca"], "nca")?;
    let (rows, cols) = (k.pow(n / 2), k.pow(n.div_ceil(2)));
    if cols > 256 {
        return Err(config.unsupported("n", "65,536 elements at most"));
    }
    let top =
        format!("mesh = \"{rows}x{cols}\"\nfat_tree = \"{k}x{n}\"\nrouting = \"nearest-ancestor\"");
    let router = "link = 1".to_owned();
    Ok(Network { top, router, ports: 2 * k, square: rows == cols, grid: false })
}

/// Two phases of a way need half of the channels each.
fn even_channels(config: &Config) -> Result<(), ConfigError> {
    if config.whole("num_vcs")?.is_multiple_of(2) {
        return Ok(());
    }
    let remedy = "an even number: the routes need two halves, as behind a ring's dateline";
    Err(config.unsupported("num_vcs", remedy))
}

/// Elements in rows and columns, as square as may be, of at most 256 each.
fn rows_of(elements: u64) -> (u64, u64) {
    let rows = (1..=256).take_while(|rows| rows * rows <= elements);
    let rows = rows.filter(|rows| elements.is_multiple_of(*rows)).last().unwrap_or(1);
    (rows, elements / rows)
}

/// `kncube.cpp` in more than two dimensions.
fn mesh_of(config: &Config) -> Result<Network, ConfigError> {
    let n = config.within("n", (3, 7), "one to seven dimensions")?;
    let k = config.within("k", (2, 16), "2 to 16 routers along each of so many dimensions")?;
    let (rows, cols) = match k.checked_pow(n as u32).filter(|elements| *elements <= 4096) {
        Some(elements) => rows_of(elements),
        None => return Err(config.unsupported("n", "4,096 routers at most")),
    };
    let top =
        format!("mesh = \"{rows}x{cols}\"\ntopology = \"mesh:{k}^{n}\"\nrouting = \"minimal\"");
    let router = "link = 1".to_owned();
    Ok(Network { top, router, ports: 2 * n + 1, square: rows == cols, grid: false })
}

/// `dragonfly.cpp`: links of ten cycles within a group, of a hundred between groups.
fn dragonfly(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 4), "2 to 4 elements at a router")?;
    config.within("n", (1, 1), "one dimension, as BookSim 2 itself demands")?;
    routing(config, &["min"], "min")?;
    config.within("num_vcs", (2, 8), "2 to 8, of which its routes take two")?;
    let (rows, cols) = rows_of(2 * k * k * (2 * k * k + 1));
    let top =
        format!("mesh = \"{rows}x{cols}\"\ntopology = \"dragonfly:{k}\"\nrouting = \"minimal\"");
    let router = "link = 10\nelement_link = 1\nlink_by_length = true".to_owned();
    Ok(Network { top, router, ports: 4 * k - 1, square: rows == cols, grid: false })
}

/// `fly.cpp` of one stage: a switch.
fn single_switch(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 16), "2 to 16 ports")?;
    config.within("n", (1, 1), "one stage")?;
    routing(config, &["dest_tag"], "dest_tag")?;
    let (rows, cols) = rows_of(k);
    let top = format!("mesh = \"{rows}x{cols}\"\ntopology = \"switch:{k}\"\nrouting = \"minimal\"");
    let router = "link = 1".to_owned();
    Ok(Network { top, router, ports: k, square: rows == cols, grid: false })
}

/// `flatfly_onchip.cpp`: k x k routers, or k in a row, each with a square of elements at ports of their own.
fn flattened_butterfly(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 8), "2 to 8 routers in a row")?;
    let n = config.within("n", (1, 2), "one or two dimensions")?;
    config.within("x", (k, k), "as many as k")?;
    if n == 2 {
        config.within("y", (k, k), "as many as k")?;
    }
    let side = config.within("xr", (1, 3), "1 to 3 elements in a row at a router")?;
    config.within("yr", (side, side), "as many as xr")?;
    let elements = side * side;
    config.within("c", (elements, elements), "xr times yr")?;
    let ports = n * (k - 1) + elements;
    if ports > 15 {
        return Err(
            config.unsupported("c", "routers of 15 ports at most, those to elements included")
        );
    }
    let ours = match config.get("routing_function")? {
        "ran_min" => "xy",
        "valiant" => "valiant",
        "ugal" => "ugal",
        "adaptive_xyyx" => "turn-credits",
        _ => {
            let known = "ran_min, valiant, ugal or adaptive_xyyx";
            return Err(config.unsupported("routing_function", known));
        }
    };
    if ours != "xy" {
        even_channels(config)?;
    }
    if ours != "xy" && ours != "valiant" {
        let remedy = "1: BookSim 2 looks at another moment's queues with 0";
        config.within("routing_delay", (1, 1), remedy)?;
    }
    let (rows, cols) = (if n == 1 { side } else { k * side }, k * side);
    let by_length = config.whole("use_noc_latency")? == 1;
    let top = format!(
        "mesh = \"{rows}x{cols}\"\nbutterfly = true\nconcentration = \"{side}x{side}\"\n\
         own_ports = true\nrouting = \"{ours}\""
    );
    let router = format!("link = 1\nelement_link = 1\nlink_by_length = {by_length}");
    Ok(Network { top, router, ports, square: rows == cols, grid: false })
}
