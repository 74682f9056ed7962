//! What makes no sense in a cluster's file.

use std::collections::BTreeSet;

use ebb_scenario::schema::checked;

use super::*;

/// Balancers that one address can have: their numbers are bits, and their addresses fit the XDP program.
const BALANCERS_MAX: usize = 16;

/// Larger packets are not balanced.
const MTU_MAX: u32 = 1500;

impl Check for ClusterConfig {
    fn check(&self) -> Result<(), Invalid> {
        let name = &self.cluster.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let sound = !name.is_empty() && name.len() <= 32 && name.chars().all(plain);
        Invalid::unless(
            sound,
            "cluster.name",
            "is not a valid name",
            "use letters, digits and `-`, at most 32",
        )?;
        self.check_store()?;
        self.check_policy()?;
        self.check_sides()?;
        self.check_back_ends()?;
        self.check_members()?;
        self.check_routing()
    }
}

impl ClusterConfig {
    fn check_store(&self) -> Result<(), Invalid> {
        let lease = self.store.lease_s.unwrap_or(2.0);
        let etcd = self.store.kind == StoreKind::Etcd;
        let least = if etcd { 2.0 } else { 0.1 };
        let sound = (least..=600.0).contains(&lease);
        let remedy = format!("expected {least} to 600");
        Invalid::unless(sound, "store.lease_s", "is out of range", remedy)?;
        let given = !self.store.endpoints.is_empty();
        let remedy = "for example [\"http://127.0.0.1:2379\"]";
        Invalid::unless(given || !etcd, "store.endpoints", "is empty", remedy)?;
        Invalid::unless(
            etcd || !given,
            "store.kind",
            "\"embedded\" does not use endpoints",
            "set kind = \"etcd\" or remove the endpoints",
        )?;
        let one = self.member.len() == 1;
        let remedy = "use \"etcd\", or one member with all roles";
        Invalid::unless(
            etcd || one,
            "store.kind",
            "\"embedded\" works with one member only",
            remedy,
        )
    }

    fn check_policy(&self) -> Result<(), Invalid> {
        let PolicyConfig { name, .. } = &self.policy;
        let names: Vec<&str> = policies::NAMES.iter().map(|(name, _)| *name).collect();
        let remedy = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => names.join(", "),
        };
        let known = names.contains(&name.as_str());
        Invalid::unless(known, "policy.name", format!("there is no policy `{name}`"), remedy)?;
        checked(&self.policy.settings()).map_err(|fault| fault.within("policy"))?;
        let ProbingConfig { interval_ms, misses } = self.probing;
        let field = "probing.interval_ms";
        Invalid::unless(
            (1.0..=1e4).contains(&interval_ms),
            field,
            "is out of range",
            "expected 1 to 10,000",
        )?;
        Invalid::unless(
            (2..=1000).contains(&misses),
            "probing.misses",
            "is out of range",
            "expected 2 to 1,000",
        )
    }

    fn check_routing(&self) -> Result<(), Invalid> {
        let sound = (0.0..=3600.0).contains(&self.routing.hold_s);
        Invalid::unless(sound, "routing.hold_s", "is out of range", "expected 0 to 3,600")?;
        let Some(_) = self.routing.plan() else { return Ok(()) };
        let routers = self.member.iter().filter_map(|member| member.router.as_ref());
        let own: BTreeSet<&str> = routers.map(|router| router.back_end.as_str()).collect();
        for (index, member) in self.member.iter().enumerate() {
            let foreign = member.keep.iter().position(|keep| {
                keep.how != How::Namespace && !own.contains(keep.back_end.as_str())
            });
            if let Some(at) = foreign {
                let what = "`routing.run` cannot install routes on this back-end";
                let remedy = "use \"namespace\", or add [member.router] to the member on that \
                    machine";
                return Err(Invalid::new(format!("member[{index}].keep[{at}].how"), what, remedy));
            }
        }
        Ok(())
    }

    fn check_sides(&self) -> Result<(), Invalid> {
        let count = self.balancers().len();
        Invalid::unless(
            count > 0,
            "member",
            "there is no balancer",
            "add a table [member.balancer]",
        )?;
        let fits = count <= BALANCERS_MAX;
        let remedy = format!("expected at most {BALANCERS_MAX}");
        Invalid::unless(fits, "member", format!("there are {count} balancers"), remedy)?;
        let sound = (2..=4).contains(&self.side.len());
        Invalid::unless(
            sound,
            "side",
            "a router needs several links",
            "write 2 to 4 tables [[side]]",
        )?;
        let mut taken = BTreeSet::new();
        for (index, side) in self.side.iter().enumerate() {
            let field = format!("side[{index}].mac");
            let first = mac(&side.mac).filter(|first| first[0] & 3 == 2).ok_or_else(|| {
                let remedy = "use a locally administered address, for example \
                    \"02:eb:b0:00:00:10\"";
                Invalid::new(
                    &field,
                    format!("`{}` is not a locally administered MAC address", side.mac),
                    remedy,
                )
            })?;
            let fresh = (0..count).all(|number| {
                taken.insert(mac_after(first, number))
                    && taken.insert(self.probe_mac(index, number))
            });
            let remedy = "leave as many addresses between sides as there are balancers";
            Invalid::unless(fresh, field, "overlaps the addresses of another side", remedy)?;
            let has = !side.addresses.is_empty();
            Invalid::unless(
                has,
                format!("side[{index}].addresses"),
                "is empty",
                "add an address with its prefix length",
            )?;
            let six = side.addresses.iter().any(|net| net.addr().is_ipv6());
            let least = if six { 1280 } else { 576 };
            let sound = side.mtu.is_none_or(|mtu| (least..=MTU_MAX).contains(&mtu));
            let remedy = format!("expected {least} to {MTU_MAX}");
            Invalid::unless(sound, format!("side[{index}].mtu"), "is out of range", remedy)?;
            let last = address_after(side.probe, count - 1);
            let own = |net: &IpNet| net.contains(&side.probe) && net.contains(&last);
            let free = |number| {
                let probe = address_after(side.probe, number);
                side.addresses.iter().all(|net| net.addr() != probe)
            };
            let sound =
                side.probe.is_ipv4() && side.addresses.iter().any(own) && (0..count).all(free);
            let what =
                format!("the subnet has no free address for each balancer from {} on", side.probe);
            let remedy = "use an unused IPv4 address, followed by one unused address for each \
                further balancer";
            Invalid::unless(sound, format!("side[{index}].probe"), what, remedy)?;
        }
        Ok(())
    }

    fn check_back_ends(&self) -> Result<(), Invalid> {
        Invalid::unless(
            !self.back_end.is_empty(),
            "back_end",
            "is empty",
            "add a table [[back_end]]",
        )?;
        let mut taken = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (index, one) in self.back_end.iter().enumerate() {
            let field = |name: &str| format!("back_end[{index}].{name}");
            let sound = !one.name.is_empty() && !one.name.contains(['/', ' ']);
            Invalid::unless(
                sound,
                field("name"),
                "is not a valid name",
                "use a name without `/` and spaces",
            )?;
            let fresh = names.insert(&one.name);
            Invalid::unless(
                fresh,
                field("name"),
                format!("`{}` is used twice", one.name),
                "use each once",
            )?;
            let each = one.macs.len() == self.side.len();
            Invalid::unless(
                each,
                field("macs"),
                "the number differs from the number of [[side]] tables",
                "give one for each [[side]]",
            )?;
            for text in &one.macs {
                let Some(known) = mac(text).filter(|mac| mac[0] & 1 == 0) else {
                    let what = format!("`{text}` is not a MAC address");
                    return Err(Invalid::new(field("macs"), what, "for example 02:eb:b0:01:00:00"));
                };
                let fresh = taken.insert(known);
                Invalid::unless(
                    fresh,
                    field("macs"),
                    format!("{text} is used twice"),
                    "use each once",
                )?;
            }
            for (name, value, least) in [
                ("capacity_pps", one.capacity_pps, f64::MIN_POSITIVE),
                ("full_w", one.full_w, 0.0),
                ("idle_w", one.idle_w, 0.0),
                ("wake_s", one.wake_s, 0.0),
            ] {
                let sound = value >= least && value <= 1e12;
                Invalid::unless(
                    sound,
                    field(name),
                    "is out of range",
                    "expected a number above 0",
                )?;
            }
            let sound = one.weight.is_none_or(|weight| (1..=1_000_000).contains(&weight));
            Invalid::unless(sound, field("weight"), "is out of range", "expected 1 to 1,000,000")?;
            let alike = one.weight.is_some() == self.back_end[0].weight.is_some();
            let remedy =
                "give a weight to all back-ends, or to none: shares then follow `capacity_pps`";
            let what = "some back-ends have a weight and others have none";
            Invalid::unless(alike, field("weight"), what, remedy)?;
        }
        Ok(())
    }

    fn check_members(&self) -> Result<(), Invalid> {
        let (mut names, mut kept, mut routers) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let leader = self.member.iter().any(|member| member.leader);
        Invalid::unless(
            leader,
            "member",
            "no member can be the leader",
            "set `leader = true` on at least one member",
        )?;
        for (index, member) in self.member.iter().enumerate() {
            let field = |rest: &str| format!("member[{index}].{rest}");
            let sound = !member.name.is_empty() && !member.name.contains(['/', ' ']);
            Invalid::unless(
                sound,
                field("name"),
                "is not a valid name",
                "use a name without `/` and spaces",
            )?;
            let fresh = names.insert(&member.name);
            Invalid::unless(
                fresh,
                field("name"),
                format!("`{}` is used twice", member.name),
                "use each once",
            )?;
            let power = member.power_w.is_none_or(|watts| (0.0..=1e6).contains(&watts));
            let remedy = "expected watts, 0 to 1,000,000";
            Invalid::unless(power, field("power_w"), "is out of range", remedy)?;
            let used = member.power_w.is_none() || member.balancer.is_some();
            let what = "counts for a balancer only";
            let remedy = "give the back-ends `full_w` and `idle_w` instead";
            Invalid::unless(used, field("power_w"), what, remedy)?;
            if let Some(balancer) = &member.balancer {
                let place = field("balancer.threads");
                balancer.threads.check_place().map_err(|fault| fault.within(&place))?;
                let twice = balancer.cpu.is_some() && !balancer.threads.cpus.is_empty();
                let remedy = "leave `cpu` or `threads.cpus`";
                Invalid::unless(!twice, field("balancer.cpu"), "is there twice", remedy)?;
                for (name, list) in [("outside", &balancer.outside), ("inside", &balancer.inside)] {
                    let field = field(&format!("balancer.{name}"));
                    let each = list.len() == self.side.len();
                    let remedy = "give one interface for each [[side]]";
                    Invalid::unless(
                        each,
                        field,
                        "the number differs from the number of [[side]] tables",
                        remedy,
                    )?;
                }
            }
            if let Some(router) = &member.router {
                self.check_back_end(&router.back_end).map_err(|f| f.within(&field("router")))?;
                let fresh = routers.insert(&router.back_end);
                let what = format!("`{}` already belongs to another member", router.back_end);
                Invalid::unless(
                    fresh,
                    field("router.back_end"),
                    what,
                    "name each back-end in one member only",
                )?;
                let each = router.interfaces.len() == self.side.len();
                let remedy = "give one interface for each [[side]]";
                Invalid::unless(
                    each,
                    field("router.interfaces"),
                    "the number differs from the number of [[side]] tables",
                    remedy,
                )?;
            }
            for (at, keep) in member.keep.iter().enumerate() {
                let place = field(&format!("keep[{at}]"));
                self.check_keep(keep).map_err(|fault| fault.within(&place))?;
                let fresh = kept.insert(&keep.back_end);
                let what = format!("`{}` has two keepers", keep.back_end);
                Invalid::unless(fresh, format!("{place}.back_end"), what, "leave one")?;
            }
        }
        Ok(())
    }

    fn check_back_end(&self, name: &str) -> Result<(), Invalid> {
        let names: Vec<&str> = self.back_end.iter().map(|one| one.name.as_str()).collect();
        let what = format!("there is no back-end `{name}`");
        Invalid::unless(names.contains(&name), "back_end", what, names.join(", "))
    }

    fn check_keep(&self, keep: &KeepConfig) -> Result<(), Invalid> {
        self.check_back_end(&keep.back_end)?;
        keep.threads.check_place().map_err(|fault| fault.within("threads"))?;
        let ours = keep.how == How::Namespace || keep.threads == Threads::default();
        let what = "is for back-ends in namespaces";
        let remedy = "remove it, and bind a program's threads where it is configured";
        Invalid::unless(ours, "threads", what, remedy)?;
        let command = "give a program with its arguments, for example [\"systemctl\", \"start\", \
            \"r1\"]";
        let needs = |there: bool, field: &str, remedy: &str| {
            Invalid::unless(there, field, "is missing", remedy.to_owned())
        };
        match keep.how {
            How::Process => needs(!keep.run.is_empty(), "run", command),
            How::Command => {
                needs(!keep.wake.is_empty(), "wake", command)?;
                needs(!keep.sleep.is_empty(), "sleep", command)
            }
            How::Guest => {
                let absolute = keep.monitor.as_ref().is_some_and(|path| path.is_absolute());
                let remedy = "give the absolute PATH of QEMU's `-qmp unix:PATH,server=on,wait=off`";
                needs(absolute, "monitor", remedy)
            }
            How::Namespace => {
                let each = keep.bridges.len() == self.side.len();
                needs(each, "bridges", "give the bridge of each side's segment")?;
                for route in &keep.routes {
                    let near = self.side_of(route.via).is_some();
                    let what = format!("{} is not in a subnet of a [[side]]", route.via);
                    Invalid::unless(
                        near,
                        "routes",
                        what,
                        "use a next hop in one of these subnets",
                    )?;
                }
                Ok(())
            }
            How::WakeOnLan => {
                needs(
                    keep.interface.is_some(),
                    "interface",
                    "name the interface that sends the wake-up packet",
                )?;
                let sound = keep.mac.as_deref().and_then(mac).is_some();
                needs(sound, "mac", "give the MAC address of the card to wake")?;
                needs(!keep.sleep.is_empty(), "sleep", command)
            }
        }
    }

    /// The side on which a next hop is.
    pub fn side_of(&self, via: IpAddr) -> Option<usize> {
        let near = |side: &SideConfig| side.addresses.iter().any(|net| net.contains(&via));
        self.side.iter().position(near)
    }
}
