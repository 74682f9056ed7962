//! Commands of the status socket, carried out on the control thread.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_capture::Filter;
use ebb_control::policies;
use ebb_graph::PortId;
use ebb_host::clock::monotonic;
use ebb_ports::afxdp::{self, PacketPath};
use serde_json::{Value, json};
use tracing::info;

use super::Live;
use crate::api::Command;
use crate::explain::{self, Place};
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
            Command::SetMode(_)
            | Command::Reload
            | Command::AddTunnel(_)
            | Command::RemoveTunnel { .. }
                if self.upgrade.is_some() =>
            {
                anyhow::bail!("an upgrade is running; try again afterwards")
            }
            Command::SetMode(mode) => {
                self.set_mode(&mode)?;
                self.follow_paths();
                Ok(json!({ "mode": mode }))
            }
            Command::Explain { port, frame } => self.explain(&port, frame),
            Command::Tunnels => Ok(self.tunnel_list()),
            Command::AddTunnel(tunnel) => self.add_tunnel(&tunnel),
            Command::RemoveTunnel { spi_in } => self.remove_tunnel(spi_in),
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
        info!(mode, code = "EBB-R016", "policy changed");
        Ok(())
    }

    /// What would become of a frame that a port receives.
    fn explain(&mut self, name: &str, mut frame: Vec<u8>) -> Result<Value> {
        let slot = self.slot_of(name)?;
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        let known = interfaces.known(PortId(slot as u8));
        let live = interfaces.open.get_mut(slot).and_then(Option::as_mut);
        let live = live.with_context(|| format!("port {name} is not open"))?;
        if frame.starts_with(&[0; 6]) {
            let own = known.macs.first().copied().unwrap_or_else(|| live.interface.mac());
            frame[..6].copy_from_slice(&own);
        }
        let by_workers = live.interface.options().path == PacketPath::Worker;
        let mut link = live.interface.index();
        // Before the stack, the kernel path sees packets of VLANs where the stack has taken the tag off; in a driver it
        // leaves them to the stack.
        let before_stack = !by_workers && !live.interface.mode().native;
        if before_stack && let Some(index) = known.vlan_of(&frame) {
            frame.drain(12..16);
            link = index;
        }
        let fate = live.interface.explain(link, &frame).context("the kernel cannot be asked")?;
        let lookup = explain::destination(&frame).map(|address| self.sync.lookup(address));
        let exit = fate.exit.and_then(|index| afxdp::name_of(index).ok());
        drop(interfaces);
        let policy = self.backend.policy.lock().expect("policy").clone();
        let place = Place {
            port: name,
            by_workers,
            macs: &known.macs,
            local: &known.local,
            exit,
            worker: lookup.as_ref().and_then(|one| Some(one["words"].as_str()?.to_owned())),
            policy: &policy,
        };
        let mut answer = serde_json::to_value(explain::explain(&frame, &fate, &place))?;
        answer["route"] = lookup.map_or(Value::Null, |one| one["prefix"].clone());
        Ok(answer)
    }

    fn slot_of(&self, name: &str) -> Result<usize> {
        let slot = self.config.ports.iter().position(|port| port.name == name);
        slot.with_context(|| format!("there is no port `{name}`"))
    }

    fn start_capture(
        &self,
        name: &str,
        place: CapturePoint,
        filter: Option<Filter>,
        count: u32,
    ) -> Result<()> {
        let slot = self.slot_of(name)?;
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
