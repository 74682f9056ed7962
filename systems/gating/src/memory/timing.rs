//! What a DRAM device asks for between commands.

use ebb_scenario::Invalid;
use serde::Deserialize;

/// Picoseconds.
pub type Ps = u64;

/// Times in ns and the shape of the memory; names are those of the JEDEC standards (JESD79-3, -4).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, from = "Given")]
pub struct MemorySettings {
    /// Clock period.
    pub ck: f64,
    /// Column access to data, reads.
    pub cl: f64,
    /// Column access to data, writes.
    pub cwl: f64,
    /// Activation to column access.
    pub rcd: f64,
    /// Precharge.
    pub rp: f64,
    /// Activation to precharge.
    pub ras: f64,
    /// A burst on the data bus.
    pub burst: f64,
    /// Column access to column access.
    pub ccd: f64,
    /// The same within a bank group.
    pub ccd_l: f64,
    /// Activation to activation of another bank.
    pub rrd: f64,
    /// The same within a bank group.
    pub rrd_l: f64,
    /// Window of four activations.
    pub faw: f64,
    /// End of written data to precharge.
    pub wr: f64,
    /// End of written data to a read.
    pub wtr: f64,
    /// The same within a bank group.
    pub wtr_l: f64,
    /// Read to precharge.
    pub rtp: f64,
    /// Between bursts of different ranks.
    pub rtrs: f64,
    /// A refresh.
    pub rfc: f64,
    /// From refresh to refresh.
    pub refi: f64,
    /// From the end of the data to the core beyond the way of a token: buses and clock domains that the
    /// standards do not know.
    pub return_ns: f64,
    /// Independent channels.
    pub channels: usize,
    /// Ranks a channel.
    pub ranks: usize,
    /// Banks a rank.
    pub banks: usize,
    /// Bank groups a rank.
    pub groups: usize,
    /// Bytes of a row over all chips.
    pub row_bytes: u64,
    /// Rows stay open after an access.
    pub open_page: bool,
    /// Entries of a channel's read queue.
    pub reads: usize,
    /// Entries of its write queue.
    pub writes: usize,
    /// From this many writes on, writes come first,
    pub drain_from: usize,
    /// down to this many.
    pub drain_to: usize,
}

/// A device by name with some values replaced.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    kind: Kind,
    ck: Option<f64>,
    cl: Option<f64>,
    cwl: Option<f64>,
    rcd: Option<f64>,
    rp: Option<f64>,
    ras: Option<f64>,
    burst: Option<f64>,
    ccd: Option<f64>,
    ccd_l: Option<f64>,
    rrd: Option<f64>,
    rrd_l: Option<f64>,
    faw: Option<f64>,
    wr: Option<f64>,
    wtr: Option<f64>,
    wtr_l: Option<f64>,
    rtp: Option<f64>,
    rtrs: Option<f64>,
    rfc: Option<f64>,
    refi: Option<f64>,
    return_ns: Option<f64>,
    channels: Option<usize>,
    ranks: Option<usize>,
    banks: Option<usize>,
    groups: Option<usize>,
    row_bytes: Option<u64>,
    open_page: Option<bool>,
    reads: Option<usize>,
    writes: Option<usize>,
    drain_from: Option<usize>,
    drain_to: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Kind {
    #[default]
    #[serde(rename = "ddr3-1600")]
    Ddr3,
    #[serde(rename = "ddr4-2400")]
    Ddr4,
}

impl From<Given> for MemorySettings {
    fn from(given: Given) -> MemorySettings {
        let mut made = match given.kind {
            Kind::Ddr3 => MemorySettings::ddr3(),
            Kind::Ddr4 => MemorySettings::ddr4(),
        };
        macro_rules! replace {
            ($($field:ident)*) => { $(if let Some(value) = given.$field { made.$field = value; })* };
        }
        replace!(ck cl cwl rcd rp ras burst ccd ccd_l rrd rrd_l faw wr wtr wtr_l rtp rtrs rfc refi);
        replace!(return_ns);
        replace!(channels ranks banks groups row_bytes open_page reads writes drain_from drain_to);
        made
    }
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
            reads: 32,
            writes: 32,
            drain_from: 24,
            drain_to: 8,
        }
    }

    /// DDR4-2400 at 17-17-17, chips of 8 Gb (JESD79-4B).
    pub fn ddr4() -> MemorySettings {
        MemorySettings {
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
        let times = [
            ("ck", self.ck),
            ("cl", self.cl),
            ("cwl", self.cwl),
            ("rcd", self.rcd),
            ("rp", self.rp),
            ("ras", self.ras),
            ("burst", self.burst),
            ("ccd", self.ccd),
            ("ccd_l", self.ccd_l),
            ("rrd", self.rrd),
            ("rrd_l", self.rrd_l),
            ("faw", self.faw),
            ("wr", self.wr),
            ("wtr", self.wtr),
            ("wtr_l", self.wtr_l),
            ("rtp", self.rtp),
            ("rtrs", self.rtrs),
            ("rfc", self.rfc),
        ];
        for (name, value) in times {
            let sane = (0.0..=1e5).contains(&value) && (value > 0.0 || name == "rtrs");
            let field = format!("memory.{name}");
            Invalid::unless(sane, field, "is no time", "ns above 0, at most 100000")?;
        }
        let refresh = self.refi > 4.0 * self.rfc && self.refi <= 1e9;
        let remedy = "more than four times memory.rfc, such as 7800";
        Invalid::unless(refresh, "memory.refi", "leaves no time between refreshes", remedy)?;
        let back = (0.0..=1e5).contains(&self.return_ns);
        Invalid::unless(back, "memory.return_ns", "is no time", "ns from 0, at most 100000")?;
        let shape = [
            ("channels", self.channels, 16),
            ("ranks", self.ranks, 8),
            ("banks", self.banks, 64),
            ("groups", self.groups, 16),
        ];
        for (name, value, most) in shape {
            let sane = value.is_power_of_two() && value <= most;
            let remedy = format!("a power of two up to {most}");
            Invalid::unless(sane, format!("memory.{name}"), "cannot be built", remedy)?;
        }
        let groups = self.groups <= self.banks;
        Invalid::unless(groups, "memory.groups", "are more than banks", "a divisor of the banks")?;
        let row = self.row_bytes.is_power_of_two() && (64..=1 << 20).contains(&self.row_bytes);
        Invalid::unless(row, "memory.row_bytes", "cannot be built", "a power of two from 64")?;
        let queues = self.reads > 0 && self.reads <= 256 && self.writes > 1 && self.writes <= 256;
        Invalid::unless(queues, "memory.reads", "or memory.writes is out of range", "2 to 256")?;
        let drain = self.drain_to < self.drain_from && self.drain_from <= self.writes;
        let remedy = "drain_to < drain_from <= writes";
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
