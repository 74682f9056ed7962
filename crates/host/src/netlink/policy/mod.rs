//! The kernel's own policy on forwarded packets: rules, switches, transforms, packet filters,
//! traffic control. Read whole, source by source; [`Watch`] says when to read again.

mod expressions;
mod legacy;
mod netfilter;
mod rules;
mod sets;
mod switches;
mod traffic_control;
mod types;
mod watch;
mod xfrm;

pub use types::{
    Chain, Decision, DeviceName, Discipline, Element, Expression, Family, Hook, Loaded, Place,
    Range, Rule, RuleAction, Ruleset, Source, Switches, Transform, Transforms,
};
pub use watch::Watch;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_message_is_read_without_panic(
            body in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = rules::rule(&body);
            let _ = switches::switches(&body);
            let _ = xfrm::policy(&body);
            let _ = netfilter::chain(&body, &Default::default());
            let _ = netfilter::dormant(&body);
            let _ = expressions::rule(&body);
            let _ = expressions::fixed_set(&body);
            let _ = expressions::elements(&body);
            let _ = sets::set_of(&body);
            if let Ok(Some(set)) = sets::set(&body) {
                let _ = sets::ranges(&set, &[&body]);
            }
            let _ = traffic_control::queueing(&body);
        }
    }
}
