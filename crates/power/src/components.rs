//! A server's power by component.

use ebb_units::Watts;
use serde::{Deserialize, Serialize};

use crate::server::{ModelError, ServerModel};

/// A component whose power follows the cores and the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// With every core in its deepest state and no traffic.
    pub idle: Watts,
    /// Share of what the cores add to the server, 0 to 1.
    pub of_cores: f64,
    /// Share of what the traffic adds to the server, 0 to 1.
    pub of_traffic: f64,
}

/// How a server's power divides into its components. Sums to the server's power whatever its
/// cores do: the idle parts to its base, the shares to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Components {
    /// All CPU packages, uncore included.
    pub cpu: Part,
    /// Memory.
    pub memory: Part,
    /// Network interfaces.
    pub nics: Part,
    /// I/O hub, bridges and the rest of the board; constant.
    pub motherboard: Watts,
    /// Fans; constant.
    pub fans: Watts,
}

/// Power by component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// All CPU packages.
    pub cpu: Watts,
    /// Memory.
    pub memory: Watts,
    /// Network interfaces.
    pub nics: Watts,
    /// Motherboard.
    pub motherboard: Watts,
    /// Fans.
    pub fans: Watts,
}

impl Breakdown {
    /// Power of the server.
    pub fn total(&self) -> Watts {
        self.cpu + self.memory + self.nics + self.motherboard + self.fans
    }

    /// Names and values, the largest consumer of the published server first.
    pub fn parts(&self) -> [(&'static str, Watts); 5] {
        [
            ("cpu", self.cpu),
            ("fans", self.fans),
            ("motherboard", self.motherboard),
            ("memory", self.memory),
            ("nics", self.nics),
        ]
    }
}

impl Components {
    /// The server of Niccolini et al. 2012, section 3. Printed: CPUs about 25 W each idle and
    /// 92 W each at peak, motherboard 24 W always, memory 20 W and NICs 15 W at peak. Follows:
    /// 26 W for the fans, the rest of 269 W, and 15 W for idle memory and NICs together, the rest
    /// of 115 W if the fans turn evenly. Assumed, since figure 1 prints no numbers: how those
    /// 15 W and the growth of 20 W divide between memory and NICs.
    pub fn niccolini2012() -> Components {
        let (cores, traffic) = (262.0 - 115.0, 269.0 - 262.0);
        let part = |idle, of_cores, of_traffic| Part {
            idle: Watts(idle),
            of_cores: of_cores / cores,
            of_traffic: of_traffic / traffic,
        };
        Components {
            cpu: part(50.0, 134.0, 0.0),
            memory: part(8.0, 8.0, 4.0),
            nics: part(7.0, 5.0, 3.0),
            motherboard: Watts(24.0),
            fans: Watts(26.0),
        }
    }

    /// Divides a server's power: `added` is what its cores add to the base.
    pub fn divide(&self, added: Watts, traffic: Watts) -> Breakdown {
        let part = |part: Part| part.idle + added * part.of_cores + traffic * part.of_traffic;
        Breakdown {
            cpu: part(self.cpu),
            memory: part(self.memory),
            nics: part(self.nics),
            motherboard: self.motherboard,
            fans: self.fans,
        }
    }

    /// Refuses what does not sum to `model`.
    ///
    /// # Errors
    /// The sum at fault.
    pub fn check(&self, model: &ServerModel) -> Result<(), ModelError> {
        let parts = [self.cpu, self.memory, self.nics];
        let idle = self.motherboard + self.fans + parts.iter().map(|part| part.idle).sum();
        let cores: f64 = parts.iter().map(|part| part.of_cores).sum();
        let traffic: f64 = parts.iter().map(|part| part.of_traffic).sum();
        for (sum, found, wanted) in [
            ("idle power", idle.0, model.base.0),
            ("shares of the cores' power", cores, 1.0),
            ("shares of the traffic's power", traffic, 1.0),
        ] {
            let apart = (found - wanted).abs();
            if apart.is_nan() || apart > 1e-6 * wanted.max(1.0) {
                return Err(ModelError::Sum { sum, found, wanted });
            }
        }
        let values = parts.iter().flat_map(|part| [part.idle.0, part.of_cores, part.of_traffic]);
        match values.chain([self.motherboard.0, self.fans.0]).find(|value| *value < 0.0) {
            Some(value) => Err(ModelError::Value { field: "components", value }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meets_what_the_paper_prints_of_each_component() {
        let components = Components::niccolini2012();
        let idle = components.divide(Watts(0.0), Watts(0.0));
        let peak = components.divide(Watts(147.0), Watts(7.0));
        for (name, ours, published) in [
            ("two CPUs idle", idle.cpu, 50.0),
            ("two CPUs at peak", peak.cpu, 184.0),
            ("memory", peak.memory, 20.0),
            ("NICs", peak.nics, 15.0),
            ("motherboard", peak.motherboard, 24.0),
            ("idle server", idle.total(), 115.0),
            ("server at peak", peak.total(), 269.0),
        ] {
            assert!((ours.0 - published).abs() < 1e-9, "{name}: {ours} for {published} W");
        }
        assert_eq!(components.check(&ServerModel::niccolini2012()), Ok(()));
    }

    #[test]
    fn parts_that_miss_the_whole_are_refused() {
        let model = ServerModel::niccolini2012();
        let whole = Components::niccolini2012();
        let loud = Components { fans: Watts(30.0), ..whole };
        assert!(matches!(loud.check(&model), Err(ModelError::Sum { sum: "idle power", .. })));
        let cpu = Part { of_cores: 0.5, ..whole.cpu };
        assert!(Components { cpu, ..whole }.check(&model).is_err());
        let nan = Components { fans: Watts(f64::NAN), ..whole };
        assert!(nan.check(&model).is_err());
    }
}
