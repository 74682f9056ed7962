//! What a running program shows on its socket, and what it is asked beside what every daemon is
//! ([`ebb_service`]).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_host::service::{self, Heartbeat};
use ebb_service::{Daemon, Options, ServeError, Serving};
use ebb_telemetry::{Snapshot, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing::{info, warn};

/// How long whoever asks for another configuration waits for the program's thread.
const RELOAD_PATIENCE: Duration = Duration::from_secs(5);

/// What came of another configuration: words for whoever asked.
type Outcome = Result<String, String>;

/// What the program's thread shows, and what it is asked.
#[derive(Debug)]
pub struct Shared<T> {
    status: Mutex<Option<T>>,
    heartbeat: Mutex<Heartbeat>,
    stop: AtomicBool,
    reload: AtomicBool,
    /// Who waits for what comes of the next reload.
    waiting: Mutex<Vec<SyncSender<Outcome>>>,
}

impl<T> Shared<T> {
    /// Nothing to show yet.
    pub(crate) fn new() -> Shared<T> {
        Shared {
            status: Mutex::new(None),
            heartbeat: Mutex::default(),
            stop: AtomicBool::new(false),
            reload: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Shows the state; leaves it out where somebody is just reading. The service manager hears that the program
    /// gets on.
    pub(crate) fn show(&self, status: T) {
        if let Ok(mut heartbeat) = self.heartbeat.try_lock() {
            heartbeat.beat(monotonic());
        }
        if let Ok(mut shown) = self.status.try_lock() {
            *shown = Some(status);
        }
    }

    fn shown(&self) -> Result<T, String>
    where
        T: Clone,
    {
        let shown = self.status.lock().expect("no panic while shown").clone();
        shown.ok_or_else(|| "still starting; try again".to_owned())
    }

    pub(crate) fn stop(&self) {
        service::stopping();
        self.stop.store(true, Relaxed);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(crate) fn ask_reload(&self) {
        self.reload.store(true, Relaxed);
    }

    /// Takes over another configuration, if somebody asked for that: `load` does it, and says what it has not
    /// taken over. All who asked are told, and so is the log.
    pub(crate) fn reload(&self, load: impl FnOnce() -> anyhow::Result<&'static str>) {
        if !self.reload.swap(false, Relaxed) {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("no panic while asked"));
        let outcome = match load() {
            Ok(rest) => Ok(format!("configuration reloaded; {rest}")),
            Err(error) => Err(format!("{error:#}; the old configuration stays")),
        };
        match &outcome {
            Ok(words) => info!(code = "EBB-T001", "{words}"),
            Err(words) => warn!(code = "EBB-T002", "{words}"),
        }
        for one in waiting {
            // Who has gone away meanwhile reads the log.
            _ = one.try_send(outcome.clone());
        }
    }

    /// Asks for another configuration and waits for what comes of it.
    fn reloaded(&self) -> Outcome {
        let (sender, receiver) = sync_channel(1);
        self.waiting.lock().expect("no panic while answered").push(sender);
        self.ask_reload();
        receiver.recv_timeout(RELOAD_PATIENCE).unwrap_or_else(|_| {
            let seconds = RELOAD_PATIENCE.as_secs();
            Err(format!("not reloaded within {seconds} s; its log says what came of it"))
        })
    }
}

/// An order.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    /// `{"reload":{}}`: the configuration is read again.
    Reload {},
    /// `{"stop":{}}`: the program ends.
    Stop {},
}

impl<T: Source + Serialize + Clone + Send> Daemon for Shared<T> {
    fn status(&self) -> Result<Value, String> {
        serde_json::to_value(self.shown()?).map_err(|error| error.to_string())
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        Ok(Snapshot::of(&self.shown()?))
    }

    fn command(&self, command: Map<String, Value>) -> Result<Value, String> {
        let command = serde_json::from_value(Value::Object(command));
        match command.map_err(|error| error.to_string())? {
            Command::Reload {} => self.reloaded().map(|words| json!({ "reloaded": words })),
            Command::Stop {} => {
                self.stop();
                Ok(Value::from("asked"))
            }
        }
    }
}

/// Opens the socket, for this user alone, and serves it, and the metrics where they are wanted.
///
/// # Errors
/// When another program answers on it, or it cannot be made.
pub fn serve<T: Source + Serialize + Clone + Send>(
    path: &Path,
    metrics: Option<SocketAddr>,
    shared: Arc<Shared<T>>,
) -> Result<Serving, ServeError> {
    ebb_service::serve(Options { socket: Some(path.to_owned()), metrics }, shared)
}

#[cfg(test)]
mod tests {
    use ebb_service::client;
    use serde_json::json;

    use super::*;
    use crate::status::{RackStatus, TorStatus};

    #[test]
    fn a_program_is_asked_over_its_socket() {
        let path = std::env::temp_dir().join(format!("ebb-tord-{}.sock", std::process::id()));
        let shared = Arc::new(Shared::new());
        let bound = serve(&path, None, shared.clone()).expect("a socket");
        let mut client = client(&path).expect("it listens");
        let starting = client.status::<TorStatus>().expect_err("nothing shown");
        assert!(starting.to_string().contains("still starting"));
        let racks = vec![RackStatus { rack: 3, sent: 7, ..RackStatus::default() }];
        shared.show(TorStatus { racks, ..TorStatus::default() });
        assert_eq!(client.status::<TorStatus>().expect("a status").racks[0].sent, 7);
        let refused = client.request(&json!({ "sing": {} })).expect_err("no order");
        assert!(refused.to_string().contains("`reload` or `stop`"), "{refused}");
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn who_asks_for_a_reload_is_told_what_came_of_it() {
        let path = std::env::temp_dir().join(format!("ebb-tord-{}-r.sock", std::process::id()));
        let shared: Arc<Shared<TorStatus>> = Arc::new(Shared::new());
        let bound = serve(&path, None, shared.clone()).expect("a socket");
        let asked = |outcome: fn() -> anyhow::Result<&'static str>| {
            let path = path.clone();
            let asks = std::thread::spawn(move || {
                let asked = client(&path).expect("it listens").request(&json!({ "reload": {} }));
                asked
                    .map(|answer| answer["reloaded"].to_string())
                    .map_err(|error| error.to_string())
            });
            while !asks.is_finished() {
                shared.reload(outcome);
                std::thread::yield_now();
            }
            asks.join().expect("an answer")
        };
        let said = asked(|| Ok("racks need a restart")).expect("taken over");
        assert!(said.contains("reloaded; racks need a restart"), "{said}");
        let said =
            asked(|| anyhow::bail!("field `tor.link_mbps` is not above 0")).expect_err("refused");
        assert!(said.contains("is not above 0; the old configuration stays"), "{said}");
        drop(bound);
    }
}
