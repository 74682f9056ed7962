//! The dragonfly (Kim, Dally, Scott and Abts 2008): groups of switches, all joined within a group,
//! groups joined by single cables.

use super::{Builder, SwitchId, Topology, TopologyError};

/// The numbers of a dragonfly, named as in section 3.1 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups (g), at most a h + 1.
    pub groups: u32,
    /// Switches in a group (a).
    pub switches: u32,
    /// Cables of each switch to other groups (h).
    pub global: u32,
    /// Hosts on each switch (p).
    pub hosts: u32,
}

impl Dragonfly {
    /// The balanced dragonfly a = 2p = 2h with as many groups as it takes (section 3.1).
    #[must_use]
    pub fn balanced(hosts: u32) -> Dragonfly {
        let switches = hosts.saturating_mul(2);
        let groups = switches.saturating_mul(hosts).saturating_add(1);
        Dragonfly { groups, switches, global: hosts, hosts }
    }

    /// Lays it out. A switch's first ports lead to its group, then to other groups, then to hosts.
    /// Every pair of groups gets a cable; ports left over join pairs again, in order.
    ///
    /// # Errors
    /// When a number is 0, there are more groups than cables between them allow, or more ports or
    /// addresses than InfiniBand has.
    pub fn build(self) -> Result<Topology, TopologyError> {
        let Dragonfly { groups, switches, global, hosts } = self;
        let cables = u64::from(switches) * u64::from(global);
        let total = u64::from(groups) * u64::from(switches);
        if total == 0 || total > 49_151 || u64::from(groups) > cables + 1 {
            let what = format!("{self:?}: expected 1 to {} groups", cables + 1);
            return Err(TopologyError::Impossible { what });
        }
        let ports = super::port_total((switches - 1).saturating_add(global).saturating_add(hosts))?;
        let mut builder = Builder::new();
        builder.plain_switches(groups * switches, ports);
        for group in 0..groups {
            for low in 0..switches {
                for high in low + 1..switches {
                    let (a, b) = (group * switches + low, group * switches + high);
                    builder.cable((SwitchId(a), high as u8), (SwitchId(b), low as u8 + 1))?;
                }
            }
        }
        self.join_groups(&mut builder)?;
        for switch in 0..groups * switches {
            for host in 0..hosts {
                let port = switches - 1 + global + host + 1;
                builder.plain_host(SwitchId(switch), port as u8)?;
            }
        }
        builder.finish()
    }

    fn join_groups(self, builder: &mut Builder) -> Result<(), TopologyError> {
        let per_group = self.switches * self.global;
        let mut used = vec![0u32; self.groups as usize];
        let end = |group: u32, cable: u32| {
            let switch = SwitchId(group * self.switches + cable % self.switches);
            (switch, (self.switches + cable / self.switches) as u8)
        };
        loop {
            let mut joined = false;
            for distance in 1..self.groups {
                for low in 0..self.groups - distance {
                    let high = low + distance;
                    let (a, b) = (used[low as usize], used[high as usize]);
                    if a < per_group && b < per_group {
                        builder.cable(end(low, a), end(high, b))?;
                        used[low as usize] += 1;
                        used[high as usize] += 1;
                        joined = true;
                    }
                }
            }
            if !joined {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balanced_dragonfly_of_two_hosts_has_nine_groups() {
        let fly = Dragonfly::balanced(2).build().expect("a dragonfly");
        assert_eq!((fly.switches().len(), fly.hosts().len()), (36, 72));
        assert_eq!(fly.links().count(), 9 * 6 + 36);
        assert!(fly.is_connected());
    }

    #[test]
    fn more_groups_than_cables_are_refused() {
        let fly = Dragonfly { groups: 10, switches: 4, global: 2, hosts: 2 };
        assert!(fly.build().is_err());
    }
}
