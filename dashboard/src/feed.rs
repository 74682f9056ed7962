//! One daemon, listened to once however many watch: what it said is remembered and handed on.
//!
//! Each watcher has a short queue of its own. Whoever does not take what is in it loses what comes, which is counted;
//! the daemon and the other watchers do not notice.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ebb_service::{ClientError, client};
use ebb_telemetry::Snapshot;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::history::{History, Told};

/// Events that wait for a watcher.
const WAITING_MAX: usize = 8;
/// How long until a daemon that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// A daemon by its socket.
pub(crate) struct Feed {
    /// Its name in addresses.
    pub(crate) id: String,
    pub(crate) socket: PathBuf,
    every: Duration,
    heard: Mutex<Heard>,
    lost: Arc<AtomicU64>,
}

#[derive(Default)]
struct Heard {
    last: Option<Arc<Snapshot>>,
    /// Why there is nothing now.
    error: Option<String>,
    history: History,
    watchers: Vec<Watcher>,
}

struct Watcher {
    queue: mpsc::Sender<Bytes>,
    lost: Arc<AtomicU64>,
}

impl Feed {
    /// Listens to the daemon at `socket` as long as the feed is kept.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        id: String,
        socket: PathBuf,
        every: Duration,
    ) -> std::io::Result<Arc<Feed>> {
        let (heard, lost) = (Mutex::default(), Arc::default());
        let feed = Arc::new(Feed { id, socket: socket.clone(), every, heard, lost });
        let weak = Arc::downgrade(&feed);
        let thread = std::thread::Builder::new().name("ebb-feed".to_owned());
        thread.spawn(move || {
            while weak.strong_count() > 0 {
                if let Err(error) = listen(&weak, &socket, every)
                    && let Some(feed) = weak.upgrade()
                {
                    feed.silent(error.to_string());
                }
                std::thread::sleep(AGAIN);
            }
        })?;
        Ok(feed)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, now: Snapshot) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time = time.map_or(0.0, |time| time.as_secs_f64());
        let mut heard = self.heard();
        let now = match &heard.last {
            Some(before) => now.since(before),
            None => now,
        };
        if heard.last.as_ref().is_some_and(|before| before.pid != now.pid) {
            heard.history.clear();
        }
        heard.history.note(time, &now);
        heard.error = None;
        let text = event("snapshot", &json!({ "time": time, "snapshot": now }));
        heard.last = Some(Arc::new(now));
        hand_on(&mut heard.watchers, &text);
    }

    fn silent(&self, error: String) {
        let mut heard = self.heard();
        let text = event("silent", &json!({ "error": error }));
        heard.error = Some(error);
        hand_on(&mut heard.watchers, &text);
    }

    /// What it said last.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        self.heard().last.clone()
    }

    /// Series of the last `seconds`.
    pub(crate) fn told(&self, metrics: &[&str], seconds: f64) -> Told {
        self.heard().history.tell(metrics, seconds)
    }

    /// The daemon in a few words.
    pub(crate) fn state(&self) -> Value {
        let heard = self.heard();
        let watchers = heard.watchers.iter().filter(|watcher| !watcher.queue.is_closed()).count();
        let last = heard.last.as_ref();
        json!({
            "id": self.id,
            "socket": self.socket,
            "every_seconds": self.every.as_secs_f64(),
            "answers": heard.error.is_none() && last.is_some(),
            "error": heard.error,
            "daemon": last.map(|last| &last.daemon),
            "version": last.map(|last| &last.version),
            "uptime_seconds": last.map(|last| last.uptime_seconds),
            "facts": last.map(|last| &last.facts),
            "notes": last.map(|last| &last.notes),
            "watchers": watchers,
            "events_lost": self.lost.load(Relaxed),
        })
    }

    /// A stream of all that it says from now on, beginning with what it said last. `seats` counts streams.
    pub(crate) fn watch(&self, seats: Seat) -> Watch {
        let (queue, receiver) = mpsc::channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let mut heard = self.heard();
        let first = match (&heard.error, &heard.last) {
            (Some(error), _) => Some(event("silent", &json!({ "error": error }))),
            (None, Some(last)) => {
                let time = heard.history.newest();
                Some(event("snapshot", &json!({ "time": time, "snapshot": &**last })))
            }
            (None, None) => None,
        };
        heard.watchers.push(Watcher { queue, lost: lost.clone() });
        Watch { first, receiver, lost, all: self.lost.clone(), _seat: seats }
    }
}

fn listen(feed: &Weak<Feed>, socket: &Path, every: Duration) -> Result<(), ClientError> {
    for now in client(socket)?.subscribe(every)? {
        let now = now?;
        match feed.upgrade() {
            Some(feed) => feed.take(now),
            None => break,
        }
    }
    Ok(())
}

fn hand_on(watchers: &mut Vec<Watcher>, text: &Bytes) {
    watchers.retain(|watcher| match watcher.queue.try_send(text.clone()) {
        Ok(()) => true,
        Err(mpsc::error::TrySendError::Full(_)) => {
            watcher.lost.fetch_add(1, Relaxed);
            true
        }
        Err(mpsc::error::TrySendError::Closed(_)) => false,
    });
}

/// An event as server-sent events are written: JSON has no line ends.
fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// A place in a bounded number of streams.
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// One more of `most`; none where all are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Seat> {
        let more = |count: usize| (count < most).then_some(count + 1);
        taken.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Seat(taken.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What one watcher gets.
pub(crate) struct Watch {
    first: Option<Bytes>,
    receiver: mpsc::Receiver<Bytes>,
    lost: Arc<AtomicU64>,
    /// Lost by all watchers.
    all: Arc<AtomicU64>,
    _seat: Seat,
}

impl futures_core::Stream for Watch {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        // Told as soon as there is room again: the browser shows that its curves have gaps.
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            self.all.fetch_add(lost, Relaxed);
            return Poll::Ready(Some(Ok(event("lost", &json!({ "events": lost })))));
        }
        self.receiver.poll_recv(context).map(|text| text.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn feed() -> Feed {
        Feed {
            id: "x".to_owned(),
            socket: PathBuf::new(),
            every: Duration::from_secs(1),
            heard: Mutex::default(),
            lost: Arc::default(),
        }
    }

    async fn next(watch: &mut Watch) -> String {
        use futures_core::Stream as _;
        let bytes = poll_fn(|context| Pin::new(&mut *watch).poll_next(context)).await;
        String::from_utf8(bytes.expect("an event").expect("infallible").to_vec()).expect("text")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_slow_watcher_loses_events_that_are_counted_and_nobody_else_does() {
        let feed = feed();
        let taken = Arc::default();
        let mut slow = feed.watch(Seat::take(&taken, 2).expect("a seat"));
        let mut quick = feed.watch(Seat::take(&taken, 2).expect("a seat"));
        assert!(Seat::take(&taken, 2).is_none());
        let all = WAITING_MAX as u64 + 5;
        for number in 0..all {
            feed.silent(number.to_string());
            assert!(next(&mut quick).await.contains(&format!("\"{number}\"")));
        }
        assert_eq!(next(&mut slow).await, "event: lost\ndata: {\"events\":5}\n\n");
        for number in 0..WAITING_MAX {
            assert!(next(&mut slow).await.contains(&format!("\"{number}\"")));
        }
        assert_eq!(feed.state()["events_lost"], 5);
        drop((slow, quick));
        assert!(Seat::take(&taken, 1).is_some(), "seats are given back");
        feed.silent(String::new());
        assert_eq!(feed.state()["watchers"], 0);
    }
}
