//! Routing rules: which packets are looked up elsewhere than Ebb looks, or otherwise.

use ebb_host::netlink::policy::{Rule, RuleAction};
use ebb_host::netlink::{TABLE_LOCAL, TABLE_MAIN};
use ebb_ports::afxdp::Side;
use ipnet::IpNet;

use super::Mechanism;
use super::judge::{Judge, Scope, all_of};
use crate::status::PolicyEffect;

const TABLE_DEFAULT: u32 = 253;

impl Judge<'_> {
    /// The rules of one family.
    pub(super) fn rules(&mut self, rules: &[Rule], v6: bool) {
        let mut tables = Vec::new();
        for rule in rules.iter().filter(|rule| rule.v6 == v6) {
            match rule.action {
                RuleAction::Lookup(table) if is_plain(rule) && !rule.suppresses => {
                    tables.push(table);
                }
                _ => self.rule(rule),
            }
        }
        let usual: &[u32] = match v6 {
            false => &[TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT],
            true => &[TABLE_LOCAL, TABLE_MAIN],
        };
        // Without any rules the family is not there.
        if tables != usual && rules.iter().any(|rule| rule.v6 == v6) {
            tables.truncate(16);
            let object = format!("tables in the order {tables:?} instead of {usual:?}");
            self.by_rules[usize::from(v6)] |= !self.is_ignored(Mechanism::Rules);
            self.carry(Mechanism::Rules, &Scope::Families(!v6, v6), || (object, all_of(v6)));
        }
    }

    /// A rule that is not one of the usual ones.
    fn rule(&mut self, rule: &Rule) {
        let harmless = match rule.action {
            RuleAction::Nop => true,
            // Looks where Ebb looks; what it passes over is found later, or by another rule.
            RuleAction::Lookup(table) => rule.vrf || matches!(table, TABLE_LOCAL | TABLE_MAIN),
            _ => false,
        };
        let never = rule.by_user
            || rule.output.is_some()
            || rule.input.as_deref() == Some("lo")
            || rule.mark.is_some_and(|(mark, mask)| mark & mask != 0);
        let input = rule.input.as_deref().map(|name| self.named(name));
        let none = harmless || !rule.inverted && (never || input == Some(None));
        if none && !rule.strange {
            let words = || (describe(rule), "no forwarded packets".to_owned());
            return self.note(Mechanism::Rules, PolicyEffect::None, words);
        }
        // What is not known may turn the other selectors into something else.
        let sure = !rule.inverted && !rule.strange;
        let input = input.flatten().filter(|_| sure);
        let prefix = longer(rule.from, rule.to).filter(|_| sure);
        let scope = match (prefix, input) {
            (Some((side, net)), at) => Scope::Prefix(side, net, at),
            (None, Some(link)) => {
                Scope::RouterInterface { link, v4: !rule.v6, v6: rule.v6, tagged: false }
            }
            (None, None) => Scope::Families(!rule.v6, rule.v6),
        };
        // The kernel path asks the kernel, which asks its rules; some by what a look-up is not told.
        let told = !rule.strange && !rule.further && !rule.vrf;
        self.by_rules[usize::from(rule.v6)] |= !self.is_ignored(Mechanism::Rules);
        let words = || {
            let concerns = match (prefix, input) {
                (Some((Side::Source, net)), _) => format!("packets from {net}"),
                (Some((Side::Destination, net)), _) => format!("packets to {net}"),
                (None, Some(_)) => {
                    format!("packets from {}", rule.input.as_deref().unwrap_or_default())
                }
                (None, None) => all_of(rule.v6),
            };
            (describe(rule), concerns)
        };
        match told {
            true => self.carry(Mechanism::Rules, &scope, words),
            false => self.leave(Mechanism::Rules, &scope, words),
        }
    }
}

/// Whether a rule matches every packet.
fn is_plain(rule: &Rule) -> bool {
    !rule.inverted
        && rule.from.is_none()
        && rule.to.is_none()
        && rule.input.is_none()
        && rule.output.is_none()
        && rule.mark.is_none()
        && !rule.by_user
        && !rule.vrf
        && !rule.further
        && !rule.strange
}

/// The more telling of two selectors.
pub(super) fn longer(from: Option<IpNet>, to: Option<IpNet>) -> Option<(Side, IpNet)> {
    let length = |net: &Option<IpNet>| net.map_or(0, |net| net.prefix_len());
    if length(&from) >= length(&to) && from.is_some() {
        from.map(|net| (Side::Source, net))
    } else {
        to.map(|net| (Side::Destination, net))
    }
}

fn describe(rule: &Rule) -> String {
    let mut words = vec![format!("{}:", rule.priority)];
    if rule.inverted {
        words.push("not".into());
    }
    words.push(rule.from.map_or("from all".into(), |net| format!("from {net}")));
    words.extend(rule.to.map(|net| format!("to {net}")));
    words.extend(rule.input.as_ref().map(|name| format!("iif {name}")));
    words.extend(rule.output.as_ref().map(|name| format!("oif {name}")));
    words.extend(rule.mark.map(|(mark, mask)| format!("fwmark {mark:#x}/{mask:#x}")));
    if rule.by_user {
        words.push("uidrange".into());
    }
    if rule.further {
        words.push("(further selectors)".into());
    }
    if rule.strange {
        words.push("(partly unknown to Ebb)".into());
    }
    words.push(match rule.action {
        RuleAction::Lookup(_) if rule.vrf => "lookup l3mdev-table".into(),
        RuleAction::Lookup(table) => format!("lookup {table}"),
        RuleAction::Goto(target) => format!("goto {target}"),
        RuleAction::Nop => "nop".into(),
        RuleAction::Discard => "discard".into(),
        RuleAction::Other(action) => format!("action {action}"),
    });
    if rule.v6 { format!("-6 {}", words.join(" ")) } else { words.join(" ") }
}
