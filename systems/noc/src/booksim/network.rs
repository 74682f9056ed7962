//! Topologies of BookSim 2, with the routing functions that are run on them.

use super::ConfigError;
use super::config::Config;

/// A network as lines of a scenario.
pub(super) struct Network {
    /// Of its first table.
    pub(super) top: String,
    /// Of the router's.
    pub(super) router: String,
    /// Most virtual channels of a port.
    pub(super) vcs_max: u64,
    /// Whether its elements lie in a square, whose patterns are BookSim 2's.
    pub(super) square: bool,
}

/// The network that a configuration asks for.
pub(super) fn network(config: &Config) -> Result<Network, ConfigError> {
    match config.get("topology")? {
        "mesh" => mesh(config),
        "cmesh" => concentrated(config),
        "torus" => torus(config),
        "fattree" => fat_tree(config),
        "flatfly" => flattened_butterfly(config),
        _ => Err(config.unsupported("topology", "mesh, cmesh, torus, fattree or flatfly")),
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
    let (rows, cols) = grid(config, 2)?;
    no_concentration(config)?;
    let known = ["dor", "dim_order", "dor_mesh", "dim_order_mesh"];
    routing(config, &known, "dor or dim_order")?;
    let top = format!("mesh = \"{rows}x{cols}\"\ntorus = false");
    Ok(Network { top, router: "link = 1".to_owned(), vcs_max: 16, square: rows == cols })
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
    routing(config, &["dor_no_express", "dor_no_express_cmesh"], "dor_no_express")?;
    if !k.is_power_of_two() {
        return Err(config.unsupported("k", "a power of two"));
    }
    let link = if config.whole("use_noc_latency")? == 1 { 2 } else { 1 };
    let all = 2 * k;
    let top = format!("mesh = \"{all}x{all}\"\nconcentration = \"2x2\"\nown_ports = true");
    let router = format!("link = {link}\nelement_link = 1");
    Ok(Network { top, router, vcs_max: 16, square: true })
}

/// `kncube.cpp`: every link of a torus takes two cycles where lengths count, as its rings are folded.
fn torus(config: &Config) -> Result<Network, ConfigError> {
    let (rows, cols) = grid(config, 3)?;
    no_concentration(config)?;
    routing(config, &["dim_order", "dim_order_torus"], "dim_order")?;
    let even = config.whole("num_vcs")?.is_multiple_of(2);
    if !even {
        let remedy = "an even number, half of them for packets that cross a ring's dateline";
        return Err(config.unsupported("num_vcs", remedy));
    }
    let link = if config.whole("use_noc_latency")? == 1 { 2 } else { 1 };
    let top = format!("mesh = \"{rows}x{cols}\"\ntorus = true\nrouting = \"xy-dateline\"");
    let router = format!("link = {link}\nelement_link = 1");
    Ok(Network { top, router, vcs_max: 16, square: rows == cols })
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
    let vcs_max = if k > 4 { 8 } else { 16 };
    Ok(Network { top, router: "link = 1".to_owned(), vcs_max, square: rows == cols })
}

/// `flatfly_onchip.cpp`: k x k routers, each with a square of elements at ports of their own.
fn flattened_butterfly(config: &Config) -> Result<Network, ConfigError> {
    let k = config.within("k", (2, 8), "2 to 8 routers in a row")?;
    config.within("n", (2, 2), "two dimensions")?;
    config.within("x", (k, k), "as many as k")?;
    config.within("y", (k, k), "as many as k")?;
    let side = config.within("xr", (1, 3), "1 to 3 elements in a row at a router")?;
    config.within("yr", (side, side), "as many as xr")?;
    let elements = side * side;
    config.within("c", (elements, elements), "xr times yr")?;
    if 2 * (k - 1) + elements > 15 {
        return Err(
            config.unsupported("c", "routers of 15 ports at most, those to elements included")
        );
    }
    routing(config, &["ran_min"], "ran_min")?;
    let all = k * side;
    let by_length = config.whole("use_noc_latency")? == 1;
    let top = format!(
        "mesh = \"{all}x{all}\"\nbutterfly = true\nconcentration = \"{side}x{side}\"\nown_ports = true"
    );
    let router = format!("link = 1\nelement_link = 1\nlink_by_length = {by_length}");
    Ok(Network { top, router, vcs_max: 8, square: true })
}
