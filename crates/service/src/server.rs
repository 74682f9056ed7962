//! Answers on the socket, one thread for each client.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::place::{BindError, Bound, bind};

/// Clients served at once; more wait.
pub const CLIENTS_MAX: usize = 32;
/// Longest request, in bytes with the end of its line.
pub const REQUEST_MAX: u64 = 1024;

/// A socket that is served; dropping it ends that and removes the file. Clients that are in are still
/// answered.
#[derive(Debug)]
pub struct Serving {
    bound: Bound,
    stop: Arc<AtomicBool>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if self.bound.is_ours() {
            // Wakes the thread that waits for clients; where it has ended nobody needs to be woken.
            _ = UnixStream::connect(self.bound.path());
        }
    }
}

/// Opens the socket at `path`, for this user alone, and answers each line that comes with what `answer`
/// makes of it, without the white space around it: a value, or why not, which the client gets as
/// `{"error": ...}`. `answer` may block; other clients are served meanwhile.
///
/// # Errors
/// As [`bind`], and when there can be no thread.
pub fn serve<F>(path: &Path, answer: F) -> Result<Serving, BindError>
where
    F: Fn(&str) -> Result<Value, String> + Send + Sync + 'static,
{
    let (listener, bound) = bind(path.to_owned())?;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, answer) = (stop.clone(), Arc::new(answer));
    let run = move || accept(&listener, &stopped, &answer);
    let thread = std::thread::Builder::new().name("ebb-api".into()).spawn(run);
    thread.map_err(|source| BindError::Socket { path: path.to_owned(), source })?;
    Ok(Serving { bound, stop })
}

/// How many clients are in, and who waits for one to leave.
#[derive(Default)]
struct Seats {
    taken: Mutex<usize>,
    left: Condvar,
}

/// One client's; it leaves when this is dropped, even by a panic.
struct Seat(Arc<Seats>);

impl Seats {
    fn take(self: &Arc<Seats>) -> Seat {
        let taken = self.taken.lock().expect("nothing panics while it counts");
        let full = |taken: &mut usize| *taken >= CLIENTS_MAX;
        *self.left.wait_while(taken, full).expect("nothing panics while it counts") += 1;
        Seat(self.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.0.taken.lock().expect("nothing panics while it counts") -= 1;
        self.0.left.notify_one();
    }
}

fn accept<F>(listener: &UnixListener, stopped: &AtomicBool, answer: &Arc<F>)
where
    F: Fn(&str) -> Result<Value, String> + Send + Sync + 'static,
{
    let seats = Arc::new(Seats::default());
    loop {
        let seat = seats.take();
        let client = listener.accept();
        if stopped.load(Relaxed) {
            return;
        }
        let answer = answer.clone();
        let thread = client.and_then(|(client, _)| {
            let run = move || {
                let _seat = seat;
                // A client that went away is no fault of ours.
                _ = converse(client, &*answer);
            };
            std::thread::Builder::new().name("ebb-api-client".into()).spawn(run)
        });
        if let Err(error) = thread {
            // Out of descriptors, for instance: some will be freed.
            tracing::warn!(%error, "a client of the socket was lost");
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn converse<F: Fn(&str) -> Result<Value, String>>(
    client: UnixStream,
    answer: &F,
) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut writer = client;
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let overlong = line.len() as u64 == REQUEST_MAX && !line.ends_with('\n');
        let reply = if overlong {
            Err(format!("a request has at most {REQUEST_MAX} bytes"))
        } else {
            answer(line.trim())
        };
        let reply = reply.unwrap_or_else(|error| json!({ "error": error }));
        writer.write_all(format!("{reply}\n").as_bytes())?;
        if overlong {
            // What follows cannot be told from the line's rest.
            return Ok(());
        }
    }
}
