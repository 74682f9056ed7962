//! Commands of the status socket, carried out on the control thread.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_capture::Filter;
use ebb_control::policies;
use ebb_host::clock::monotonic;
use serde_json::{Value, json};
use tracing::info;

use super::Live;
use crate::api::Command;
use crate::router::Router;
use crate::tap::CapturePoint;

/// Longest that one `capture` answer is collected.
const CAPTURE_TURN: Duration = Duration::from_millis(500);

impl Live {
    pub(super) fn command(&mut self, command: Command, answer: &SyncSender<Result<Value, String>>) {
        let result = match command {
            Command::Capture { port, count, place, filter } => {
                let answer = answer.clone();
                let result = self.start_capture(&port, place, filter, count);
                if result.is_ok() {
                    let router = self.backend.router.clone();
                    std::thread::spawn(move || _ = answer.send(Ok(collect(&router))));
                    return;
                }
                result.map(|()| Value::Null)
            }
            Command::Upgrade { program } => match self.start_upgrade(program, answer.clone()) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            other => self.answer(other),
        };
        _ = answer.send(result.map_err(|error| format!("{error:#}")));
    }

    fn answer(&mut self, command: Command) -> Result<Value> {
        match command {
            Command::Config => {
                let table = self.config.to_table();
                Ok(json!({ "path": self.path, "toml": table.to_string(), "config": table }))
            }
            Command::Routes { prefix, limit } => Ok(self.sync.routes(prefix, limit)),
            Command::Neighbours => Ok(self.sync.neighbours()),
            Command::NextHops => {
                let router = &self.backend.router;
                Ok(self.sync.next_hops(|number| router.next_hop_volume(number)))
            }
            Command::Lookup { address } => Ok(self.sync.lookup(address)),
            Command::SetMode(_) | Command::Reload if self.upgrade.is_some() => {
                anyhow::bail!("an upgrade is running; try again afterwards")
            }
            Command::SetMode(mode) => {
                self.set_mode(&mode)?;
                self.follow_paths();
                Ok(json!({ "mode": mode }))
            }
            Command::Reload => self.reload().map(|report| report.json()),
            Command::Capture { .. } | Command::Upgrade { .. } => {
                unreachable!("answered elsewhere")
            }
        }
    }

    pub(super) fn set_mode(&mut self, mode: &str) -> Result<()> {
        let limits = self.backend.router.limits();
        let policy = policies::with_points(mode, limits, &self.config.powersave, &self.points)?;
        self.backend.router.set_policy(mode, policy);
        mode.clone_into(&mut self.config.router.mode);
        info!(mode, "policy changed");
        Ok(())
    }

    fn start_capture(
        &self,
        name: &str,
        place: CapturePoint,
        filter: Option<Filter>,
        count: u32,
    ) -> Result<()> {
        let slot = self.config.ports.iter().position(|port| port.name == name);
        let slot = slot.with_context(|| format!("there is no port `{name}`"))?;
        self.backend.router.shared().tap.start(slot, place, filter, count);
        Ok(())
    }
}

/// Collects copies until the tap is done or the turn is over.
fn collect(router: &Router) -> Value {
    let tap = &router.shared().tap;
    let begun = monotonic();
    while !tap.is_done() && monotonic().since(begun) < CAPTURE_TURN {
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = tap.is_done();
    tap.stop();
    let (copies, missed) = tap.fetch();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let packets: Vec<Value> = copies
        .iter()
        .map(|copy| json!({ "time_ns": copy.time.as_nanos(), "frame": hex(&copy.frame) }))
        .collect();
    json!({ "packets": packets, "missed": missed, "done": done })
}
