//! What was found, for people. A machine may have a hundred thousand rules: of each mechanism the first ones are
//! told, and how many more there are.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::Mechanism;
use crate::status::{PolicyEffect, PolicyObject};

/// Objects of one mechanism and effect that are told one by one.
const TOLD_MAX: u64 = 40;
/// Which packets those concern that are only counted.
const REST: &str = "the same packets as above";
/// Lines of the log that one change may take.
const LINES_MAX: usize = 50;

/// Gathers objects.
#[derive(Default)]
pub(super) struct Objects {
    told: Vec<PolicyObject>,
    /// Number of each mechanism and effect.
    counts: BTreeMap<(Mechanism, &'static str), (PolicyEffect, u64)>,
}

impl Objects {
    /// One more: what it is, and which packets it concerns.
    pub(super) fn add(
        &mut self,
        mechanism: Mechanism,
        effect: PolicyEffect,
        words: impl FnOnce() -> (String, String),
    ) {
        let (_, count) = self.counts.entry((mechanism, effect.words())).or_insert((effect, 0));
        *count += 1;
        if *count <= TOLD_MAX {
            let (object, concerns) = words();
            let mechanism = mechanism.name().to_owned();
            self.told.push(PolicyObject { mechanism, object, concerns, effect });
        }
    }

    /// One that is told however many there are.
    pub(super) fn insist(&mut self, mechanism: Mechanism, object: String, concerns: String) {
        let (mechanism, effect) = (mechanism.name().to_owned(), PolicyEffect::Kernel);
        let one = PolicyObject { mechanism, object, concerns, effect };
        if !self.told.contains(&one) {
            self.told.push(one);
        }
    }

    /// All of them, the rest as a number.
    pub(super) fn finish(mut self) -> Vec<PolicyObject> {
        for ((mechanism, _), (effect, count)) in self.counts {
            if count > TOLD_MAX {
                self.told.push(PolicyObject {
                    mechanism: mechanism.name().to_owned(),
                    object: format!("{} more", count - TOLD_MAX),
                    concerns: REST.to_owned(),
                    effect,
                });
            }
        }
        self.told
    }
}

/// Tells what begins and what ends to matter.
pub(super) fn say(before: &[PolicyObject], after: &[PolicyObject]) {
    let text = |object: &PolicyObject| object.to_string();
    let known: [BTreeSet<String>; 2] =
        [before, after].map(|objects| objects.iter().map(text).collect());
    let of = |objects: &[PolicyObject], others: &BTreeSet<String>| {
        let matters =
            |object: &&PolicyObject| object.effect != PolicyEffect::None && object.concerns != REST;
        let matters = objects.iter().filter(matters);
        let lines = matters.map(|object| (object.effect, text(object)));
        lines.filter(|(_, line)| !others.contains(line)).collect::<Vec<_>>()
    };
    let (begins, ends) = (of(after, &known[0]), of(before, &known[1]));
    for (effect, line) in begins.iter().take(LINES_MAX) {
        match effect {
            PolicyEffect::Kernel => warn!(code = "EBB-R066", "policy: {line}"),
            _ => info!(code = "EBB-R067", "policy: {line}"),
        }
    }
    for (_, line) in ends.iter().take(LINES_MAX) {
        info!(code = "EBB-R068", "policy: removed: {line}");
    }
    let untold = begins.len().saturating_sub(LINES_MAX) + ends.len().saturating_sub(LINES_MAX);
    if untold > 0 {
        info!(code = "EBB-R069", "policy: {untold} further changes; see `ebb router show`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_objects_are_a_few_and_a_number() {
        let mut objects = Objects::default();
        let mut formatted = 0;
        for number in 0..100_000 {
            objects.add(Mechanism::Xfrm, PolicyEffect::Kernel, || {
                formatted += 1;
                (format!("policy {number}"), "packets".to_owned())
            });
        }
        objects.add(Mechanism::Rules, PolicyEffect::Kernel, || ("9:".into(), "packets".into()));
        let told = objects.finish();
        assert_eq!((told.len() as u64, formatted), (TOLD_MAX + 2, TOLD_MAX));
        assert_eq!(told.last().expect("a number").object, "99960 more");
    }
}
