//! The method of the thesis: solve the program at evenly spaced expansion factors and take the
//! least (Li 2012, section 6.4). Its result is no bound: the optimum may lie between samples.

use ebb_scenario::Progress;

use super::BoundError;
use super::master::{Master, Plane};
use super::pricing::{Ways, offers};
use super::single::{first_paths, scaled_flows};
use crate::{Mesh, Traffic, VoltageRange};

/// The least power over `samples` expansion factors from 1 to alpha_max, and the factor; `None`
/// where the traffic fits at none of them.
///
/// # Errors
/// When nothing is sent or no path joins two tiles that talk.
pub fn sampled(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    samples: usize,
    progress: &dyn Progress,
) -> Result<Option<(f64, f64)>, BoundError> {
    let (flows, scale) = scaled_flows(mesh, traffic)?;
    let plane = Plane { hop_cost: 1.0, low: scale, price: 0.0 };
    let mut master = Master::new(mesh, first_paths(mesh, &flows), &[plane], progress);
    let mut best: Option<(f64, f64)> = None;
    for sample in 0..samples {
        let part = if samples > 1 { sample as f64 / (samples - 1) as f64 } else { 0.0 };
        let alpha = 1.0 + part * (range.alpha_max() - 1.0);
        let low = scale / alpha;
        let price = 1e3 * mesh.nodes() as f64;
        master.set_plane(0, Plane { hop_cost: 1.0, low, price });
        let point = loop {
            let point = master.solve()?;
            let before = master.size();
            for (link, &load) in point.loads[0].iter().enumerate() {
                if load > low * (1.0 - 1e-12) {
                    master.watch(0, link);
                }
            }
            let lengths = vec![point.prices[0].iter().map(|price| 1.0 + price).collect()];
            for offer in offers(Ways::Any(mesh), &master, &flows, &lengths, &point.loads) {
                master.add_way(offer.commodity, offer.plane, offer.path);
            }
            if master.size() == before {
                break point;
            }
        };
        let fullest = point.loads[0].iter().copied().fold(0.0, f64::max);
        if fullest > low * (1.0 + 1e-9) {
            break;
        }
        let power = point.hop_rate[0] / scale / (alpha * alpha);
        if best.is_none_or(|(least, _)| power < least) {
            best = Some((power, alpha));
        }
    }
    Ok(best)
}
