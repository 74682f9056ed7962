//! Declarations, one a line.

use crate::metric::{Point, Points, Value};

/// What a value is made of; nothing where there is none.
pub trait IntoValue {
    /// The value.
    fn into_value(self) -> Option<Value>;
}

impl IntoValue for Value {
    fn into_value(self) -> Option<Value> {
        Some(self)
    }
}

macro_rules! values {
    ($($number:ty => $value:expr;)*) => {
        $(impl IntoValue for $number {
            fn into_value(self) -> Option<Value> {
                Some($value(self.into()))
            }
        })*
    };
}

values! {
    bool => Value::Count;
    u16 => Value::Count;
    u32 => Value::Count;
    u64 => Value::Count;
    f64 => Value::Real;
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<Value> {
        self.and_then(T::into_value)
    }
}

/// Declares groups of metrics of a state, one a line: kind, name, unit where there is one, what it says, and how
/// it is read from a row. `rows` are a function that hands each row with the values of the labels to what
/// reads it; without labels the state is its own only row.
///
/// ```
/// use ebb_telemetry::{Point, Points, Value, each, metrics};
///
/// struct Toy {
///     seconds: f64,
///     queues: Vec<(String, u64)>,
/// }
///
/// metrics! {
///     /// As a whole.
///     pub static WHOLE: Toy {
///         gauge uptime Seconds "Time since the start" |toy| toy.seconds;
///     }
///     /// By queue.
///     pub static QUEUES: Toy by ["queue"] of queues {
///         counter packets "Packets carried" |queue| queue.1;
///     }
/// }
///
/// fn queues(toy: &Toy, read: fn(&(String, u64)) -> Option<Value>) -> Points {
///     each(&toy.queues, |queue| vec![queue.0.clone()], read)
/// }
/// # let _: Vec<Point> = (QUEUES[0].read)(&Toy { seconds: 1.0, queues: Vec::new() });
/// ```
#[macro_export]
macro_rules! metrics {
    (@group [$(#[$doc:meta])*] [$vis:vis] $group:ident $state:ident $how:tt {
        $($kind:ident $name:ident $($unit:ident)? $help:literal |$row:ident| $value:expr;)*
    }) => {
        $(#[$doc])*
        $vis static $group: &[$crate::Metric<$state>] = &[
            $($crate::metrics!(@one $state $how $kind $name [$($unit)?] $help $row $value)),*
        ];
    };
    (@one $state:ident [] $kind:ident $name:ident [$($unit:ident)?] $help:literal $row:ident $value:expr) => {
        $crate::Metric::<$state>::$kind(stringify!($name), $help, |state| {
            $crate::alone(state, |$row| $crate::IntoValue::into_value($value))
        })$(.in_unit($crate::Unit::$unit))?
    };
    (@one $state:ident [$labels:tt $rows:ident] $kind:ident $name:ident [$($unit:ident)?] $help:literal
        $row:ident $value:expr) => {
        $crate::Metric::<$state>::$kind(stringify!($name), $help, |state| {
            $rows(state, |$row| $crate::IntoValue::into_value($value))
        })$(.in_unit($crate::Unit::$unit))?.by(&$labels)
    };
    ($($(#[$doc:meta])* $vis:vis static $group:ident: $state:ident $(by $labels:tt of $rows:ident)? {
        $($body:tt)*
    })*) => {
        $($crate::metrics!(
            @group [$(#[$doc])*] [$vis] $group $state [$($labels $rows)?] { $($body)* }
        );)*
    };
}

/// The value of a state that is its own only row.
pub fn alone<S>(state: &S, read: fn(&S) -> Option<Value>) -> Points {
    read(state).into_iter().map(|value| Point(Vec::new(), value)).collect()
}

/// The values of rows that have some, with their labels.
pub fn each<R>(
    rows: &[R],
    labels: impl Fn(&R) -> Vec<String>,
    read: fn(&R) -> Option<Value>,
) -> Points {
    rows.iter().filter_map(|row| Some(Point(labels(row), read(row)?))).collect()
}
