//! What all requests share: daemons that are listened to, runs, jobs, and who may ask.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ebb_study::Program;

use crate::feed::Feed;
use crate::guard::Guard;
use crate::jobs::Jobs;
use crate::saved::Shelf;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) feeds: Vec<Arc<Feed>>,
    pub(crate) streams: Arc<AtomicUsize>,
    pub(crate) runs: Vec<PathBuf>,
    pub(crate) scenarios: PathBuf,
    pub(crate) shelf: Shelf,
    pub(crate) jobs: Jobs,
    pub(crate) program: Program<'static>,
    pub(crate) modes: Vec<(String, String)>,
    pub(crate) guard: Arc<Guard>,
}
