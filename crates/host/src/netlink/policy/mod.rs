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
pub use watch::{SOCKETS, Watch};

/// Kinds of answers that [`understood_as`] tries.
pub const KINDS: usize = 11;

/// As how many kinds of answers about policy any bytes can be read: for tests that no answer ends the program.
pub fn understood_as(body: &[u8]) -> usize {
    let set = sets::set(body);
    let ranges = matches!(&set, Ok(Some(set)) if sets::ranges(set, &[body]).is_ok());
    let read: [bool; KINDS] = [
        rules::rule(body).is_ok(),
        switches::switches(body).is_ok(),
        xfrm::policy(body).is_ok(),
        netfilter::chain(body).is_ok(),
        netfilter::generation(netfilter::NEW_GENERATION, body).is_ok(),
        expressions::rule(body).is_ok(),
        expressions::fixed_set(body).is_ok(),
        expressions::elements(body).is_ok(),
        sets::set_of(body).is_ok(),
        ranges,
        traffic_control::queueing(body).is_ok(),
    ];
    read.into_iter().filter(|read| *read).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_message_is_read_without_panic(
            body in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            prop_assert!(understood_as(&body) <= KINDS);
        }
    }
}
