//! Where a figure of energy comes from: measured or modelled.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Where a figure of energy or power comes from. Every output says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// A meter of the machine.
    Measured,
    /// A model fed with what the machine did.
    #[default]
    Modelled,
}

impl Basis {
    /// The name in metrics, JSON and views.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Modelled => "modelled",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_serde_agree() {
        for basis in [Basis::Measured, Basis::Modelled] {
            let json = serde_json::to_string(&basis).expect("serializable");
            assert_eq!(json, format!("\"{basis}\""));
            assert_eq!(serde_json::from_str::<Basis>(&json).expect("readable"), basis);
        }
    }
}
