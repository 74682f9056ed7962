//! Rates as people write them: packets or bits a second.

/// How fast, as people write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// Packets a second.
    Packets(f64),
    /// Bits a second on the wire.
    Bits(f64),
}

/// Bytes on the wire beside the frame: preamble, start, gap (IEEE 802.3) and check sequence.
const WIRE_BYTES: f64 = 24.0;

impl Rate {
    /// Reads `50000`, `10k`, `1.5M`, `2Mpps`, `1Gbit`, `10Gbps`.
    pub(super) fn parse(text: &str) -> Result<Rate, String> {
        let wrong = || "expected a rate, for example 50000, 10k, 1.5M or 1Gbit".to_owned();
        let lower = text.trim().to_ascii_lowercase();
        let units = ["bit/s", "bits", "bit", "bps", "pps", ""];
        let unit = units.iter().find(|unit| lower.ends_with(**unit)).expect("the last fits all");
        let number = lower[..lower.len() - unit.len()].trim_end();
        let (number, factor) = match number.chars().last() {
            Some('k') => (&number[..number.len() - 1], 1e3),
            Some('m') => (&number[..number.len() - 1], 1e6),
            Some('g') => (&number[..number.len() - 1], 1e9),
            _ => (number, 1.0),
        };
        let value = number.trim_end().parse::<f64>().map_err(|_| wrong())? * factor;
        if !(value.is_finite() && value > 0.0) {
            return Err("expected a rate above 0".to_owned());
        }
        Ok(if matches!(*unit, "pps" | "") { Rate::Packets(value) } else { Rate::Bits(value) })
    }

    /// Packets a second of `frame_bytes` in the mean, without check sequence.
    pub(super) fn packets(self, frame_bytes: f64) -> f64 {
        match self {
            Rate::Packets(rate) => rate,
            Rate::Bits(bits) => bits / wire_bits(1.0, frame_bytes),
        }
    }
}

/// Bits on the wire of `packets` with `bytes` in all, without check sequences.
pub(super) fn wire_bits(packets: f64, bytes: f64) -> f64 {
    8.0 * (bytes + WIRE_BYTES * packets)
}

/// Bits a second with the prefix that suits them.
pub(super) fn bit_rate(bits: f64) -> String {
    match bits {
        bits if bits >= 1e9 => format!("{:.3} Gbit/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_people_do() {
        for (text, rate) in [
            ("50000", Rate::Packets(50e3)),
            ("10k", Rate::Packets(10e3)),
            ("10M", Rate::Packets(10e6)),
            ("1G", Rate::Packets(1e9)),
            ("1.5Mpps", Rate::Packets(1.5e6)),
            ("1 Gbit", Rate::Bits(1e9)),
            ("10Gbps", Rate::Bits(10e9)),
            ("64kbit/s", Rate::Bits(64e3)),
        ] {
            assert_eq!(Rate::parse(text), Ok(rate), "{text}");
        }
        for bad in ["", "fast", "-1", "0", "k", "1T", "inf", "nan", "1e400"] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ten_gigabits_are_the_known_number_of_smallest_packets() {
        let pps = Rate::Bits(10e9).packets(60.0);
        assert!((pps - 14_880_952.0).abs() < 1.0, "{pps}");
        assert_eq!(bit_rate(wire_bits(pps, pps * 60.0)), "10.000 Gbit/s");
    }
}
