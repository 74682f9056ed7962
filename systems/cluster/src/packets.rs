//! Packets per second and Mbit/s: the same load by the length of the packets.

use ebb_scenario::Invalid;
use ebb_scenario::csv::Table;
use ebb_scenario::{ScenarioError, nearest};
use ebb_traffic::SizeMix;

/// How long packets are in the mean, as Ethernet frames with their check sequence.
///
/// ```
/// use ebb_system_cluster::PacketMix;
/// let mix = PacketMix::named("1250").unwrap();
/// assert_eq!((mix.mbps(100e3), mix.pps(1000.0)), (1000.0, 100e3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketMix {
    bytes: f64,
}

impl PacketMix {
    /// `imix`, or a length in bytes.
    ///
    /// # Errors
    /// When it is neither; the field is `packets`.
    pub fn named(text: &str) -> Result<PacketMix, Invalid> {
        let remedy = format!(
            "expected \"imix\" or a length from {} to {} bytes, as text",
            SizeMix::FRAME_MIN,
            SizeMix::FRAME_MAX
        );
        let mix = SizeMix::by_name(text)
            .ok_or_else(|| Invalid::new("packets", format!("there is no mix `{text}`"), remedy))?;
        Ok(PacketMix { bytes: mix.mean() })
    }

    /// Mean length in bytes.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// So many packets per second in Mbit/s.
    pub fn mbps(&self, pps: f64) -> f64 {
        pps * self.bytes * 8.0 / 1e6
    }

    /// So many Mbit/s in packets per second.
    pub fn pps(&self, mbps: f64) -> f64 {
        mbps * 1e6 / 8.0 / self.bytes
    }
}

/// The column of a table that is in packets per second, if there is one.
///
/// # Errors
/// When nothing says how long packets are, with what to set.
pub(crate) fn column(
    table: &Table,
    name: &str,
    other: &str,
    mix: Option<&PacketMix>,
) -> Result<Option<(usize, PacketMix)>, ScenarioError> {
    let has = |name: &str| table.header().iter().any(|have| have.eq_ignore_ascii_case(name));
    if !has(name) {
        // One that is nearly it is not passed over where the other is not there either.
        let near = table.header().iter().find(|have| nearest(have, [name]).is_some());
        if let Some(near) = near.filter(|_| !has(other)) {
            let message = format!("there is no column `{near}`");
            return Err(table.whole(&message, &format!("did you mean `{name}`?")));
        }
        return Ok(None);
    }
    let column = table.column(&[name])?;
    match mix {
        Some(mix) => Ok(Some((column, *mix))),
        None => {
            let message = "is in packets per second, and nothing says how long packets are";
            let remedy = format!(
                "set `packets` (`--packets imix`, or a length in bytes), or give `{other}` instead"
            );
            Err(table.fault(0, column, message, &remedy))
        }
    }
}
