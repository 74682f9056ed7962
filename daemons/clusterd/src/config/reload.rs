//! What a running member takes over from its file.

use super::{BackEndConfig, ClusterConfig};

impl ClusterConfig {
    /// The first field in which it differs from `running` but for what a running member takes over: the
    /// policy, and what back-ends carry, draw and take to wake.
    pub fn beyond_reload(&self, running: &ClusterConfig) -> Option<&'static str> {
        let bare = |config: &ClusterConfig| -> Vec<BackEndConfig> {
            let zeroed = |one: &BackEndConfig| BackEndConfig {
                capacity_pps: 0.0,
                full_w: 0.0,
                idle_w: 0.0,
                wake_s: 0.0,
                ..one.clone()
            };
            config.back_end.iter().map(zeroed).collect()
        };
        let differing = [
            ("cluster", self.cluster != running.cluster),
            ("store", self.store != running.store),
            ("probing", self.probing != running.probing),
            ("routing", self.routing != running.routing),
            ("side", self.side != running.side),
            ("back_end", bare(self) != bare(running)),
            ("member", self.member != running.member),
        ];
        differing.into_iter().find_map(|(field, differs)| differs.then_some(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EXAMPLE;

    #[test]
    fn a_reload_takes_over_the_policy_and_what_back_ends_carry() {
        let running = ClusterConfig::parse("c.toml", EXAMPLE).expect("an example");
        let differs = |change: fn(&mut ClusterConfig)| {
            let mut config = running.clone();
            change(&mut config);
            config.beyond_reload(&running)
        };
        assert_eq!(differs(|_| {}), None);
        assert_eq!(differs(|config| config.policy.headroom = 0.5), None);
        assert_eq!(differs(|config| config.back_end[1].capacity_pps *= 2.0), None);
        assert_eq!(differs(|config| config.back_end[1].weight = Some(1)), Some("back_end"));
        assert_eq!(differs(|config| config.probing.misses += 1), Some("probing"));
        assert_eq!(differs(|config| drop(config.member.pop())), Some("member"));
    }
}
