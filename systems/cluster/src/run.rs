//! From a plan to a cluster that runs: the design's servers as back-ends, and the file for `ebb cluster run`.

use std::collections::{BTreeMap, BTreeSet};

use ebb_control::cluster::ClusterSettings;
use ebb_scenario::{Check, Document, Files, Invalid, Progress, ScenarioError};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::demand::Demand;
use crate::error::ClusterError;
use crate::plan::{Problem, Solved};

/// The policy that a plan assumes: of the servers that are there, those that draw least.
const POLICY: &str = "optimum";

/// A server of a plan as a back-end.
#[derive(Clone, Debug, PartialEq)]
pub struct BackEnd {
    /// Its name, after its group.
    pub name: String,
    /// Its group.
    pub group: String,
    /// What it carries, packets per second.
    pub capacity_pps: f64,
    /// What it draws at full load.
    pub full_w: f64,
    /// What it draws while it is on without load.
    pub idle_w: f64,
    /// Seconds from the order to wake until it forwards.
    pub wake_s: f64,
}

/// A design in the units of the live cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its name.
    pub design: String,
    /// The catalogue's groups of servers.
    pub groups: Vec<String>,
    /// Its servers.
    pub back_ends: Vec<BackEnd>,
    /// What the policy heeds: reserve and spares.
    pub settings: ClusterSettings,
    /// The policy.
    pub policy: &'static str,
    /// The load: seconds, and packets per second.
    pub load_pps: Vec<(f64, f64)>,
    /// What the design draws in the mean, W.
    pub mean_w: f64,
}

/// What is there already: a file for `ebb cluster run` without back-ends, whose members say what they can keep.
#[derive(Debug, Deserialize)]
struct Site {
    #[serde(default)]
    side: Vec<Value>,
    #[serde(default)]
    member: Vec<SiteMember>,
    #[serde(default)]
    back_end: Vec<Value>,
    #[serde(flatten)]
    rest: Table,
}

#[derive(Debug, Deserialize)]
struct SiteMember {
    name: String,
    /// How many servers of each group it can keep.
    #[serde(default)]
    hosts: BTreeMap<String, u32>,
    /// How it keeps each; `{back_end}` in a text stands for the name.
    #[serde(default)]
    keep: Table,
    #[serde(flatten)]
    rest: Table,
}

impl Check for Site {}

/// The file, in the order in which it is written.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    rest: Table,
    policy: Table,
    side: Vec<Value>,
    back_end: Vec<Table>,
    member: Vec<Table>,
}

impl Problem {
    /// Solves it and takes its design ([`Problem::design`]) to the live cluster's units.
    ///
    /// # Errors
    /// As [`crate::plan`]; without `packets` there are no packets per second.
    pub fn planned(
        &self,
        files: &dyn Files,
        progress: &dyn Progress,
    ) -> Result<Planned, ClusterError> {
        let solved = self.solve(files, progress)?;
        let remedy = "remove `growth`, `years` and `alternative`: one day is compared";
        Invalid::unless(!solved.wide, "years", "the plan is for several demands", remedy)?;
        self.in_packets(&solved)
    }

    pub(crate) fn in_packets(&self, solved: &Solved) -> Result<Planned, ClusterError> {
        let mix = self.mix()?.ok_or_else(|| {
            let remedy = "add `packets = \"imix\"`, or a length in bytes (`--packets`)";
            let what = "is missing: the live cluster counts packets per second";
            Invalid::new("packets", what, remedy)
        })?;
        let design = self.chosen(&solved.designs)?;
        let mut back_ends = Vec::new();
        for (group, count) in solved.bought.iter().zip(&design.counts) {
            back_ends.extend((0..*count).map(|number| BackEnd {
                name: format!("{}-{number}", group.name.replace(['/', ' '], "-")),
                group: group.name.clone(),
                capacity_pps: mix.pps(group.capacity_mbps),
                full_w: group.full_w,
                idle_w: group.idle_w,
                wake_s: group.wake_s,
            }));
        }
        let mut names = BTreeSet::new();
        for one in &back_ends {
            let what = format!("two groups would have servers named `{}`", one.name);
            let remedy = "give groups names that differ by more than blanks and slashes";
            Invalid::unless(names.insert(&one.name), "catalogue", what, remedy)?;
        }
        let settings = ClusterSettings {
            headroom: self.headroom,
            spares: u32::from(self.spare),
            ..ClusterSettings::default()
        };
        let Demand { samples } = &solved.demand;
        let load = samples.iter().map(|sample| (sample.seconds, mix.pps(sample.mbps)));
        let answer = &solved.plan.designs[design.name];
        Ok(Planned {
            design: self.design.clone(),
            groups: solved.bought.iter().map(|group| group.name.clone()).collect(),
            back_ends,
            settings,
            policy: POLICY,
            load_pps: load.collect(),
            mean_w: answer.energy_kwh_per_day * 1000.0 / 24.0,
        })
    }
}

impl Planned {
    /// The file for `ebb cluster run`: what the site's file says, and this plan's back-ends, their keepers, the
    /// policy and its reserves. Shares of the flows follow the capacities.
    ///
    /// # Errors
    /// When the site's file makes no sense, or a member lacks what the plan takes: which, and what.
    pub fn configuration(&self, file: &str, text: &str) -> Result<String, ScenarioError> {
        let document = Document::parse(file, text)?;
        let site: Site = document.read()?;
        let wrong = |fault: Invalid| ScenarioError {
            file: file.to_owned(),
            line: None,
            field: Some(fault.field),
            message: fault.message,
            remedy: fault.remedy,
        };
        site.check_whole(self).map_err(wrong)?;
        let keepers = site.keepers(self).map_err(wrong)?;
        let sides = site.side.len();
        let back_end = |(index, one): (usize, &BackEnd)| {
            let mac = |side| format!("02:eb:b1:{:02x}:{:02x}:{side:02x}", index >> 8, index & 255);
            let macs = (0..sides).map(|side| Value::String(mac(side))).collect();
            Table::from_iter([
                ("name".to_owned(), Value::String(one.name.clone())),
                ("macs".to_owned(), Value::Array(macs)),
                ("capacity_pps".to_owned(), Value::Float(one.capacity_pps.round())),
                ("full_w".to_owned(), Value::Float(one.full_w)),
                ("idle_w".to_owned(), Value::Float(one.idle_w)),
                ("wake_s".to_owned(), Value::Float(one.wake_s)),
            ])
        };
        let mut rest = site.rest;
        let mut policy = match rest.remove("policy") {
            Some(Value::Table(policy)) => policy,
            _ => Table::new(),
        };
        policy.insert("name".to_owned(), Value::String(self.policy.to_owned()));
        policy.insert("headroom".to_owned(), Value::Float(self.settings.headroom));
        policy.insert("spares".to_owned(), Value::Integer(i64::from(self.settings.spares)));
        let members = site.member.into_iter().zip(keepers).map(|(member, keepers)| {
            let mut table = Table::from_iter([("name".to_owned(), Value::String(member.name))]);
            table.extend(member.rest);
            if !keepers.is_empty() {
                let keepers = keepers.into_iter().map(Value::Table).collect();
                table.insert("keep".to_owned(), Value::Array(keepers));
            }
            table
        });
        let written = Written {
            rest,
            policy,
            side: site.side,
            back_end: self.back_ends.iter().enumerate().map(back_end).collect(),
            member: members.collect(),
        };
        let body = toml::to_string(&written).expect("tables of TOML");
        Ok(format!(
            "# {} of a plan (`ebb plan cluster`), with what {file} says. Check it: ebb cluster check FILE\n\
             # Shares of the flows follow capacity_pps.\n\n{body}",
            self.design
        ))
    }
}

impl Site {
    fn check_whole(&self, planned: &Planned) -> Result<(), Invalid> {
        let none = self.back_end.is_empty();
        let remedy = "remove the tables [[back_end]]: the plan writes them";
        Invalid::unless(none, "back_end", "is there already", remedy)?;
        let balances = self.member.iter().any(|member| member.rest.contains_key("balancer"));
        let remedy = "add [member.balancer] with `outside` and `inside` to one of them";
        Invalid::unless(balances, "member", "no member is a balancer", remedy)?;
        let policy = self.rest.get("policy").and_then(Value::as_table);
        for name in ["name", "headroom", "spares"] {
            let absent = policy.is_none_or(|policy| !policy.contains_key(name));
            let remedy = "remove it: the plan says it";
            Invalid::unless(absent, format!("policy.{name}"), "is there already", remedy)?;
        }
        for (index, member) in self.member.iter().enumerate() {
            let idle = member.keep.is_empty() || !member.hosts.is_empty();
            let what = format!("`{}` says how it keeps servers and not how many", member.name);
            let remedy = "add `hosts = { GROUP = COUNT }`";
            Invalid::unless(idle, format!("member[{index}].hosts"), what, remedy)?;
            for group in member.hosts.keys() {
                let field = format!("member[{index}].hosts.{group}");
                let remedy = format!("the catalogue has {}", planned.groups.join(", "));
                let there = planned.groups.contains(group);
                Invalid::unless(there, field, "is no group of the catalogue", remedy)?;
                let known = planned.back_ends.iter().any(|one| one.group == *group);
                let keeps = known && member.keep.is_empty();
                let field = format!("member[{index}].keep");
                let what = format!("`{}` hosts {group} and lacks how it keeps them", member.name);
                let remedy = "add [member.keep] with `how` and what that takes, such as `bridges`";
                Invalid::unless(!keeps, field, what, remedy)?;
            }
            self.check_interfaces(index, member)?;
        }
        Ok(())
    }

    /// A member that balances or keeps has what each side takes.
    fn check_interfaces(&self, index: usize, member: &SiteMember) -> Result<(), Invalid> {
        let sides = self.side.len();
        let count = |table: Option<&Table>, name: &str| {
            table?.get(name).and_then(Value::as_array).map_or(Some(0), |list| Some(list.len()))
        };
        let balancer = member.rest.get("balancer").and_then(Value::as_table);
        let namespace = member.keep.get("how").and_then(Value::as_str) == Some("namespace");
        let keep = Some(&member.keep).filter(|_| namespace);
        for (table, kind, name) in [
            (balancer, "balancer", "outside"),
            (balancer, "balancer", "inside"),
            (keep, "keep", "bridges"),
        ] {
            let Some(have) = count(table, name) else { continue };
            let field = format!("member[{index}].{kind}.{name}");
            let what = format!("`{}` has {have} of {sides}", member.name);
            Invalid::unless(have == sides, field, what, "give one for each [[side]]")?;
        }
        Ok(())
    }

    /// By member, the tables of the back-ends that it keeps: each goes to the first with room for its group.
    fn keepers(&self, planned: &Planned) -> Result<Vec<Vec<Table>>, Invalid> {
        let mut room: Vec<BTreeMap<String, u32>> =
            self.member.iter().map(|member| member.hosts.clone()).collect();
        let mut kept: Vec<Vec<Table>> = vec![Vec::new(); self.member.len()];
        for one in &planned.back_ends {
            let free = |room: &BTreeMap<String, u32>| room.get(&one.group).is_some_and(|n| *n > 0);
            let Some(at) = room.iter().position(free) else {
                return Err(self.no_room(planned, &one.group));
            };
            *room[at].get_mut(&one.group).expect("it has room") -= 1;
            let mut table = Table::new();
            table.insert("back_end".to_owned(), Value::String(one.name.clone()));
            for (key, value) in &self.member[at].keep {
                table.insert(key.clone(), named(value, &one.name));
            }
            kept[at].push(table);
        }
        Ok(kept)
    }

    fn no_room(&self, planned: &Planned, group: &str) -> Invalid {
        let needed = planned.back_ends.iter().filter(|one| one.group == group).count();
        let each = self.member.iter().map(|member| {
            format!("`{}` has room for {}", member.name, member.hosts.get(group).unwrap_or(&0))
        });
        let what = format!(
            "the plan takes {needed} servers of {group}, and {}",
            each.collect::<Vec<_>>().join(", ")
        );
        let index = self.member.iter().position(|member| member.hosts.contains_key(group));
        let field = format!("member[{}].hosts.{group}", index.unwrap_or(0));
        let remedy = "raise it, add a member, or bound the servers by `available` in the catalogue";
        Invalid::new(field, what, remedy)
    }
}

/// A value with the back-end's name in place of `{back_end}`.
fn named(value: &Value, name: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{back_end}", name)),
        Value::Array(list) => Value::Array(list.iter().map(|one| named(one, name)).collect()),
        Value::Table(table) => {
            Value::Table(table.iter().map(|(key, one)| (key.clone(), named(one, name))).collect())
        }
        other => other.clone(),
    }
}
