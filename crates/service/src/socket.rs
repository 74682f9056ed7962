//! The local socket: one JSON request a line, one JSON reply a line.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use zeroize::{Zeroize as _, Zeroizing};

use crate::Daemon;
use crate::request::{REQUEST_LEN_MAX, Request, RequestError, parse_request};

/// Clients served at once; more wait.
pub const CLIENTS_MAX: usize = 32;
/// Descriptors that are kept for clients.
const RESERVE: usize = 4;
/// A stream's snapshot may be so old: however many streams there are, the daemon is not asked more often.
const AGE_MAX: Duration = Duration::from_millis(25);

/// What all clients share.
struct Desk {
    daemon: Arc<dyn Daemon>,
    /// Who says or takes nothing for so long is let go.
    patience: Duration,
    /// The last reply of a stream, and when it was made.
    latest: Mutex<Option<(Instant, Arc<str>)>>,
    open: Open,
}

/// Requests that were heard and are not answered yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// One more, until it is dropped.
    fn one(&self) -> One<'_> {
        self.0.fetch_add(1, Relaxed);
        One(&self.0)
    }
}

struct One<'o>(&'o AtomicUsize);

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Serves clients until it is dropped; who says or takes nothing for `patience` is let go.
pub(crate) async fn accept(
    listener: StdListener,
    daemon: Arc<dyn Daemon>,
    patience: Duration,
    open: Open,
) {
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!(%error, code = "EBB-S004", "the status socket is not served");
        }
    };
    let desk = Arc::new(Desk { daemon, patience, latest: Mutex::new(None), open });
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    let mut reserve = Vec::new();
    loop {
        refill(&mut reserve);
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                tokio::spawn(async move {
                    // A client that goes away has no one left to tell.
                    let _ = converse(stream, &desk).await;
                    drop(permit);
                });
            }
            // Whoever wants to know why there are no descriptors left gets one.
            Err(error) if is_exhaustion(&error) && reserve.pop().is_some() => {}
            Err(error) => {
                tracing::warn!(%error, code = "EBB-S005", "a client of the status socket disconnected");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// As many as there are to be, if they can be had.
fn refill(reserve: &mut Vec<File>) {
    while reserve.len() < RESERVE {
        let Ok(file) = File::open("/dev/null") else { return };
        reserve.push(file);
    }
}

/// The process, or the system, has no descriptor left.
fn is_exhaustion(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Answers one client until it leaves, or says or takes nothing for too long.
async fn converse(stream: UnixStream, desk: &Desk) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    // A request may hold what nobody should find later.
    let mut line = Zeroizing::new(Vec::with_capacity(REQUEST_LEN_MAX + 2));
    loop {
        line.zeroize();
        let limit = REQUEST_LEN_MAX as u64 + 2;
        let mut limited = (&mut read).take(limit);
        if timeout(desk.patience, limited.read_until(b'\n', &mut line)).await?? == 0 {
            return Ok(());
        }
        let complete = line.last() == Some(&b'\n');
        let request = line.trim_ascii();
        if request.is_empty() && complete {
            continue;
        }
        let request = if line.len() as u64 == limit {
            Err(RequestError::TooLong)
        } else {
            parse_request(request)
        };
        if let Ok(Request::Subscribe { every }) = request {
            stream_to(&mut read, &mut write, every, desk).await?;
        } else {
            let _open = desk.open.one();
            desk.send(&mut write, &line_of(&desk.answer(request).await)).await?;
        }
        // What follows an overlong line cannot be told from its rest.
        if !complete {
            return Ok(());
        }
    }
}

/// A snapshot after each interval, until the client says something or leaves.
async fn stream_to(
    read: &mut BufReader<OwnedReadHalf>,
    write: &mut OwnedWriteHalf,
    every: Duration,
    desk: &Desk,
) -> io::Result<()> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => desk.send(write, &desk.latest()).await?,
            said = read.fill_buf() => return said.map(drop),
        }
    }
}

fn line_of(result: &Result<Value, String>) -> String {
    let reply = match result {
        Ok(value) => json!({ "ok": value }),
        Err(message) => json!({ "error": message }),
    };
    format!("{reply}\n")
}

impl Desk {
    async fn send(&self, write: &mut OwnedWriteHalf, line: &str) -> io::Result<()> {
        timeout(self.patience, write.write_all(line.as_bytes())).await?
    }

    async fn answer(&self, request: Result<Request, RequestError>) -> Result<Value, String> {
        match request.map_err(|error| error.to_string())? {
            Request::Status => self.daemon.status(),
            Request::Snapshot | Request::Subscribe { .. } => self.snapshot(),
            Request::Command(command) => self.command(command).await,
        }
    }

    fn snapshot(&self) -> Result<Value, String> {
        serde_json::to_value(self.daemon.snapshot()?).map_err(|error| error.to_string())
    }

    async fn command(&self, command: Map<String, Value>) -> Result<Value, String> {
        let daemon = self.daemon.clone();
        let work = tokio::task::spawn_blocking(move || daemon.command(command));
        work.await.unwrap_or_else(|_| Err("the command failed inside the daemon".into()))
    }

    /// The reply of a stream, made anew where it is too old.
    fn latest(&self) -> Arc<str> {
        let mut latest = self.latest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((made, line)) = &*latest
            && made.elapsed() < AGE_MAX
        {
            return line.clone();
        }
        let line: Arc<str> = line_of(&self.snapshot()).into();
        *latest = Some((Instant::now(), line.clone()));
        line
    }
}
