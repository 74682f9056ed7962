//! The listener, the addresses it answers, and what all of them share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::HeaderMap;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use ebb_service::{Crowd, Patience};
use ebb_study::Program;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::feed::Feed;
use crate::guard::{Guard, REQUEST_LEN_MAX, TOKEN_LEN_MIN, guard};
use crate::jobs::{Jobs, Wanted};
use crate::saved::Shelf;
use crate::shared::Shared;
use crate::{assets, claims, live, runs, studies};

/// Connections at once: a page has one stream and asks on a few more.
const CONNECTIONS_MAX: usize = 512;
/// A connection on which nothing moves for so long is let go; streams have an event each interval.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long jobs are waited for when the dashboard ends.
const JOBS_PATIENCE: Duration = Duration::from_secs(10);

/// What is shown to whom.
#[derive(Debug)]
pub struct Options {
    /// Where browsers connect; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Further names by which browsers address it.
    pub names: Vec<String>,
    /// What whoever changes something has to know; nothing can be changed without one.
    pub token: Option<String>,
    /// Whether reading needs the token as well.
    pub private: bool,
    /// Sockets of daemons, each with its name in addresses.
    pub daemons: Vec<(String, PathBuf)>,
    /// Between two looks at a daemon.
    pub every: Duration,
    /// Policies of routers by name, with what each does.
    pub modes: Vec<(String, String)>,
    /// Directories of runs; jobs leave theirs in the first.
    pub runs: Vec<PathBuf>,
    /// Where files are that scenarios name.
    pub scenarios: PathBuf,
    /// The program, for what jobs leave.
    pub program: Program<'static>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The token is guessed too easily.
    #[error(
        "the token has fewer than {TOKEN_LEN_MIN} characters, or others than visible ASCII: make one by `openssl rand -hex 32`"
    )]
    Token,
    /// Everybody who reaches the address would see runs and daemons.
    #[error(
        "{0} can be reached from other machines: add --private, so that reading needs the token, too, or listen on 127.0.0.1 and forward the port over ssh"
    )]
    Open(SocketAddr),
    /// Something needs the token and there is none.
    #[error("--private needs a token: leave out --read-only")]
    NoToken,
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// No thread or no runtime.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// It broke off.
    #[error("the dashboard ended: {0}")]
    Serve(std::io::Error),
}

/// A dashboard whose address is taken and that answers once it is served.
pub struct Dashboard {
    address: SocketAddr,
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
}

/// Tells a dashboard that it is to end.
#[derive(Clone, Debug, Default)]
pub struct Ending(Arc<tokio::sync::Notify>);

impl Ending {
    /// It is to end now.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Takes the address and begins to listen to daemons.
///
/// # Errors
/// When the options leave a door open, or the address cannot be taken.
pub fn bind(options: Options) -> Result<Dashboard, ServeError> {
    let is_token = |token: &String| {
        token.len() >= TOKEN_LEN_MIN && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !options.token.as_ref().is_none_or(is_token) {
        return Err(ServeError::Token);
    }
    if options.private && options.token.is_none() {
        return Err(ServeError::NoToken);
    }
    if !options.listen.ip().is_loopback() && !options.private {
        return Err(ServeError::Open(options.listen));
    }
    let failed = |source| ServeError::Listen { address: options.listen, source };
    let listener = std::net::TcpListener::bind(options.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let feed = |(id, socket)| Feed::start(id, socket, options.every);
    let feeds: Result<Vec<_>, _> = options.daemons.into_iter().map(feed).collect();
    let guard = Guard::new(address, &options.names, options.token.as_deref(), options.private);
    let shared = Shared {
        feeds: feeds.map_err(ServeError::Start)?,
        streams: Arc::default(),
        runs: options.runs,
        scenarios: options.scenarios,
        shelf: Shelf::default(),
        jobs: Jobs::default(),
        program: options.program,
        modes: options.modes,
        guard: Arc::new(guard),
    };
    Ok(Dashboard { address, listener, shared: Arc::new(shared) })
}

impl Dashboard {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is to end; then jobs are asked to end and what they finished is kept.
    ///
    /// # Errors
    /// When it cannot go on.
    pub fn serve(self, ending: &Ending) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServeError::Start)?;
        let shared = self.shared.clone();
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let crowd = Crowd::new(listener, Patience::Silence(PATIENCE), CONNECTIONS_MAX);
            let served = axum::serve(crowd, app(self.shared));
            tokio::select! {
                served = std::future::IntoFuture::into_future(served) => served,
                () = ending.0.notified() => Ok(()),
            }
        });
        // Streams and requests that are under way are not waited for.
        runtime.shutdown_background();
        shared.jobs.stop();
        let asked = Instant::now();
        while shared.jobs.running() > 0 && asked.elapsed() < JOBS_PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        served.map_err(ServeError::Serve)
    }
}

fn app(shared: Arc<Shared>) -> axum::Router {
    let checked = shared.guard.clone();
    axum::Router::new()
        .route("/", get(assets::page))
        .route("/static/{*name}", get(assets::asset))
        .route("/api/about", get(about))
        .route("/api/daemons", get(live::daemons))
        .route("/api/daemons/{id}/snapshot", get(live::snapshot))
        .route("/api/daemons/{id}/history", get(live::history))
        .route("/api/daemons/{id}/stream", get(live::stream))
        .route("/api/daemons/{id}/command", post(live::command))
        .route("/api/runs", get(runs::list))
        .route("/api/runs/report", get(runs::report))
        .route("/api/runs/plot", get(runs::plot))
        .route("/api/runs/points", get(runs::points))
        .route("/api/runs/file", get(runs::file))
        .route("/api/claims", get(claims::claims))
        .route("/api/studies", get(studies::list))
        .route("/api/studies/{kind}/{system}", get(studies::one))
        .route("/api/jobs", get(jobs).post(start))
        .route("/api/jobs/{number}", delete(cancel))
        .fallback(async || crate::answer::Refusal::unknown("there is no such page"))
        .layer(DefaultBodyLimit::max(REQUEST_LEN_MAX))
        .layer(from_fn_with_state(checked, guard))
        .with_state(shared)
}

/// What the page has to know before it shows anything.
async fn about(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> axum::Json<Value> {
    let modes = shared.modes.iter().map(|(name, about)| json!({ "name": name, "about": about }));
    axum::Json(json!({
        "version": shared.program.version,
        "revision": shared.program.revision,
        "can_change": shared.guard.can_change(),
        "has_token": shared.guard.has_token(&headers),
        "private": shared.guard.is_private(),
        "modes": modes.collect::<Vec<_>>(),
        "runs": shared.runs,
    }))
}

async fn jobs(State(shared): State<Arc<Shared>>) -> axum::Json<Vec<Value>> {
    axum::Json(shared.jobs.told())
}

async fn start(
    State(shared): State<Arc<Shared>>,
    axum::Json(wanted): axum::Json<Wanted>,
) -> Answer<Value> {
    shared.jobs.start(wanted, &shared.runs, &shared.scenarios, shared.program)
}

async fn cancel(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Answer<Value> {
    shared.jobs.cancel(number)
}
