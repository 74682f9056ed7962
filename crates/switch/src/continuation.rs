//! Work with a stack of its own, which stops on one thread and goes on in another.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::overflow::{self, Ended};
use crate::{Arrival, Location, SwitchError, Travel};

/// Stack of a continuation unless said otherwise, bytes.
pub const STACK_BYTES: usize = 256 << 10;

/// What a continuation wants of the core that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    To(Location),
    Announce,
    Ask,
}

/// What a resumption led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wants(Wish),
    Ended(Ended),
}

type Inner = Coroutine<Arrival, Wish, Ended, DefaultStack>;

/// A unit of work that can be resumed on any thread. With a slot's word it fills one cache line.
pub(crate) struct Continuation {
    inner: Inner,
    ended: Option<Ended>,
    /// Nobody waits for it.
    posted: bool,
}

// SAFETY: `Continuation::new` is unsafe and asks that whatever is on the stack when the body asks to be
// moved may be used on another thread; the rest of a coroutine is an address range and two pointers into it.
unsafe impl Send for Continuation {}

const _: () = assert!(size_of::<Continuation>() <= 56, "a slot is one cache line");

/// Where the result of a body lands, or its panic.
type Landing<R> = Arc<Mutex<Option<Result<R, Box<dyn Any + Send>>>>>;

/// What a body will have returned.
pub(crate) struct Fruit<R> {
    landing: Landing<R>,
    stack_bytes: usize,
}

impl<R> Fruit<R> {
    /// The result once the continuation has ended; a panic of the body goes on here.
    pub(crate) fn collect(self, lost: bool) -> Result<R, SwitchError> {
        let mut landing = self.landing.lock().unwrap_or_else(PoisonError::into_inner);
        match landing.take() {
            Some(Ok(result)) => Ok(result),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None if lost => Err(SwitchError::Lost),
            None => Err(SwitchError::StackOverflow { bytes: self.stack_bytes }),
        }
    }
}

impl Continuation {
    /// A body that has not begun.
    ///
    /// # Safety
    /// Values that are alive in the body across a call of [`Travel::to`] go on being used on another
    /// thread: they must be `Send`, and none may borrow from thread-local storage. It must not ask to be
    /// moved while it unwinds.
    pub(crate) unsafe fn new<R: Send + 'static>(
        body: impl FnOnce(&dyn Travel) -> R + Send + 'static,
        stack_bytes: usize,
    ) -> Result<(Continuation, Fruit<R>), SwitchError> {
        overflow::watch();
        let stack = DefaultStack::new(stack_bytes)
            .map_err(|source| SwitchError::Resources { what: "a stack", source })?;
        let landing: Landing<R> = Arc::new(Mutex::new(None));
        let result = landing.clone();
        let inner = Coroutine::with_stack(stack, move |yielder: &Yielder<Arrival, Wish>, _| {
            let traveller = Traveller { yielder };
            let outcome = catch_unwind(AssertUnwindSafe(|| body(&traveller)));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            Ended::Whole
        });
        Ok((Continuation { inner, ended: None, posted: false }, Fruit { landing, stack_bytes }))
    }

    /// Runs it on this thread until it wants something or ends.
    pub(crate) fn resume(&mut self, arrival: Arrival) -> Step {
        let trap = self.inner.trap_handler();
        match overflow::watched(trap, || self.inner.resume(arrival)) {
            CoroutineResult::Yield(wish) => Step::Wants(wish),
            CoroutineResult::Return(ended) => {
                self.ended = Some(ended);
                Step::Ended(ended)
            }
        }
    }

    /// The same, without anybody who waits for it.
    pub(crate) fn posted(self) -> Continuation {
        Continuation { posted: true, ..self }
    }

    pub(crate) fn is_posted(&self) -> bool {
        self.posted
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }
}

struct Traveller<'a> {
    yielder: &'a Yielder<Arrival, Wish>,
}

impl Travel for Traveller<'_> {
    fn to(&self, place: Location) -> Arrival {
        self.yielder.suspend(Wish::To(place))
    }

    fn announce(&self) -> bool {
        self.yielder.suspend(Wish::Announce) == Arrival::Told(true)
    }

    fn target_sleeps(&self) -> bool {
        self.yielder.suspend(Wish::Ask) == Arrival::Told(true)
    }
}
