//! Where flows go: paths with shares, the loads they make, and the power they cost (Li 2012,
//! section 6.3.2).

use crate::{Flow, LinkId, Mesh, Traffic};

/// Links one after another.
pub type Path = Vec<LinkId>;

/// A path and the share of the flow that takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The part of the flow, 0 to 1.
    pub share: f64,
    /// Its way.
    pub path: Path,
}

/// A flow and its paths, whose shares add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// Who sends how much to whom.
    pub flow: Flow,
    /// Its ways.
    pub paths: Vec<Share>,
}

impl Routed {
    /// A flow with one path.
    pub fn single(flow: Flow, path: Path) -> Routed {
        Routed { flow, paths: vec![Share { share: 1.0, path }] }
    }

    /// A flow split evenly over `paths`.
    pub fn even(flow: Flow, paths: Vec<Path>) -> Routed {
        let share = 1.0 / paths.len() as f64;
        Routed { flow, paths: paths.into_iter().map(|path| Share { share, path }).collect() }
    }

    /// Links per unit of flow, the mean over its paths.
    pub fn hops(&self) -> f64 {
        self.paths.iter().map(|way| way.share * way.path.len() as f64).sum()
    }
}

/// Every flow with its paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// In order of source, then destination.
    pub flows: Vec<Routed>,
}

impl Routes {
    /// The load of each link, in units of its capacity.
    pub fn loads(&self, mesh: &Mesh) -> Vec<f64> {
        let mut loads = vec![0.0; mesh.links().len()];
        for routed in &self.flows {
            for way in &routed.paths {
                for &link in &way.path {
                    loads[link] += routed.flow.rate * way.share;
                }
            }
        }
        loads
    }

    /// The same with every rate times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Routes {
        let mut routes = self.clone();
        routes.flows.iter_mut().for_each(|routed| routed.flow.rate *= factor);
        routes
    }

    /// What each of `planes` planes carries when the paths, one after another, are on the planes
    /// `plane`.
    pub fn parts(&self, plane: &[usize], planes: usize) -> Vec<Routes> {
        let mut parts = vec![Routes::default(); planes];
        let ways = self.flows.iter().flat_map(|routed| {
            routed.paths.iter().map(|way| {
                let rate = routed.flow.rate * way.share;
                Routed::single(Flow { rate, ..routed.flow }, way.path.clone())
            })
        });
        for (routed, &plane) in ways.zip(plane) {
            parts[plane].flows.push(routed);
        }
        parts
    }

    /// Who sends how much to whom.
    pub fn traffic(&self, mesh: &Mesh) -> Traffic {
        let mut traffic = Traffic::silent(mesh.nodes());
        for Routed { flow, .. } in &self.flows {
            traffic.add(flow.source, flow.destination, flow.rate);
        }
        traffic
    }

    /// Sum of rate x hops: the power at full voltage (eq. 6.2 with alpha = 1).
    pub fn hop_rate(&self) -> f64 {
        self.flows.iter().map(|routed| routed.flow.rate * routed.hops()).sum()
    }
}

/// The voltage range of a plane: its expansion factor alpha = V_max / V lies in 1..=alpha_max.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoltageRange {
    alpha_max: f64,
}

/// An `alpha_max` below 1 or not a number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("alpha-max is {0}, but the voltage can only be lowered: use 1 or more, for example 3")]
pub struct AlphaError(pub f64);

impl VoltageRange {
    /// A range.
    ///
    /// # Errors
    /// When `alpha_max` is below 1 or not finite.
    pub fn new(alpha_max: f64) -> Result<VoltageRange, AlphaError> {
        if alpha_max.is_finite() && alpha_max >= 1.0 {
            Ok(VoltageRange { alpha_max })
        } else {
            Err(AlphaError(alpha_max))
        }
    }

    /// The largest expansion factor.
    pub fn alpha_max(self) -> f64 {
        self.alpha_max
    }

    /// The load up to which the lowest voltage suffices, 1/alpha_max.
    pub fn floor(self) -> f64 {
        1.0 / self.alpha_max
    }

    /// The largest factor that a most loaded link of `load` permits: min(1/load, alpha_max);
    /// `None` where even full voltage is too slow.
    pub fn alpha(self, load: f64) -> Option<f64> {
        (load <= 1.0 + CAPACITY_SLACK).then(|| (1.0 / load.max(self.floor())).max(1.0))
    }
}

/// Loads may exceed the capacity by this much: what normalising to load 1 rounds.
pub(crate) const CAPACITY_SLACK: f64 = 1e-9;

/// What a plane does and costs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Operation {
    /// Sum of rate x hops / alpha^2 (eq. 6.2).
    pub power: f64,
    /// The expansion factor.
    pub alpha: f64,
    /// The most loaded link's load, in units of a link's capacity.
    pub max_link_load: f64,
}

impl Operation {
    /// The least power of these loads; `None` where a link is overloaded.
    pub fn of(loads: &[f64], hop_rate: f64, range: VoltageRange) -> Option<Operation> {
        let max_link_load = loads.iter().copied().fold(0.0, f64::max);
        let alpha = range.alpha(max_link_load)?;
        Some(Operation { power: hop_rate / (alpha * alpha), alpha, max_link_load })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_hops_and_power_add_up() {
        let mesh = Mesh::new(1, 3).expect("a row");
        let flow = |source, destination, rate| Flow { source, destination, rate };
        let routes = Routes {
            flows: vec![
                Routed::single(flow(0, 2, 0.5), vec![0, 2]),
                Routed::even(flow(0, 1, 0.2), vec![vec![0], vec![0]]),
            ],
        };
        let loads = routes.loads(&mesh);
        assert!((loads[0] - 0.7).abs() < 1e-15 && loads[2] == 0.5 && loads[1] == 0.0);
        assert!((routes.hop_rate() - 1.2).abs() < 1e-15);
        let range = VoltageRange::new(3.0).expect("a range");
        let operation = Operation::of(&loads, routes.hop_rate(), range).expect("fits");
        assert!((operation.power - 1.2 * 0.49).abs() < 1e-12);
        assert_eq!(Operation::of(&[1.1], 1.0, range), None);
        assert_eq!(Operation::of(&[0.1], 1.0, range).map(|seen| seen.alpha), Some(3.0));
    }

    #[test]
    fn a_range_below_one_is_refused() {
        assert!(VoltageRange::new(0.5).is_err_and(|error| error.to_string().contains("alpha-max")));
        assert!(VoltageRange::new(f64::NAN).is_err());
    }
}
