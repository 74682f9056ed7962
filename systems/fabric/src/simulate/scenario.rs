//! What users write.

use ebb_des::Seed;
use ebb_report::Details;
use ebb_scenario::{Check, Described, Document, Files, Invalid};

use super::SimulateError;
use super::given::{self, Moment};
use super::run::{Change, Run};
use crate::Fabric;
use crate::regulator::power::PortPower;
use crate::regulator::threshold::Thresholds;
use crate::routing::given::Given;
use crate::routing::{self, Options};
use crate::schemes::{self, Scheme};
use crate::sim::{Multipath, Pattern, Physics, Traffic};
use crate::topology::{HostId, Link, Topology, named};

/// A scenario file.
#[derive(Clone, Debug, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A generated fabric such as `torus:8x8`, or a file: ibnetdiscover's output or GraphML. Not with
    /// `tables`.
    #[serde(default)]
    pub topology: String,
    /// A directory with the first fabric and its tables in OpenSM's formats.
    #[serde(default)]
    pub tables: Option<String>,
    /// Hosts on each switch of a graph that says nothing of hosts, 1 unless stated; not with `tables`.
    pub hosts_per_switch: Option<u32>,
    /// Every host gets 2^lmc addresses; folders of tables say it themselves.
    #[serde(default)]
    #[schema(most = 7)]
    pub lmc: u8,
    /// The routing function.
    #[serde(default = "Scenario::default_routing")]
    #[schema(choices = routing::words(), default = "up-down")]
    pub routing: String,
    /// When links go off, only entries whose paths crossed them change, and all on are the first tables
    /// again; without, or where no such entries are found, the routing function makes tables anew.
    #[serde(default)]
    pub keep: bool,
    /// Its root switch, where it has one.
    #[serde(default)]
    pub root: Option<String>,
    /// Lanes that it may use, one lane set; 7 leaves room for two sets.
    #[serde(default = "Scenario::default_lanes")]
    #[schema(least = 1, most = 15, default = 7)]
    pub lanes: u8,
    /// Host that the network manager runs on, from 0.
    #[serde(default)]
    pub manager: u32,
    /// How long the manager computes tables.
    #[serde(default)]
    #[schema(least = 0)]
    pub compute_us: f64,
    /// Length of the run.
    #[serde(default = "Scenario::default_duration_us")]
    #[schema(above = 0, below = 1_000_000_000, default = 25_000.0)]
    pub duration_us: f64,
    /// Packets before results are collected.
    #[serde(default = "Scenario::default_transient_packets")]
    #[schema(default = 40_000)]
    pub transient_packets: u64,
    /// Length of the spans in plots.
    #[serde(default = "Scenario::default_bin_us")]
    #[schema(above = 0, default = 100.0)]
    pub bin_us: f64,
    /// Links, buffers and switches.
    #[serde(default)]
    pub network: Physics,
    /// Traffic of the hosts.
    pub traffic: TrafficText,
    /// Changes at given times.
    #[serde(default, rename = "change")]
    pub changes: Vec<ChangeText>,
    /// Power of ports.
    #[serde(default)]
    pub power: PortPower,
    /// Settings of the link regulator; without them links change only as `change` says.
    #[serde(default)]
    pub regulator: Option<Thresholds>,
    /// Tables of single links, flows and packets.
    #[serde(default)]
    pub output: Details,
    /// The schemes that changes may use, best first.
    #[serde(default = "Scenario::default_schemes")]
    #[schema(choices = schemes::words(), default = ["minimal", "ds", "upr", "sr-la", "st"].map(str::to_owned).to_vec())]
    pub schemes: Vec<String>,
}

/// What hosts send, as users write it.
#[derive(Clone, Debug, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct TrafficText {
    /// Share of a link that each host offers at factor 1.
    #[serde(default = "TrafficText::default_load")]
    #[schema(least = 0, most = 1, default = 1.0)]
    pub load: f64,
    /// The receiver.
    #[serde(default = "TrafficText::default_pattern")]
    #[schema(default = Pattern::Uniform {})]
    pub pattern: Pattern,
    /// Times in µs and factors; 1 all the time without.
    #[serde(default)]
    #[schema(least = 0)]
    pub profile: Vec<(f64, f64)>,
    /// Lengths on the wire in bytes with weights; `network.packet_bytes` without.
    #[serde(default)]
    #[schema(least = 0)]
    pub sizes: Vec<(u16, f64)>,
    /// Which of its target's addresses a packet carries.
    #[serde(default)]
    pub multipath: Multipath,
}

/// A change, as users write it.
#[derive(Clone, Debug, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct ChangeText {
    /// When.
    #[schema(least = 0)]
    pub at_us: f64,
    /// Links that go off, by an end such as `S3:1`.
    #[serde(default)]
    pub off: Vec<String>,
    /// Links that come on.
    #[serde(default)]
    pub on: Vec<String>,
    /// Instead of both, a directory with tables in OpenSM's formats: links that are missing there go off,
    /// links that are there come on.
    #[serde(default)]
    pub tables: Option<String>,
    /// The scheme, instead of the scenario's; `auto`: the best of those.
    #[serde(default)]
    #[schema(choices = or_auto())]
    pub scheme: Option<String>,
    /// Runs the scheme even if its proofs fail, to see the effect.
    #[serde(default)]
    pub without_proof: bool,
}

fn or_auto() -> Vec<(&'static str, &'static str)> {
    [("auto", "")].into_iter().chain(schemes::words()).collect()
}

impl TrafficText {
    /// In the simulator's units.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let point = |&(at, factor): &(f64, f64)| ((at * 1e3) as u64, factor);
        let mut profile: Vec<(u64, f64)> = self.profile.iter().map(point).collect();
        if profile.is_empty() {
            profile.push((0, 1.0));
        }
        Traffic {
            load: self.load,
            profile,
            pattern: self.pattern.clone(),
            sizes: self.sizes.clone(),
            multipath: self.multipath,
        }
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        self.network.check().map_err(|fault| fault.within("network"))?;
        self.traffic.traffic().check().map_err(|fault| fault.within("traffic"))?;
        self.check_sizes()?;
        self.check_paths()?;
        if let Some(regulator) = &self.regulator {
            regulator.check().map_err(|fault| fault.within("regulator"))?;
        }
        let bin = self.bin_us * 1e5 >= self.duration_us;
        Invalid::unless(bin, "bin_us", "is too short for the run", "for example 100")?;
        let one = self.topology.is_empty() == self.tables.is_some();
        let what = "cannot be combined with tables";
        Invalid::unless(
            one,
            "topology",
            what,
            "set either topology = \"torus:8x8\" or tables = \"FOLDER\"",
        )?;
        Invalid::unless(
            !self.schemes.is_empty(),
            "schemes",
            "is empty",
            "for example [\"ds\", \"st\"]",
        )?;
        for (index, change) in self.changes.iter().enumerate() {
            change.check(&format!("change[{index}]"))?;
        }
        let times = self.changes.windows(2).position(|pair| pair[0].at_us > pair[1].at_us);
        times.map_or(Ok(()), |index| {
            let field = format!("change[{}].at_us", index + 1);
            Err(Invalid::new(field, "is before the previous change", "sort changes by time"))
        })
    }
}

impl Scenario {
    /// Whether every packet fits headers, MTU and buffers.
    fn check_sizes(&self) -> Result<(), Invalid> {
        let network = &self.network;
        let longest = u32::from(network.mtu) + u32::from(network.header_bytes);
        let buffer = network.buffer_bytes / network.credit_bytes * network.credit_bytes;
        let fits = |bytes: u16| {
            let bytes = u32::from(bytes);
            bytes > u32::from(network.header_bytes) && bytes <= longest.min(buffer)
        };
        let remedy = format!(
            "expected {} to {} bytes on the wire",
            network.header_bytes + 1,
            longest.min(buffer)
        );
        let what = "has a packet that does not fit the headers, the MTU or the buffers";
        let mix = self.traffic.sizes.iter().all(|(bytes, _)| fits(*bytes));
        Invalid::unless(mix, "traffic.sizes", what, remedy.as_str())?;
        if let Pattern::Flows { flows } = &self.traffic.pattern {
            let good = flows.iter().filter_map(|flow| flow.bytes).all(fits);
            Invalid::unless(good, "traffic.pattern.flows", what, remedy.as_str())?;
        }
        Ok(())
    }

    /// Whether several addresses go with the rest.
    fn check_paths(&self) -> Result<(), Invalid> {
        let lmc = self.lmc == 0 || self.tables.is_none();
        let what = "cannot be combined with tables";
        Invalid::unless(lmc, "lmc", what, "remove it")?;
        let hosts = self.hosts_per_switch.is_none() || self.tables.is_none();
        Invalid::unless(hosts, "hosts_per_switch", what, "remove it")?;
        let first = self.traffic.multipath == Multipath::First;
        let steady = self.changes.is_empty() && self.regulator.is_none();
        let what = "needs tables that do not change";
        let remedy = "use first, or remove change and regulator";
        Invalid::unless(first || steady, "traffic.multipath", what, remedy)
    }
}

impl ChangeText {
    fn check(&self, place: &str) -> Result<(), Invalid> {
        let links = !(self.off.is_empty() && self.on.is_empty());
        let remedy = "set off = [\"S3:1\"], links by switch and port, or tables = \"FOLDER\"";
        let some = links || self.tables.is_some();
        Invalid::unless(some, format!("{place}.off"), "changes no link", remedy)?;
        let one = !links || self.tables.is_none();
        let what = "cannot be combined with off and on";
        Invalid::unless(one, format!("{place}.tables"), what, "remove off and on")
    }
}

/// A scheme whose name was checked.
fn scheme(name: &str) -> &'static dyn Scheme {
    schemes::by_name(name).expect("a declared word")
}

/// A fabric by name or from a file.
pub(crate) fn fabric(
    document: &Document,
    files: &dyn Files,
    (name, hosts): (&str, Option<u32>),
    seed: u64,
) -> Result<Topology, SimulateError> {
    if named::is_name(name) {
        if hosts.is_some() {
            return Err(document.fault(named::vain_hosts("hosts_per_switch")).into());
        }
        let made = named::generate(name, &mut Seed(seed).stream("topology"));
        return made.map_err(|error| {
            document.fault(Invalid::new("topology", error.to_string(), named::FORMS)).into()
        });
    }
    let bytes = files.read(name).map_err(|error| {
        let remedy = format!("use a file, or one of: {}", named::FORMS);
        document.fault(Invalid::new("topology", error.to_string(), remedy))
    })?;
    let topology = crate::format::shape_with_hosts(name, &bytes, hosts)?;
    topology.ok_or_else(|| {
        let what = format!("has no effect: {name} says itself which hosts there are");
        document.fault(Invalid::new("hosts_per_switch", what, "leave it out")).into()
    })
}

/// What a scenario's folders give.
#[derive(Clone, Debug)]
pub struct GivenTables {
    /// The fabric at the beginning, with its tables.
    pub start: Fabric,
    /// For every change, its tables if it names some.
    pub changes: Vec<Option<Moment>>,
}

impl Scenario {
    /// The tables in the folders that it names, if it names one to begin with.
    ///
    /// # Errors
    /// When they cannot be read, or are not moments of one fabric.
    pub fn tables(
        &self,
        document: &Document,
        files: &dyn Files,
    ) -> Result<Option<GivenTables>, SimulateError> {
        let Some(folder) = &self.tables else {
            let named = self.changes.iter().position(|change| change.tables.is_some());
            return named.map_or(Ok(None), |index| {
                let field = format!("change[{index}].tables");
                let what = "needs a first fabric from tables";
                Err(document
                    .fault(Invalid::new(field, what, "set tables = \"FOLDER\" at the top level"))
                    .into())
            });
        };
        let start = given::fabric(document, files, ("tables", folder))?;
        let moment = |(index, change): (usize, &ChangeText)| {
            let Some(folder) = &change.tables else { return Ok(None) };
            let field = format!("change[{index}].tables");
            let later = given::fabric(document, files, (&field, folder))?;
            given::moment(document, &field, &start, &later).map(Some)
        };
        let changes: Result<_, SimulateError> =
            self.changes.iter().enumerate().map(moment).collect();
        Ok(Some(GivenTables { changes: changes?, start }))
    }

    /// The fabric.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub fn topology(
        &self,
        document: &Document,
        files: &dyn Files,
        seed: u64,
    ) -> Result<Topology, SimulateError> {
        let made = fabric(document, files, (&self.topology, self.hosts_per_switch), seed)?;
        if self.lmc == 0 {
            return Ok(made);
        }
        made.with_lmc(self.lmc).map_err(|error| {
            let remedy = "use fewer hosts or a smaller lmc";
            document.fault(Invalid::new("lmc", error.to_string(), remedy)).into()
        })
    }

    /// The run.
    ///
    /// # Errors
    /// When links, hosts or schemes are named that do not exist.
    pub fn run<'a>(
        &self,
        document: &Document,
        (topology, given): (&'a Topology, Option<GivenTables>),
        seed: u64,
    ) -> Result<Run<'a>, SimulateError> {
        let (start, mut moments) = match given {
            Some(GivenTables { start, changes }) => (Some(start.tables), changes),
            None => (None, vec![None; self.changes.len()]),
        };
        let options = Options { lanes: self.lanes, root: self.root.clone() };
        let start = match start {
            Some(tables) => Some(routing::route(&Given(tables), topology, &options)?.0),
            None => None,
        };
        let fault = |invalid: Invalid| document.fault(invalid);
        let hosts = topology.hosts().len() as u32;
        let what = format!("there is no host {}", self.manager);
        let remedy = format!("expected 0 to {}", hosts.saturating_sub(1));
        Invalid::unless(self.manager < hosts, "manager", what, remedy).map_err(fault)?;
        if let Pattern::Hotspot { host, .. } = self.traffic.pattern {
            let (what, remedy) =
                (format!("there is no host {host}"), format!("use a number below {hosts}"));
            Invalid::unless(host < hosts, "traffic.pattern.host", what, remedy).map_err(fault)?;
        }
        if let Pattern::Flows { flows } = &self.traffic.pattern {
            let known = flows.iter().all(|flow| flow.from < hosts && flow.to < hosts);
            let remedy = format!("use from and to below {hosts}");
            let what = "names a host that does not exist";
            Invalid::unless(known, "traffic.pattern.flows", what, remedy).map_err(fault)?;
        }
        let collective =
            matches!(self.traffic.pattern, Pattern::AllReduce(_) | Pattern::AllToAll(_));
        let all: Vec<&'static dyn Scheme> = self.schemes.iter().map(|name| scheme(name)).collect();
        let mut changes = Vec::new();
        for (index, change) in self.changes.iter().enumerate() {
            let place = format!("change[{index}]");
            let links = |field: &str, names: &[String]| -> Result<Vec<Link>, Invalid> {
                let link = |(at, name): (usize, &String)| {
                    topology.link_called(name).map_err(|what| {
                        let remedy = "give an end of a link between switches, for example S3:1";
                        Invalid::new(format!("{place}.{field}[{at}]"), what, remedy)
                    })
                };
                names.iter().enumerate().map(link).collect()
            };
            let schemes = match change.scheme.as_deref() {
                Some(name) if name != "auto" => vec![scheme(name)],
                _ => all.clone(),
            };
            changes.push(Change {
                at_ns: (change.at_us * 1e3) as u64,
                off: links("off", &change.off).map_err(fault)?,
                on: links("on", &change.on).map_err(fault)?,
                to: moments[index].take(),
                schemes,
                without_proof: change.without_proof,
            });
        }
        Ok(Run {
            details: self.output,
            topology,
            physics: self.network.clone(),
            traffic: self.traffic.traffic(),
            routing: routing::by_name(&self.routing)?,
            keep: self.keep,
            options,
            tables: start,
            manager: HostId(self.manager),
            compute_ns: (self.compute_us * 1e3) as u64,
            changes,
            regulator: self.regulator.clone().map(|settings| (settings, all)),
            power: self.power.clone(),
            end_ns: (self.duration_us * 1e3) as u64,
            // Of a collective operation every packet counts.
            transient: if collective { 0 } else { self.transient_packets },
            bin_ns: (self.bin_us * 1e3) as u64,
            seed: Seed(seed),
        })
    }
}
