//! The router over real interfaces: beside routing daemons, under churn, under faults, killed, and
//! under its governor. `docs/faults.md` states what these tests hold it to.
//!
//! Every test has namespaces of its own, `ebb-faults-PID-...`, and removes them. Without the
//! privileges a test says why it is skipped; with `CI=true` it has to run.

#[path = "live/mod.rs"]
mod live;

#[cfg(feature = "systems")]
#[path = "live/alerts.rs"]
mod alerts;
#[path = "live/churn.rs"]
mod churn;
#[path = "live/crash.rs"]
mod crash;
#[cfg(feature = "systems")]
#[path = "live/dashboard.rs"]
mod dashboard;
#[path = "live/edge_router.rs"]
mod edge_router;
#[path = "live/faults.rs"]
mod faults;
#[path = "live/first_day.rs"]
mod first_day;
#[path = "live/governor.rs"]
mod governor;
#[path = "live/hosts.rs"]
mod hosts;
#[path = "live/kernel_cpus.rs"]
mod kernel_cpus;
#[path = "live/order.rs"]
mod order;
#[path = "live/paths.rs"]
mod paths;
#[path = "live/policy.rs"]
mod policy;
#[path = "live/reload.rs"]
mod reload;
#[path = "live/routing.rs"]
mod routing;
#[path = "live/start.rs"]
mod start;
#[path = "live/tables.rs"]
mod tables;
#[path = "live/unit.rs"]
mod unit;
#[path = "live/upgrade.rs"]
mod upgrade;
