//! The same day in the simulator, under the same policy and with the same failure.

use anyhow::Result;
use ebb_control::cluster::ClusterSettings;
use ebb_scenario::Silent;
use ebb_system_cluster::sim::{Outcome, Scenario, run};
use ebb_system_cluster::{Catalogue, Demand};
use serde_json::json;

use super::ClusterDemo;
use super::play::BackEnd;

/// Joules of the live day over the simulator's may be off by this share: wake-ups and decisions take a few
/// tenths of a second of a day that has half a minute.
pub(super) const WITHIN: f64 = 0.15;

/// What the simulator says of a day; capacities and loads are packets per second.
pub(super) fn simulated(
    demo: &ClusterDemo,
    back_ends: &[BackEnd],
    settings: ClusterSettings,
    killed: Option<(&str, f64)>,
) -> Result<Outcome> {
    let mut table =
        "group,capacity_mbps,power_full_w,power_idle_w,price,available,wake_seconds\n".to_owned();
    for one in back_ends {
        let server = &one.server;
        table += &format!(
            "{},{},{},{},0,1,{}\n",
            one.name,
            server.capacity,
            server.full.0,
            server.idle.0,
            server.wake.as_secs_f64()
        );
    }
    let catalogue = Catalogue::parse("back-ends", table.as_bytes())?;
    let steps = demo.steps();
    let length = demo.seconds / steps.len() as f64;
    let demand = Demand::even(length, steps);
    let row = |name: &str| back_ends.iter().position(|one| one.name == name);
    // The first day is not counted: the live one does not begin with all of them on either.
    let planned = killed.and_then(|(name, at)| {
        row(name).map(|server| json!([{ "server": server, "at_s": demo.seconds + at }]))
    });
    let servers: serde_json::Map<String, serde_json::Value> =
        back_ends.iter().map(|one| (one.name.clone(), json!(1))).collect();
    let scenario: Scenario = serde_json::from_value(json!({
        "catalogue": "back-ends", "demand": "the day", "servers": servers, "policy": demo.policy(),
        "settings": serde_json::to_value(settings)?, "days": 2, "days_before": 1, "step_s": 0.0,
        "flows": 2048, "drain_s": 0.01,
        "failures": { "repair_s": 1e9, "planned": planned.unwrap_or(json!([])) },
    }))?;
    Ok(run(&scenario.with(catalogue, demand)?, demo.seed, &Silent)?)
}
