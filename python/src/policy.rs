//! Policies that are objects of Python, for studies that take one from outside.
//!
//! Room: calls `decide` and turns what is seen and decided into values of Python and back; it adds up what
//! that costs. What the values mean is the system's and the user's affair. Neighbours: `run.rs` and `task.rs`
//! hand it to jobs, `ebb/_policy.py` is what users see of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use ebb_study::{Decided, Decides, Policies, StudyError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// Decisions and the time that they took.
#[derive(Debug, Default)]
struct Cost {
    decisions: AtomicU64,
    nanos: AtomicU64,
}

/// Makes policies for runs.
#[pyclass(frozen)]
pub(crate) struct Policy {
    /// Returns a fresh object with `decide`.
    make: Py<PyAny>,
    /// What tables of seen things become: `types.SimpleNamespace`.
    space: Py<PyAny>,
    name: String,
    identity: String,
    cost: Arc<Cost>,
}

#[pymethods]
impl Policy {
    /// Of a function that makes a fresh policy, its name and what its results are told by.
    #[new]
    fn of(py: Python<'_>, make: Py<PyAny>, name: String, identity: String) -> PyResult<Policy> {
        let space = py.import("types")?.getattr("SimpleNamespace")?.unbind();
        Ok(Policy { make, space, name, identity, cost: Arc::default() })
    }

    /// Decisions so far, and the seconds that they took altogether.
    fn cost(&self) -> (u64, f64) {
        let Cost { decisions, nanos } = &*self.cost;
        (decisions.load(Relaxed), nanos.load(Relaxed) as f64 / 1e9)
    }
}

/// The interpreter, unless it has ended.
fn within<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, StudyError> {
    Python::try_attach(call)
        .map_or(Err(StudyError::Stopped), |called| called.map_err(StudyError::failed))
}

impl Policies for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn fresh(&self, plant: &Value) -> Result<Box<dyn Decides>, StudyError> {
        within(|py| {
            let policy = self.make.call0(py)?;
            let space = self.space.clone_ref(py);
            if let Some(begin) = policy.bind(py).getattr_opt("begin")? {
                begin.call1((object(space.bind(py), plant)?,))?;
            }
            let decide = policy.getattr(py, "decide")?;
            let next = policy.bind(py).getattr_opt("next_at")?.map(Bound::unbind);
            let made = Made { decide, next, space, cost: self.cost.clone() };
            Ok(Box::new(made) as Box<dyn Decides>)
        })
    }
}

/// One that decides.
struct Made {
    decide: Py<PyAny>,
    next: Option<Py<PyAny>>,
    space: Py<PyAny>,
    cost: Arc<Cost>,
}

impl Decides for Made {
    fn decide(&mut self, at_nanos: u64, seen: &Value) -> Result<Decided, StudyError> {
        let begun = Instant::now();
        let decided = within(|py| {
            let seen = object(self.space.bind(py), seen)?;
            let action = value(self.decide.bind(py).call1((at_nanos, seen))?)?;
            let next = self.next.as_ref().map(|next| next.call0(py)?.extract(py)).transpose()?;
            Ok(Decided { action, next_nanos: next.flatten() })
        });
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.cost.decisions.fetch_add(1, Relaxed);
        self.cost.nanos.fetch_add(nanos, Relaxed);
        decided
    }
}

/// A value as an object of Python: tables have attributes.
fn object<'py>(space: &Bound<'py, PyAny>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let py = space.py();
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into_pyobject(py)?.into_any(),
            None => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(all) => {
            let all: PyResult<Vec<_>> = all.iter().map(|value| object(space, value)).collect();
            PyList::new(py, all?)?.into_any()
        }
        Value::Object(table) => {
            let keywords = PyDict::new(py);
            for (name, value) in table {
                keywords.set_item(name, object(space, value)?)?;
            }
            space.call((), Some(&keywords))?
        }
    })
}

/// An object of Python as a value: tables (`dict`), and objects by their attributes.
fn value(object: Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::from(text.to_str()?));
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::from(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() || object.hasattr("__index__")? {
        return Ok(Value::from(object.call_method0("__index__")?.extract::<i64>()?));
    }
    if let Ok(table) = object.cast::<PyDict>() {
        return table_of(table);
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let all: PyResult<Vec<Value>> = object.try_iter()?.map(|entry| value(entry?)).collect();
        return Ok(Value::from(all?));
    }
    if object.is_instance_of::<PyFloat>() {
        let number = Number::from_f64(object.extract::<f64>()?);
        return Ok(number.map_or(Value::Null, Value::Number));
    }
    match object.getattr_opt("__dict__")? {
        Some(attributes) => table_of(attributes.cast::<PyDict>()?),
        None => {
            let name = object.get_type().name()?;
            Err(PyTypeError::new_err(format!("a decision cannot hold a value of type {name}")))
        }
    }
}

fn table_of(table: &Bound<'_, PyDict>) -> PyResult<Value> {
    let mut map = Map::new();
    for (name, entry) in table {
        map.insert(name.extract()?, value(entry)?);
    }
    Ok(Value::Object(map))
}
