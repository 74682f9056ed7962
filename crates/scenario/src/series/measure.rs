//! What values are, where a format or a head says it.

/// What the values of a series are, where its format or the head of its column says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bits a second.
    BitsPerSecond,
    /// Thousands of bits a second.
    KilobitsPerSecond,
    /// Millions of bits a second.
    MegabitsPerSecond,
    /// Billions of bits a second.
    GigabitsPerSecond,
    /// Bytes in each row's interval.
    BytesPerRow,
    /// Bytes a second.
    BytesPerSecond,
    /// Thousands of bytes a second.
    KilobytesPerSecond,
    /// Millions of bytes a second.
    MegabytesPerSecond,
    /// Packets a second.
    PacketsPerSecond,
}

/// Units in words, as names of counters have them.
const WORDS: [(&str, Measure); 14] = [
    ("bits_per_second", Measure::BitsPerSecond),
    ("bit_per_second", Measure::BitsPerSecond),
    ("kbit_per_second", Measure::KilobitsPerSecond),
    ("mbit_per_second", Measure::MegabitsPerSecond),
    ("gbit_per_second", Measure::GigabitsPerSecond),
    ("bytes_per_second", Measure::BytesPerSecond),
    ("byte_per_second", Measure::BytesPerSecond),
    ("packets_per_second", Measure::PacketsPerSecond),
    ("packet_per_second", Measure::PacketsPerSecond),
    ("bps", Measure::BitsPerSecond),
    ("kbps", Measure::KilobitsPerSecond),
    ("mbps", Measure::MegabitsPerSecond),
    ("gbps", Measure::GigabitsPerSecond),
    ("pps", Measure::PacketsPerSecond),
];

/// Units of which there are others: what they are, and how many.
const SCALED: [(&str, Measure, f64); 8] = [
    ("KiB/s", Measure::BytesPerSecond, 1024.0),
    ("MiB/s", Measure::BytesPerSecond, 1_048_576.0),
    ("GiB/s", Measure::BytesPerSecond, 1_073_741_824.0),
    ("Mib/s", Measure::BitsPerSecond, 1_048_576.0),
    ("Gib/s", Measure::BitsPerSecond, 1_073_741_824.0),
    ("GB/s", Measure::MegabytesPerSecond, 1e3),
    ("kpps", Measure::PacketsPerSecond, 1e3),
    ("Mpps", Measure::PacketsPerSecond, 1e6),
];

/// The unit at the end of a column's head: `in [Mbit/s]`, `eth0 rx (B/s)`, `rx_bytes_per_second`, `Gbps`; and how
/// many of it a value is.
pub(super) fn of_head(head: &str) -> Option<(Measure, f64)> {
    let last = head.trim().trim_end_matches([')', ']']).rsplit(['(', '[', ' ', ',', ':']).next()?;
    let scaled = SCALED.iter().find(|(name, ..)| last.trim() == *name);
    let scaled = scaled.map(|(_, measure, factor)| (*measure, *factor));
    scaled.or_else(|| plain(head).map(|measure| (measure, 1.0)))
}

fn plain(head: &str) -> Option<Measure> {
    let head = head.trim().trim_end_matches([')', ']']);
    let last = head.rsplit(['(', '[', ' ', ',', ':']).next()?.trim();
    unit(last).or_else(|| {
        let words = last.to_ascii_lowercase();
        let ends = |end: &str| words == end || words.ends_with(&format!("_{end}"));
        WORDS.iter().find(|(end, _)| ends(end)).map(|(_, measure)| *measure)
    })
}

/// A unit by itself; a large B is of bytes, a small one of bits.
fn unit(text: &str) -> Option<Measure> {
    let of_second = text.strip_suffix("/s").or_else(|| text.strip_suffix("/sec"));
    let counted = of_second.or_else(|| text.strip_suffix("ps").filter(|_| text != "pps"));
    Some(match counted? {
        "b" | "bit" | "bits" | "Bit" => Measure::BitsPerSecond,
        "kb" | "Kb" | "kbit" | "Kbit" | "kbits" => Measure::KilobitsPerSecond,
        "Mb" | "Mbit" | "Mbits" => Measure::MegabitsPerSecond,
        "Gb" | "Gbit" | "Gbits" => Measure::GigabitsPerSecond,
        "B" | "byte" | "bytes" | "Byte" | "Bytes" => Measure::BytesPerSecond,
        "kB" | "KB" => Measure::KilobytesPerSecond,
        "MB" => Measure::MegabytesPerSecond,
        "p" | "pkt" | "pkts" | "packets" | "Packets" => Measure::PacketsPerSecond,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_what_their_values_are() {
        for (head, measure) in [
            ("Gbit/s", Measure::GigabitsPerSecond),
            ("eth0 in [Mbit/s]", Measure::MegabitsPerSecond),
            ("rx (kB/s)", Measure::KilobytesPerSecond),
            ("rx (kb/s)", Measure::KilobitsPerSecond),
            ("uplink, B/s", Measure::BytesPerSecond),
            ("in MB/s", Measure::MegabytesPerSecond),
            ("Mbps", Measure::MegabitsPerSecond),
            ("link_mbps", Measure::MegabitsPerSecond),
            ("bps", Measure::BitsPerSecond),
            ("rx_bytes_per_second", Measure::BytesPerSecond),
            ("pps", Measure::PacketsPerSecond),
            ("in packets/s", Measure::PacketsPerSecond),
        ] {
            assert_eq!(of_head(head), Some((measure, 1.0)), "{head}");
        }
        for head in ["uplink B in", "v", "bytes", "Value", "", "in ()", "maps", "XB/s"] {
            assert_eq!(of_head(head), None, "{head}");
        }
        let scaled = Some((Measure::BytesPerSecond, 1_048_576.0));
        assert_eq!((of_head("in (MiB/s)"), of_head("MiB/s")), (scaled, scaled));
    }
}
