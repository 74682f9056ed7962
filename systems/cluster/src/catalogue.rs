//! Servers to choose from.

use std::collections::BTreeSet;

use ebb_scenario::csv::Table;
use ebb_scenario::{ScenarioError, nearest};

use crate::packets::{PacketMix, column};
use crate::specpower::{Columns, Curve};

/// Servers to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Where it was read, for messages.
    pub file: String,
    /// The groups of equal servers, in the order of the file.
    pub groups: Vec<Group>,
}

/// Equal servers (Li 2012, section 8.2: a group k).
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What one server routes, above 0 (R_k).
    pub capacity_mbps: f64,
    /// What one server draws at full load, above 0 (P_k).
    pub full_w: f64,
    /// What one server that is on draws without load, 0 to `full_w`. Between the two its power is
    /// linear in its load where there is no `curve`; the published model has both equal.
    pub idle_w: f64,
    /// What it draws in between, where that was measured.
    pub curve: Option<Curve>,
    /// What one server costs, 0 or more (C_k).
    pub price: f64,
    /// How many there are; `None`: as many as wanted.
    pub available: Option<u32>,
    /// Seconds from switching on until it forwards.
    pub wake_s: f64,
    /// Energy that switching on takes before it forwards, in joules.
    pub wake_j: f64,
}

/// Columns that need not be there.
const OPTIONAL: [&str; 2] = ["wake_seconds", "wake_joules"];
/// Columns that must be there.
const NEEDED: [&str; 5] = ["group", "power_full_w", "power_idle_w", "price", "available"];
/// What a server carries, of which one must be there.
const CAPACITIES: [&str; 2] = ["capacity_mbps", "capacity_pps"];

impl Catalogue {
    /// Reads a table with the columns `group`, `capacity_mbps`, `power_full_w`, `power_idle_w`, `price` and
    /// `available` (empty: unlimited), and if it has them `wake_seconds` and `wake_joules`. Columns of other
    /// names are for people. Instead of the two powers there may be SPECpower_ssj2008's watts when idle and at each
    /// tenth of the load, and instead of `group` its `System`.
    ///
    /// # Errors
    /// With file, line and column of what makes no sense.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Catalogue, ScenarioError> {
        Catalogue::parse_for(file, bytes, None)
    }

    /// The same for packets of a mix: then there may be `capacity_pps`, as `ebb cluster bench` measures it, instead of
    /// `capacity_mbps` or besides. With both, a server carries the less of the two.
    ///
    /// # Errors
    /// As [`Catalogue::parse`]; without a mix `capacity_pps` is refused.
    pub fn parse_for(
        file: &str,
        bytes: &[u8],
        mix: Option<&PacketMix>,
    ) -> Result<Catalogue, ScenarioError> {
        let table = Table::parse(file, bytes)?;
        let published = Columns::of(&table)?;
        let mut at = [0; NEEDED.len()];
        for (at, name) in at.iter_mut().zip(NEEDED) {
            *at = match (&published, name) {
                (Some(columns), "power_full_w") => columns.ends().1,
                (Some(columns), "power_idle_w") => columns.ends().0,
                (Some(_), "group") => table.column(&[name, "System"])?,
                _ => table.column(&[name])?,
            };
        }
        refuse_misspelt(&table)?;
        let packets = column(&table, CAPACITIES[1], CAPACITIES[0], mix)?;
        let has = |name| table.header().iter().any(|have| have.eq_ignore_ascii_case(name));
        let bits = match packets {
            Some(_) if !has(CAPACITIES[0]) => None,
            _ => Some(table.column(&[CAPACITIES[0]])?),
        };
        if table.is_empty() {
            return Err(table.whole("there is no server", "add a line for each group of servers"));
        }
        let mut names = BTreeSet::new();
        let mut groups = Vec::new();
        for row in 0..table.len() {
            let mut group = read(&table, row, at, (bits, packets))?;
            group.curve = published.as_ref().map(|it| it.curve(&table, row)).transpose()?;
            if !names.insert(group.name.clone()) {
                let message = format!("there are two groups `{}`", group.name);
                return Err(table.fault(row, at[0], &message, "use another name"));
            }
            groups.push(group);
        }
        Ok(Catalogue { file: file.to_owned(), groups })
    }
}

/// A column that nearly has the name of an optional one is not passed over.
fn refuse_misspelt(table: &Table) -> Result<(), ScenarioError> {
    for name in table.header() {
        let known = NEEDED
            .iter()
            .chain(&OPTIONAL)
            .chain(&CAPACITIES)
            .any(|known| known.eq_ignore_ascii_case(name));
        if !known && let Some(meant) = nearest(name, OPTIONAL) {
            let message = format!("there is no column `{name}`");
            return Err(table.whole(&message, &format!("did you mean `{meant}`?")));
        }
    }
    Ok(())
}

/// The columns of capacities in Mbit/s and in packets per second.
type Capacity = (Option<usize>, Option<(usize, PacketMix)>);

fn read(
    table: &Table,
    row: usize,
    at: [usize; 5],
    (bits, packets): Capacity,
) -> Result<Group, ScenarioError> {
    let [group, full, idle, price, available] = at;
    let name = table.text(row, group).to_owned();
    if name.is_empty() {
        return Err(table.fault(row, group, "has no name", "give a name, for example I"));
    }
    let positive = |column: usize, example: &str| {
        let number = table.number(row, column)?;
        if number > 0.0 {
            return Ok(number);
        }
        Err(table.fault(row, column, &format!("{number} is not above 0"), example))
    };
    let mut capacity_mbps = f64::INFINITY;
    if let Some(column) = bits {
        capacity_mbps = positive(column, "give the capacity of one server, for example 6500")?;
    }
    if let Some((column, mix)) = packets {
        let pps = positive(column, "give the packets per second of one server, for example 1e6")?;
        capacity_mbps = capacity_mbps.min(mix.mbps(pps));
    }
    let full_w = positive(full, "give the power of one server at full load, for example 75")?;
    let idle_w = table.non_negative(row, idle)?;
    if idle_w > full_w {
        let message = format!("{idle_w} W without load is more than {full_w} W at full load");
        return Err(table.fault(row, idle, &message, "expected at most `power_full_w`"));
    }
    let text = table.text(row, available);
    let available = match text.parse::<u32>() {
        Ok(number) => Some(number),
        Err(_) if text.is_empty() => None,
        Err(_) => {
            let message = format!("`{text}` is not a number of servers");
            return Err(table.fault(
                row,
                available,
                &message,
                "use 0, 1, 2, ... or an empty field",
            ));
        }
    };
    let optional = |name: &str| -> Result<f64, ScenarioError> {
        match table.column(&[name]) {
            Ok(column) if !table.text(row, column).is_empty() => table.non_negative(row, column),
            _ => Ok(0.0),
        }
    };
    Ok(Group {
        name,
        capacity_mbps,
        full_w,
        idle_w,
        curve: None,
        price: table.non_negative(row, price)?,
        available,
        wake_s: optional(OPTIONAL[0])?,
        wake_j: optional(OPTIONAL[1])?,
    })
}

impl Group {
    /// Power per unit of load above idling, in watts per Mbps.
    pub fn slope(&self) -> f64 {
        (self.full_w - self.idle_w) / self.capacity_mbps
    }

    /// What one server that is on draws while `mbps` arrive for it, in watts.
    pub fn watts(&self, mbps: f64) -> f64 {
        match &self.curve {
            Some(curve) => curve.at(mbps / self.capacity_mbps),
            None => self.idle_w + self.slope() * mbps.min(self.capacity_mbps),
        }
    }

    /// The same group with a straight line that lies nowhere above its curve.
    pub(crate) fn at_least(&self) -> Group {
        let (idle_w, full_w) = self.curve.as_ref().map_or((self.idle_w, self.full_w), Curve::floor);
        Group { idle_w, full_w, curve: None, ..self.clone() }
    }

    /// Full capacity per watt.
    pub fn mbps_per_watt(&self) -> f64 {
        self.capacity_mbps / self.full_w
    }

    /// Capacity for the money; infinite where it is free.
    pub fn mbps_per_price(&self) -> f64 {
        if self.price > 0.0 { self.capacity_mbps / self.price } else { f64::INFINITY }
    }
}
