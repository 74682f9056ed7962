//! What a DRAM device asks for between commands.

use ebb_scenario::schema::over;
use ebb_scenario::{Described, Invalid};
use serde::{Deserialize, Deserializer};

/// Picoseconds.
pub type Ps = u64;

/// Times in ns and the shape of the memory; names are those of the JEDEC standards (JESD79-3, -4).
///
/// Defaults are those of DDR3-1600; with `kind = "ddr4-2400"` those of that device.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// The device whose values are the defaults; those shown are of `ddr3-1600`.
    pub kind: MemoryKind,
    /// Clock period.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub ck: f64,
    /// Column access to data, reads.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub cl: f64,
    /// Column access to data, writes.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub cwl: f64,
    /// Activation to column access.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rcd: f64,
    /// Precharge.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rp: f64,
    /// Activation to precharge.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub ras: f64,
    /// A burst on the data bus.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub burst: f64,
    /// Column access to column access.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub ccd: f64,
    /// Column access to column access within a bank group.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub ccd_l: f64,
    /// Activation to activation of another bank.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rrd: f64,
    /// Activation to activation of another bank within a bank group.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rrd_l: f64,
    /// Window of four activations.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub faw: f64,
    /// End of written data to precharge.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub wr: f64,
    /// End of written data to a read.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub wtr: f64,
    /// End of written data to a read within a bank group.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub wtr_l: f64,
    /// Read to precharge.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rtp: f64,
    /// Between bursts of different ranks.
    #[schema(unit = "ns", least = 0, most = 100_000)]
    pub rtrs: f64,
    /// A refresh.
    #[schema(unit = "ns", above = 0, most = 100_000)]
    pub rfc: f64,
    /// From refresh to refresh.
    #[schema(unit = "ns", above = 0, most = 1_000_000_000)]
    pub refi: f64,
    /// From the end of the data to the core beyond the way of a token: buses and clock domains that the
    /// standards do not know.
    #[schema(least = 0, most = 100_000)]
    pub return_ns: f64,
    /// Independent channels, a power of two.
    #[schema(least = 1, most = 16)]
    pub channels: usize,
    /// Ranks a channel, a power of two.
    #[schema(least = 1, most = 8)]
    pub ranks: usize,
    /// Banks a rank, a power of two.
    #[schema(least = 1, most = 64)]
    pub banks: usize,
    /// Bank groups a rank, a power of two.
    #[schema(least = 1, most = 16)]
    pub groups: usize,
    /// Bytes of a row over all chips, a power of two.
    #[schema(least = 64, most = 1 << 20)]
    pub row_bytes: u64,
    /// Rows stay open after an access.
    pub open_page: bool,
    /// Neighbouring lines lie in different banks; otherwise in one row.
    pub lines_over_banks: bool,
    /// Entries of a channel's read queue.
    #[schema(least = 1, most = 256)]
    pub reads: usize,
    /// Entries of its write queue.
    #[schema(least = 2, most = 256)]
    pub writes: usize,
    /// From this many writes on, writes come first.
    pub drain_from: usize,
    /// Writes come first down to this many.
    pub drain_to: usize,
}

/// A device that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Described)]
pub enum MemoryKind {
    /// DDR3-1600 at 11-11-11, chips of 2 Gb.
    #[default]
    #[serde(rename = "ddr3-1600")]
    Ddr3,
    /// DDR3-1333 at 10-10-10, chips of 2 Gb.
    #[serde(rename = "ddr3-1333")]
    Ddr3Slow,
    /// DDR4-2400 at 17-17-17, chips of 8 Gb.
    #[serde(rename = "ddr4-2400")]
    Ddr4,
}

/// Reads a device by kind with some values replaced.
pub(crate) fn memory<'de, D: Deserializer<'de>>(given: D) -> Result<MemorySettings, D::Error> {
    over(given, |table| match table.get("kind").and_then(|kind| kind.as_str()) {
        Some("ddr4-2400") => MemorySettings::ddr4(),
        Some("ddr3-1333") => MemorySettings::ddr3_1333(),
        _ => MemorySettings::ddr3(),
    })
}

impl Default for MemorySettings {
    fn default() -> MemorySettings {
        MemorySettings::ddr3()
    }
}

impl MemorySettings {
    /// DDR3-1600 at 11-11-11, chips of 2 Gb, 8 of them a rank (JESD79-3F): a row miss takes 46.25 ns
    /// (45 in section 2.3.3).
    pub fn ddr3() -> MemorySettings {
        MemorySettings {
            kind: MemoryKind::Ddr3,
            ck: 1.25,
            cl: 13.75,
            cwl: 10.0,
            rcd: 13.75,
            rp: 13.75,
            ras: 35.0,
            burst: 5.0,
            ccd: 5.0,
            ccd_l: 5.0,
            rrd: 6.25,
            rrd_l: 6.25,
            faw: 30.0,
            wr: 15.0,
            wtr: 7.5,
            wtr_l: 7.5,
            rtp: 7.5,
            rtrs: 2.5,
            rfc: 160.0,
            refi: 7800.0,
            return_ns: 0.0,
            channels: 1,
            ranks: 1,
            banks: 8,
            groups: 1,
            row_bytes: 8192,
            open_page: true,
            lines_over_banks: false,
            reads: 32,
            writes: 32,
            drain_from: 24,
            drain_to: 8,
        }
    }

    /// DDR3-1333 at 10-10-10, chips of 2 Gb, 8 of them a rank of 2 GB (Micron's MT41J256M8 of speed grade 15 as
    /// DRAMSim2 comes with it): a row miss takes 45 ns to the first data and 51 to the last.
    pub fn ddr3_1333() -> MemorySettings {
        MemorySettings {
            kind: MemoryKind::Ddr3Slow,
            ck: 1.5,
            cl: 15.0,
            cwl: 13.5,
            rcd: 15.0,
            rp: 15.0,
            ras: 36.0,
            burst: 6.0,
            ccd: 6.0,
            ccd_l: 6.0,
            rrd: 6.0,
            rrd_l: 6.0,
            faw: 30.0,
            wr: 15.0,
            wtr: 7.5,
            wtr_l: 7.5,
            rtp: 7.5,
            rtrs: 1.5,
            rfc: 160.5,
            ..MemorySettings::ddr3()
        }
    }

    /// DDR4-2400 at 17-17-17, chips of 8 Gb (JESD79-4B).
    pub fn ddr4() -> MemorySettings {
        MemorySettings {
            kind: MemoryKind::Ddr4,
            ck: 0.833,
            cl: 14.161,
            cwl: 9.996,
            rcd: 14.161,
            rp: 14.161,
            ras: 32.0,
            burst: 3.332,
            ccd: 3.332,
            ccd_l: 4.998,
            rrd: 3.332,
            rrd_l: 4.998,
            faw: 21.0,
            wr: 15.0,
            wtr: 2.5,
            wtr_l: 7.5,
            rtp: 7.5,
            rtrs: 1.666,
            rfc: 350.0,
            refi: 7800.0,
            banks: 16,
            groups: 4,
            ..MemorySettings::ddr3()
        }
    }

    /// The least time from a command to the end of its data, ns: a read of an open row.
    pub fn row_hit_ns(&self) -> f64 {
        self.cl + self.burst
    }

    /// From the activation of a closed row to the end of the data, ns.
    pub fn row_closed_ns(&self) -> f64 {
        self.rcd + self.row_hit_ns()
    }

    /// The same where another row has to be closed first, ns.
    pub fn row_conflict_ns(&self) -> f64 {
        self.rp + self.row_closed_ns()
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let refresh = self.refi > 4.0 * self.rfc;
        let remedy = "expected more than four times memory.rfc, for example 7800";
        Invalid::unless(refresh, "memory.refi", "leaves no time between refreshes", remedy)?;
        let shape = [
            ("channels", self.channels as u64),
            ("ranks", self.ranks as u64),
            ("banks", self.banks as u64),
            ("groups", self.groups as u64),
            ("row_bytes", self.row_bytes),
        ];
        for (name, value) in shape {
            let field = format!("memory.{name}");
            Invalid::unless(
                value.is_power_of_two(),
                field,
                "is not a power of two",
                "use a power of two",
            )?;
        }
        let groups = self.groups <= self.banks;
        Invalid::unless(
            groups,
            "memory.groups",
            "do not divide the banks",
            "use a divisor of the banks",
        )?;
        let drain = self.drain_to < self.drain_from && self.drain_from <= self.writes;
        let remedy = "expected drain_to < drain_from <= writes";
        Invalid::unless(drain, "memory.drain_from", "does not fit the write queue", remedy)
    }
}

/// The same in whole picoseconds, each command time a multiple of the clock.
#[derive(Clone, Debug)]
pub struct Timing {
    pub ck: Ps,
    pub cl: Ps,
    pub cwl: Ps,
    pub rcd: Ps,
    pub rp: Ps,
    pub ras: Ps,
    pub burst: Ps,
    pub ccd: [Ps; 2],
    pub rrd: [Ps; 2],
    pub faw: Ps,
    pub wr: Ps,
    pub wtr: [Ps; 2],
    pub rtp: Ps,
    pub rtrs: Ps,
    pub rfc: Ps,
    pub refi: Ps,
}

/// Nanoseconds as picoseconds.
pub fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round() as Ps
}

impl Timing {
    /// Of a memory; arrays hold the time between bank groups and that within one.
    pub fn of(settings: &MemorySettings) -> Timing {
        Timing {
            ck: ps(settings.ck),
            cl: ps(settings.cl),
            cwl: ps(settings.cwl),
            rcd: ps(settings.rcd),
            rp: ps(settings.rp),
            ras: ps(settings.ras),
            burst: ps(settings.burst),
            ccd: [ps(settings.ccd), ps(settings.ccd_l)],
            rrd: [ps(settings.rrd), ps(settings.rrd_l)],
            faw: ps(settings.faw),
            wr: ps(settings.wr),
            wtr: [ps(settings.wtr), ps(settings.wtr_l)],
            rtp: ps(settings.rtp),
            rtrs: ps(settings.rtrs),
            rfc: ps(settings.rfc),
            refi: ps(settings.refi),
        }
    }
}
