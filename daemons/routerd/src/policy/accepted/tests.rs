//! Rule sets whose proof holds, and those whose does not.

use ebb_host::netlink::policy::Family;

use super::Expression::{Decide, Does, Equal, In, Load, Map, Mask, Sometimes};
use super::*;

fn state(values: u32) -> Vec<Expression> {
    let mask = Mask(0, 0, values.to_ne_bytes().into(), vec![0; 4]);
    vec![Load(0, Loaded::State), mask, Equal(0, vec![0; 4], false)]
}

fn with(mut rule: Vec<Expression>, more: &[Expression]) -> Vec<Expression> {
    rule.extend_from_slice(more);
    rule
}

fn accept() -> Expression {
    Decide(Decision::Accept)
}

fn drops() -> Expression {
    Decide(Decision::Other)
}

fn unknown() -> Vec<Expression> {
    vec![Load(0, Loaded::Packet), Equal(0, vec![1], true)]
}

fn place(name: &str) -> Place {
    (1, "t".to_owned(), name.to_owned())
}

fn chain(drops: bool) -> Chain {
    Chain {
        name: "inet t c".into(),
        family: Family::Both,
        hook: Hook::Forward,
        devices: Vec::new(),
        drops,
        rules: 1,
        first_only: false,
        priority: 0,
        place: Some(place("c")),
        strange: false,
    }
}

fn set(rules: &[Vec<Expression>]) -> Ruleset {
    let mut set = Ruleset::default();
    set.chains.insert(place("c"), rules.to_vec());
    let accepting = |value: u32, decision| (value.to_ne_bytes().to_vec(), Some(decision));
    let map = vec![accepting(2, Decision::Accept), accepting(1, Decision::Other)];
    set.sets.insert(place("__map0"), map);
    set.sets.insert(place("__map1"), vec![accepting(2, Decision::Continue)]);
    set.sets.insert(place("__set0"), vec![(2_u32.to_ne_bytes().to_vec(), None)]);
    set
}

#[track_caller]
fn proven(drops: bool, rules: &[Vec<Expression>], all: bool, established: bool) {
    let (chain, rules) = (chain(drops), set(rules));
    assert_eq!(accepts_all(&chain, &rules, false), all, "all: {rules:#?}");
    assert_eq!(accepts_established(&chain, &rules, false), established, "{rules:#?}");
}

#[test]
fn what_is_established_is_accepted_where_a_rule_says_so_first() {
    let first = with(state(6), &[accept()]);
    proven(true, &[first.clone(), with(unknown(), &[drops()])], false, true);
    proven(true, &[with(unknown(), &[drops()]), first.clone()], false, false);
    // Accepted either way before.
    proven(true, &[with(unknown(), &[accept()]), first.clone()], false, true);
    // Other states only.
    proven(true, &[with(state(1), &[drops()]), first.clone()], false, true);
    proven(true, &[with(state(8), &[accept()])], false, false);
    // A set and a map of states.
    proven(
        true,
        &[vec![Load(0, Loaded::State), In(0, "__set0".into(), false), accept()]],
        false,
        true,
    );
    proven(
        true,
        &[vec![Load(0, Loaded::State), In(0, "__set0".into(), true), drops()]],
        false,
        false,
    );
    proven(true, &[vec![Load(0, Loaded::State), Map(0, "__map0".into())]], false, true);
    // `continue` goes on to the next rule, or in this one behind the map.
    let map = vec![Load(0, Loaded::State), Map(0, "__map1".into())];
    proven(true, &[map.clone(), first.clone()], false, true);
    proven(true, &[with(map, &[drops()]), first.clone()], false, false);
    proven(true, &[vec![Load(0, Loaded::Packet), Map(0, "__map0".into())]], false, false);
    // A map that may change.
    proven(false, &[vec![Load(0, Loaded::State), Map(0, "named".into())]], false, false);
    proven(
        true,
        &[vec![Load(0, Loaded::State), In(0, "named".into(), false), accept()]],
        false,
        false,
    );
}

#[test]
fn chains_that_accept_everything_need_no_connection() {
    proven(false, &[], true, true);
    proven(false, &[unknown(), with(unknown(), &[accept()])], true, true);
    proven(true, &[], false, false);
    proven(false, &[with(unknown(), &[drops()])], false, false);
}

#[test]
fn what_does_something_is_reached_or_not() {
    let counts = Does("counter".into());
    proven(true, &[with(state(6), &[counts.clone(), accept()])], false, false);
    proven(
        true,
        &[with(state(8), std::slice::from_ref(&counts)), with(state(6), &[accept()])],
        false,
        true,
    );
    proven(false, &[with(unknown(), &[counts])], false, false);
}

#[test]
fn protocols_and_families_are_known() {
    let transport = |number: u8| vec![Load(0, Loaded::Transport), Equal(0, vec![number], true)];
    let established = with(state(6), &[accept()]);
    proven(true, &[with(transport(1), &[drops()]), established.clone()], false, true);
    proven(true, &[with(transport(17), &[drops()]), established.clone()], false, false);
    let family = |number: u8| vec![Load(0, Loaded::Family), Equal(0, vec![number], true)];
    proven(true, &[with(family(10), &[drops()]), established.clone()], false, true);
    proven(true, &[with(family(2), &[drops()]), established], false, false);
}

#[test]
fn jumps_return_and_gotos_do_not() {
    let to = |decision: fn(String) -> Decision| vec![Decide(decision("other".into()))];
    let other = |rules: &[Vec<Expression>], decision, drops| {
        let mut set = set(&[to(decision), with(state(6), &[accept()])]);
        set.chains.insert(place("other"), rules.to_vec());
        accepts_established(&chain(drops), &set, false)
    };
    assert!(other(&[], Decision::Jump, true));
    assert!(!other(&[], Decision::Goto, true), "the policy drops");
    assert!(other(&[], Decision::Goto, false));
    assert!(!other(&[with(unknown(), &[drops()])], Decision::Jump, false));
    assert!(other(&[vec![Decide(Decision::Return)], vec![drops()]], Decision::Jump, true));
    let again = vec![Decide(Decision::Jump("other".into()))];
    assert!(!other(&[again], Decision::Jump, true), "chains that lead to themselves");
}

#[test]
fn before_connections_are_looked_up_nothing_is_known_of_them() {
    let rules = set(&[with(state(6), &[accept()])]);
    let raw = Chain { hook: Hook::Prerouting, priority: -300, ..chain(true) };
    assert!(!accepts_established(&raw, &rules, false));
    assert!(accepts_established(&Chain { priority: -150, ..raw.clone() }, &rules, false));
    let first = Chain { first_only: true, ..chain(true) };
    assert!(accepts_established(&first, &set(&[vec![Does("masq".into())]]), false));
}

#[test]
fn registers_that_are_written_over_are_not_known() {
    let over = vec![
        Load(0, Loaded::State),
        Load(0, Loaded::Packet),
        Equal(0, ESTABLISHED.into(), false),
        drops(),
    ];
    proven(false, &[over], false, false);
    let beside = vec![
        Load(0, Loaded::State),
        Load(1, Loaded::Packet),
        Equal(0, ESTABLISHED.into(), false),
        drops(),
    ];
    proven(false, &[beside], false, true);
    proven(false, &[vec![Sometimes, drops()]], false, false);
}

#[test]
fn the_users_mark_is_found() {
    let mark = CONNECTION_MARK.to_ne_bytes().to_vec();
    let sets = vec![Expression::Value(0, mark), Does("ct mark".into())];
    assert!(marks(&set(&[sets])) && !marks(&set(&[vec![Does("ct mark".into())]])));
}
