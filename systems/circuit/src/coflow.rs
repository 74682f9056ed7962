//! Traces of coflows, as the Coflow-Benchmark has them (Chowdhury and others 2014): the demand of all coflows together.
//!
//! ```text
//! 150 526
//! 1 0 1 80 1 82:1.0
//! ```
//! First the racks and the coflows; then for each coflow its number, arrival in ms, how many mappers and where they
//! are, how many reducers, and of each its place and its megabytes. Every mapper sends a reducer the same share, as the
//! simulators of those authors take it. Places count from 0, or from 1 where the last one is used.

use std::collections::BTreeMap;

use ebb_scenario::ScenarioError;

use crate::Demand;
use crate::demand::PORTS_MAX;

/// A demand, and what of the trace it does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What the busiest link carries is 1.
    pub demand: Demand,
    /// For people.
    pub notes: Vec<String>,
}

const REMEDY: &str = "expected `ID ARRIVAL_MS MAPPERS PLACE... REDUCERS PLACE:MEGABYTES...`";

/// What each coflow sends between racks.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// How many there are, counted from 0.
    pub racks: usize,
    /// In the file's order.
    pub coflows: Vec<Transfers>,
    /// What stays inside racks, and is in no coflow.
    pub inside_megabytes: f64,
    /// The file's last line.
    last: usize,
}

/// A coflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// When it arrives.
    pub arrival_ms: f64,
    /// What it sends from racks to others.
    pub parts: Vec<Transfer>,
}

/// What a coflow sends from one rack to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Sender.
    pub from: usize,
    /// Receiver, another one.
    pub to: usize,
    /// How much.
    pub megabytes: f64,
}

impl Trace {
    /// The same over fewer racks: rack `n` of the trace is `n` modulo `racks`. What is then inside a rack is left out.
    ///
    /// # Panics
    /// Without racks.
    #[must_use]
    pub fn over(mut self, racks: usize) -> Trace {
        for coflow in &mut self.coflows {
            let mut folded: BTreeMap<(usize, usize), f64> = BTreeMap::new();
            for part in coflow.parts.drain(..) {
                let (from, to) = (part.from % racks, part.to % racks);
                if from == to {
                    self.inside_megabytes += part.megabytes;
                } else {
                    *folded.entry((from, to)).or_default() += part.megabytes;
                }
            }
            let part = |((from, to), megabytes)| Transfer { from, to, megabytes };
            coflow.parts = folded.into_iter().map(part).collect();
        }
        Trace { racks, ..self }
    }
}

/// A coflow's line.
struct Coflow {
    line: usize,
    arrival_ms: f64,
    /// How many at each place.
    mappers: BTreeMap<usize, f64>,
    /// Megabytes for each place.
    reducers: BTreeMap<usize, f64>,
}

fn fault(file: &str, line: usize, field: &str, message: String, remedy: &str) -> ScenarioError {
    ScenarioError {
        file: file.to_owned(),
        line: Some(line),
        field: (!field.is_empty()).then(|| field.to_owned()),
        message,
        remedy: remedy.to_owned(),
    }
}

/// Reads a trace, coflow by coflow.
///
/// # Errors
/// With file, line and field where it is no such trace.
pub fn trace(file: &str, bytes: &[u8]) -> Result<Trace, ScenarioError> {
    let fault = |line: usize, field: &str, message: String, remedy: &str| {
        fault(file, line, field, message, remedy)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        fault(line, "", "binary data where text was expected".to_owned(), "give a trace of coflows")
    })?;
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty());
    let (line, first) = lines.next().unwrap_or((1, ""));
    let counts: Vec<Option<usize>> =
        first.split_whitespace().map(|word| word.parse().ok()).collect();
    let [Some(racks), Some(count)] = counts[..] else {
        let remedy = "expected the number of racks and that of coflows";
        return Err(fault(
            line,
            "",
            format!("`{}` is not the head of a trace", cut(first)),
            remedy,
        ));
    };
    if !(2..=PORTS_MAX).contains(&racks) {
        let message = format!("is {racks}");
        return Err(fault(line, "racks", message, &format!("expected 2 to {PORTS_MAX}")));
    }
    let mut coflows = Vec::new();
    let mut last = line;
    for (line, text) in lines {
        let coflow =
            coflow(line, text, racks).map_err(|(field, what)| fault(line, field, what, REMEDY))?;
        coflows.push(coflow);
        last = line;
    }
    if coflows.len() != count {
        let message = format!("{} coflows, and the first line says {count}", coflows.len());
        return Err(fault(last, "", message, "is the file truncated?"));
    }
    let places = || {
        let of = |coflow: &Coflow| {
            coflow
                .mappers
                .keys()
                .chain(coflow.reducers.keys())
                .copied()
                .map(|place| (place, coflow.line))
                .collect::<Vec<_>>()
        };
        coflows.iter().flat_map(of)
    };
    let from_one = places().find(|(place, _)| *place == racks);
    if let (Some(_), Some((_, line))) = (from_one, places().find(|(place, _)| *place == 0)) {
        let message = format!("a place 0, and elsewhere a place {racks} of {racks} racks");
        return Err(fault(line, "PLACE", message, "count places from 0 or from 1"));
    }
    let base = usize::from(from_one.is_some());
    let mut inside_megabytes = 0.0;
    let transfers = |coflow: &Coflow| {
        let tasks: f64 = coflow.mappers.values().sum();
        let mut parts = Vec::new();
        for (to, size) in &coflow.reducers {
            for (from, count) in &coflow.mappers {
                let megabytes = size * count / tasks;
                if from == to {
                    inside_megabytes += megabytes;
                } else {
                    parts.push(Transfer { from: from - base, to: to - base, megabytes });
                }
            }
        }
        Transfers { arrival_ms: coflow.arrival_ms, parts }
    };
    let coflows = coflows.iter().map(transfers).collect();
    Ok(Trace { racks, coflows, inside_megabytes, last })
}

/// Reads a trace as one demand.
///
/// # Errors
/// As [`trace`], or when no coflow sends anything between racks.
pub fn read(file: &str, bytes: &[u8]) -> Result<Read, ScenarioError> {
    let fault = |line: usize, field: &str, message: String, remedy: &str| {
        fault(file, line, field, message, remedy)
    };
    let Trace { racks, coflows, inside_megabytes: inside, last } = trace(file, bytes)?;
    let count = coflows.len();
    let mut megabytes = vec![0.0; racks * racks];
    for part in coflows.iter().flat_map(|coflow| &coflow.parts) {
        megabytes[part.from * racks + part.to] += part.megabytes;
    }
    let whole = Demand::new(racks, megabytes)
        .map_err(|error| fault(last, "MEGABYTES", error.to_string(), REMEDY))?;
    let busiest = whole.busiest();
    if busiest <= 0.0 {
        return Err(fault(last, "", "no coflow sends anything between racks".to_owned(), ""));
    }
    let amounts = whole.amounts().iter().map(|amount| amount / busiest).collect();
    let demand = Demand::new(racks, amounts)
        .map_err(|error| fault(last, "MEGABYTES", error.to_string(), REMEDY))?;
    let until = coflows.iter().map(|coflow| coflow.arrival_ms).fold(0.0, f64::max);
    let mut notes = vec![format!(
        "{count} coflows between {racks} racks, {:.0} MB; the busiest link carries {busiest:.0} MB, which is a \
         window of 1. When each coflow arrives (until {:.1} s) has no effect: all are one demand.",
        whole.total(),
        until / 1e3
    )];
    if inside > 0.0 {
        notes.push(format!("{inside:.0} MB stay inside racks and are left out."));
    }
    Ok(Read { demand, notes })
}

/// As much of a line as an error shows.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

type Fault = (&'static str, String);

fn coflow(line: usize, text: &str, racks: usize) -> Result<Coflow, Fault> {
    let mut words = text.split_whitespace();
    let mut word =
        |field: &'static str| words.next().ok_or_else(|| (field, "is missing".to_owned()));
    let number = |field: &'static str, word: &str| -> Result<f64, Fault> {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| (field, format!("`{}` is no number of 0 or more", cut(word))))
    };
    let whole = |field: &'static str, word: &str, most: usize| -> Result<usize, Fault> {
        let number = word.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| (field, format!("`{}` is no whole number up to {most}", cut(word))))
    };
    whole("ID", word("ID")?, usize::MAX)?;
    let arrival_ms = number("ARRIVAL_MS", word("ARRIVAL_MS")?)?;
    // Several tasks of a rack may be listed one by one.
    let most = text.len();
    let count = whole("MAPPERS", word("MAPPERS")?, most)?;
    let mut mappers = BTreeMap::new();
    for _ in 0..count {
        *mappers.entry(whole("PLACE", word("PLACE")?, racks)?).or_default() += 1.0;
    }
    let count = whole("REDUCERS", word("REDUCERS")?, most)?;
    let mut reducers = BTreeMap::new();
    for _ in 0..count {
        let text = word("PLACE:MEGABYTES")?;
        let (place, size) = text
            .split_once(':')
            .ok_or_else(|| ("PLACE:MEGABYTES", format!("`{}` has no colon", cut(text))))?;
        *reducers.entry(whole("PLACE", place, racks)?).or_default() += number("MEGABYTES", size)?;
    }
    if let Some(more) = words.next() {
        return Err(("", format!("`{}` after the last reducer", cut(more))));
    }
    if mappers.is_empty() && !reducers.is_empty() {
        return Err(("MAPPERS", "is 0, and there are reducers".to_owned()));
    }
    Ok(Coflow { line, arrival_ms, mappers, reducers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "3 2\n1 0 2 1 2 1 3:8.0\n2 1500 1 3 2 3:5.0 1:2.5\n";

    #[test]
    fn every_field_is_in_the_demand_or_in_a_note() {
        let Read { demand, notes } = read("t", TRACE.as_bytes()).expect("a trace");
        // 8 MB to rack 3 in halves from racks 1 and 2, which is the busiest link; 2.5 MB from 3 to 1.
        let expected = [0.0, 0.0, 0.5, 0.0, 0.0, 0.5, 0.3125, 0.0, 0.0];
        assert_eq!((demand.ports(), demand.amounts()), (3, &expected[..]));
        for says in
            ["2 coflows", "8 MB, which is a window", "until 1.5 s", "5 MB stay inside racks"]
        {
            assert!(notes.iter().any(|note| note.contains(says)), "{says}: {notes:?}");
        }
        let from_zero = read("t", b"3 1\n1 0 1 0 1 2:1\n").expect("a trace").demand;
        assert_eq!(from_zero.amount(0, 2), 1.0);
    }

    #[test]
    fn what_cannot_be_is_refused_with_line_and_field() {
        for (from, to, says) in [
            ("3 2\n", "3\n", "t:1: `3` is not the head"),
            ("3 2\n", "3 3\n", "t:3: 2 coflows, and the first line says 3"),
            ("3 2\n", "1 2\n", "t:1: field `racks`: is 1"),
            ("1 0 2", "x 0 2", "t:2: field `ID`"),
            ("1 0 2", "1 -3 2", "t:2: field `ARRIVAL_MS`"),
            ("2 1 2", "9 1 2", "t:2: field `PLACE`: `3:8.0`"),
            ("3:8.0", "3:inf", "t:2: field `MEGABYTES`"),
            ("3:8.0", "3", "has no colon"),
            ("3:8.0", "4:8.0", "t:2: field `PLACE`: `4`"),
            ("3:8.0", "3:8.0 7", "`7` after the last"),
            (" 1 3 2 3", " 1 0 2 3", "t:3: field `PLACE`: a place 0"),
        ] {
            let error =
                read("t", TRACE.replacen(from, to, 1).as_bytes()).expect_err(to).to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        assert!(
            read("t", b"2 1\n1 0 1 1 1 1:3\n")
                .expect_err("inside")
                .to_string()
                .contains("between racks")
        );
        assert!(read("t", b"\xff").is_err() && read("t", b"").is_err());
    }

    #[test]
    fn racks_of_a_trace_are_folded_onto_fewer() {
        let trace = trace("t", b"5 1\n1 7 2 1 2 2 3:4.0 5:2.0\n").expect("a trace").over(2);
        // Places 1 and 2 each send half of it to 3 and to 5, which lie with place 1.
        let part = Transfer { from: 1, to: 0, megabytes: 3.0 };
        let coflows = vec![Transfers { arrival_ms: 7.0, parts: vec![part] }];
        assert_eq!(trace, Trace { racks: 2, coflows, inside_megabytes: 3.0, last: 2 });
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "([0-4]|:|\\.| |\n|-|e9){0,40}") {
            let _ = read("t", text.as_bytes());
        }
    }
}
