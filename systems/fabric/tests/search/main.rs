//! A random search for wrong verdicts: tiny fabrics with random tables before and after a change, in
//! which hosts and links come and go, lanes and service levels included.
//!
//! Three judges look at each: the checker and the schemes' proofs, an exploration of interleavings
//! ([`oracle`]: `unsynchronised`, `instant` and, where lanes stay, `upr`, as far as its bound on states
//! reaches), and the simulator (every scheme). Whatever is called safe must not lose, deadlock or, where
//! order is promised, reorder in either of the others. A case that breaks this is made smaller ([`shrink`])
//! and written to a folder ([`case`]); those found, in `kept`, and those of an independent search are run
//! again by every test.
//!
//! `cargo test -p ebb-system-fabric --test fabric search` looks at some hundred cases, with `EBB_LONG=1` at ten
//! thousand; `EBB_SEARCH` gives another number, and `EBB_SEARCH_SEED` begins elsewhere.

mod case;
mod draw;
mod oracle;
mod shrink;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use case::Drawn;
use ebb_des::Seed;
use ebb_system_fabric::schemes::{self, Scheme, prepare};
use ebb_system_fabric::transition::{Options, Scheme as Judged, verdict};
use watch::{Ended, Seen};

/// Cases of the short test.
const SHORT: u64 = 300;
/// Cases of the long one.
const LONG: u64 = 10_000;

#[test]
fn nothing_called_safe_fails() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let count = number("EBB_SEARCH").unwrap_or_else(|| {
        let long = std::env::var("EBB_LONG").is_ok_and(|long| long == "1");
        if long { LONG } else { SHORT }
    });
    let first = Seed(number("EBB_SEARCH_SEED").unwrap_or(2026));
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    for index in 0..count {
        let seed = first.nth(index);
        let drawn = draw::draw(seed);
        if let Some(why) = judge(&drawn, &mut tally) {
            let small = shrink::shrink(&drawn, &|smaller| judge(smaller, &mut Tally::default()));
            let why_small = judge(&small, &mut Tally::default()).unwrap_or_default();
            let folder = small.keep(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("search"), seed.0);
            broken.push(format!("{why}\n  made smaller: {why_small}\n  in {}", folder.display()));
        }
    }
    println!("{count} cases: {:#?}", tally.0);
    assert!(broken.is_empty(), "{} of {count}:\n{}", broken.len(), broken.join("\n"));
    let parts = [("oracle: safe", 2), ("oracle: exhausted", 10), ("oracle: failed", 250)];
    for (what, part) in parts.into_iter().chain([("proved", 2), ("refused", 2)]) {
        assert!(tally.0.get(what).is_some_and(|seen| *seen >= count / part), "too few: {what}");
    }
    for scheme in schemes::ALL {
        let what = format!("proved {}", scheme.name());
        assert!(tally.0.contains_key(&what), "never came about: {what}");
    }
}

/// Every case that was ever found wrong.
#[test]
fn what_was_found_wrong_stays_mended() {
    let kept = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/search/kept"));
    assert!(!kept.is_empty(), "no case is kept");
    for folder in kept.into_iter().chain(folders_of_others()) {
        let drawn = Drawn::read(&folder);
        if let Some(why) = judge(&drawn, &mut Tally::default()) {
            panic!("{}: {why}", folder.display());
        }
    }
}

fn folders(under: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(under) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("o").is_dir())
        .collect();
    folders.sort();
    folders
}

/// Cases of an independent search, where they are at hand.
fn folders_of_others() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the checkout");
    let data = root.join("../shared/data/fabric/regressions");
    let found = folders(&data);
    if found.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "{} is missing", data.display());
        eprintln!("skipped: {} is missing", data.display());
    }
    found
}

/// How often what was seen.
#[derive(Default)]
struct Tally(BTreeMap<String, u64>);

impl Tally {
    fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }
}

/// What is wrong with the verdicts on a case, if something is.
fn judge(drawn: &Drawn, tally: &mut Tally) -> Option<String> {
    let transition = drawn.transition();
    let verdict = verdict::judge(&transition, Options::default());
    let sound = verdict.old.is_sound() && verdict.new.is_sound();
    tally.note(if sound { "sound" } else { "not sound" });
    if sound {
        for (judged, plan) in oracle::plans(&transition) {
            let safe = verdict.scheme(judged).safe;
            let found = oracle::explore(drawn, &transition, &plan, drawn.seed);
            tally.note(if safe { "oracle: safe" } else { "oracle: unsafe" });
            tally.note(match &found {
                oracle::Found::Nothing { exhausted: true } => "oracle: exhausted",
                oracle::Found::Nothing { exhausted: false } => "oracle: gave up",
                oracle::Found::Failure(_) => "oracle: failed",
            });
            if let (true, oracle::Found::Failure(what)) = (safe, found) {
                return Some(format!("{}: called safe, but {what}", judged.name()));
            }
        }
    }
    schemes::ALL.into_iter().find_map(|scheme| in_simulator(drawn, scheme, tally))
}

/// What is wrong with one scheme in the simulator: a promise that was broken, or the books.
fn in_simulator(drawn: &Drawn, scheme: &'static dyn Scheme, tally: &mut Tally) -> Option<String> {
    let case = drawn.case();
    let name = scheme.name();
    let (proposal, proved) = match prepare(scheme, &case) {
        Ok(proposal) => (proposal, true),
        Err(_) => (scheme.propose(&case), false),
    };
    tally.note(if proved { "proved" } else { "refused" });
    if !proved && (!drawn.run.seed.is_multiple_of(4) || proposal.plan.stages.is_empty()) {
        return None;
    }
    tally.note(format!("{} {name}", if proved { "proved" } else { "without proof" }));
    let promise = proposal.promise;
    let seen: Seen = match watch::run(drawn, proposal) {
        Ok(seen) => seen,
        Err(why) => {
            tally.note(format!("not simulated: {why}"));
            return None;
        }
    };
    if !seen.balanced {
        return Some(format!("{name}: the books do not balance: {seen:?}"));
    }
    if !proved {
        tally.note(format!("{name} fails without proof: {}", seen.fails()));
        return None;
    }
    let broken = match &seen.ended {
        Ended::Deadlock(ring) => Some(format!("deadlock {ring:?}")),
        Ended::Never => Some("never ends".to_owned()),
        Ended::Settled => None,
    };
    let lost = promise.lossless && seen.lost + seen.dropped > 0 || seen.lost > 0;
    let lost = lost.then(|| format!("{} lost, {} dropped", seen.lost, seen.dropped));
    let order = promise.in_order && seen.reordered > 0;
    let order = order.then(|| format!("{} out of order", seen.reordered));
    broken.or(lost).or(order).map(|what| format!("{name}: proved, but {what} ({seen:?})"))
}

/// The checker's verdict by a scheme's name is the scheme's own.
#[test]
fn checker_and_schemes_agree() {
    for index in 0..100 {
        let drawn = draw::draw(Seed(7).nth(index));
        let verdict = verdict::judge(&drawn.transition(), Options::default());
        let case = drawn.case();
        for (name, judged) in [("st", Judged::St), ("sr-la", Judged::Sr), ("upr", Judged::Upr)] {
            let scheme = schemes::by_name(name).expect("a scheme");
            if prepare(scheme, &case).is_ok() {
                assert!(verdict.scheme(judged).safe, "{name} of {:?}", drawn.seed);
            }
        }
    }
}
