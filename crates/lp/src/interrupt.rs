//! A run of the solver that asks at each step whether to end.
//!
//! Room: the only `unsafe` of this crate, for the crate `highs` has no callbacks.

use std::ffi::{c_char, c_int, c_void};

use highs::{HighsStatus, Model, SolvedModel};
use highs_sys::{
    Highs_setCallback, Highs_startCallback, HighsCallbackDataIn, HighsCallbackDataOut,
    kHighsCallbackMipInterrupt, kHighsCallbackSimplexInterrupt,
};

use crate::Stopped;

/// Solves `model` until `stopped` says to end.
pub(crate) fn run(mut model: Model, stopped: &Stopped<'_>) -> Result<SolvedModel, HighsStatus> {
    let data = std::ptr::from_ref(stopped).cast_mut().cast::<c_void>();
    // SAFETY: the model is alive; `data` outlives the run, and after it the solver calls nothing.
    let refused = unsafe {
        let solver = model.as_mut_ptr();
        Highs_setCallback(solver, Some(ask), data)
            + Highs_startCallback(solver, kHighsCallbackSimplexInterrupt)
            + Highs_startCallback(solver, kHighsCallbackMipInterrupt)
    };
    debug_assert_eq!(refused, 0, "the solver knows these callbacks");
    model.try_solve()
}

/// What the solver calls at each step: `data` is what [`run`] gave.
unsafe extern "C" fn ask(
    _kind: c_int,
    _message: *const c_char,
    _out: *const HighsCallbackDataOut,
    answer: *mut HighsCallbackDataIn,
    data: *mut c_void,
) {
    // SAFETY: `run` set `data` to a `Stopped` that lives until the solver has returned.
    let stopped = unsafe { &*data.cast_const().cast::<Stopped<'_>>() };
    // SAFETY: the solver passes what it reads the answer from.
    if let Some(answer) = unsafe { answer.as_mut() } {
        answer.user_interrupt = c_int::from(stopped());
    }
}
