//! `ebb router timeline`: the record of a router that ran, for programs that draw it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ebb_control::{Action, Decision, Idle, IdleDepth, Observation, OperatingPoint};
use ebb_report::{Drawn, Picos, Timeline, Track};

/// Write what a router decided as a timeline that Perfetto and chrome://tracing draw
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router timeline decisions.jsonl --out timeline.json
  ebb router timeline decisions.jsonl --out - | gzip >timeline.json.gz

The record is written by a router whose configuration has `record` under [governor]. The timeline has the
operating point, for each worker what it did after its batches, and curves of queues and batches. Times
are those of the router's clock, from the first decision on. Open it in ui.perfetto.dev or chrome://tracing.")]
pub struct TimelineCommand {
    /// The record
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The file to write, - for standard output
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Most events to write; what comes later is left out, and the file says so
    #[arg(long, value_name = "EVENTS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
}

impl TimelineCommand {
    /// Reads the record once, from its beginning to the cut.
    pub fn run(self) -> Result<ExitCode> {
        let name = self.record.display().to_string();
        let record = File::open(&self.record).with_context(|| format!("cannot read {name}"))?;
        let record = BufReader::new(record);
        let drawn = if self.out.as_os_str() == "-" {
            draw(&name, record, io::stdout().lock(), self.events)
        } else {
            self.write_file(&name, record)
        }?;
        let Drawn { events, left_out, .. } = drawn;
        let cut = if left_out > 0 { ", the rest is left out (--events)" } else { "" };
        eprintln!("ebb: {events} events{cut}");
        Ok(ExitCode::SUCCESS)
    }

    fn write_file(&self, name: &str, record: BufReader<File>) -> Result<Drawn> {
        let out = &self.out;
        let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
        let drawn = draw(name, record, BufWriter::new(file), self.events);
        // A record that is none leaves no half of a file.
        drawn.inspect_err(|_| drop(std::fs::remove_file(out)))
    }
}

/// What a worker does until its next decision.
struct Worker {
    track: Track,
    queue: String,
    batch: String,
    doing: Option<(String, Picos)>,
}

struct Drawing<W: Write> {
    timeline: Timeline<W>,
    governor: Track,
    queues: Track,
    workers: BTreeMap<u16, Worker>,
    point: Option<(OperatingPoint, Picos)>,
}

/// Draws the decisions of a record, a line of JSON for each.
fn draw(name: &str, record: impl BufRead, sink: impl Write, most: u64) -> Result<Drawn> {
    let mut timeline = Timeline::new(sink, most);
    let governor = timeline.track("router", "operating point");
    let queues = timeline.track("queues", "queues");
    let (workers, point) = (BTreeMap::new(), None);
    let mut drawing = Drawing { timeline, governor, queues, workers, point };
    let (mut first, mut last) = (None, 0);
    for (index, line) in record.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let decision: Decision<Observation, Action> =
            serde_json::from_str(&line).with_context(|| {
                let number = index + 1;
                format!("{name}:{number}: not a decision of a router: give the file that `record` of [governor] names")
            })?;
        let first = *first.get_or_insert(decision.at.as_nanos());
        let at = decision.at.as_nanos().saturating_sub(first).saturating_mul(1000);
        last = at.max(last);
        drawing.decision(last, &decision.seen, decision.action);
    }
    if first.is_none() {
        bail!("{name}: holds no decision");
    }
    drawing.finish(last)
}

impl<W: Write> Drawing<W> {
    fn decision(&mut self, now: Picos, seen: &Observation, action: Action) {
        if self.point.is_none_or(|(point, _)| point != action.point) {
            let last = self.point.replace((action.point, now));
            self.held(last, now);
            let OperatingPoint { cores, frequency, .. } = action.point;
            self.timeline.counter(self.governor, "active cores", now, cores.into());
            self.timeline.counter(self.governor, "frequency number", now, frequency.into());
        }
        let timeline = &mut self.timeline;
        let worker = self.workers.entry(seen.worker).or_insert_with(|| Worker {
            track: timeline.track("workers", &format!("worker {}", seen.worker)),
            queue: format!("worker {}: packets waiting", seen.worker),
            batch: format!("worker {}: packets received", seen.worker),
            doing: None,
        });
        let doing = match action.idle {
            Idle::Poll => "poll".to_owned(),
            Idle::Halt => "sleep until a packet comes".to_owned(),
            Idle::Gather { nanos } => format!("sleep for {nanos} ns"),
        };
        timeline.counter(self.queues, &worker.queue, now, seen.own_queue_len.into());
        timeline.counter(self.queues, &worker.batch, now, seen.received.into());
        if worker.doing.as_ref().is_none_or(|(last, _)| *last != doing)
            && let Some((last, since)) = worker.doing.replace((doing, now))
        {
            timeline.slice(worker.track, &last, since, now, &[]);
        }
    }

    fn held(&mut self, point: Option<(OperatingPoint, Picos)>, until: Picos) {
        let Some((OperatingPoint { cores, frequency, depth }, since)) = point else { return };
        let depth = match depth {
            IdleDepth::Shallow => "shallow",
            IdleDepth::Deep => "deep",
        };
        let name = format!("{cores} cores, frequency {frequency}, {depth} idle");
        self.timeline.slice(self.governor, &name, since, until, &[]);
    }

    fn finish(mut self, now: Picos) -> Result<Drawn> {
        let last = self.point.take();
        self.held(last, now);
        for worker in self.workers.values_mut() {
            if let Some((doing, since)) = worker.doing.take() {
                self.timeline.slice(worker.track, &doing, since, now, &[]);
            }
        }
        let (_, drawn) = self.timeline.finish().context("cannot write the timeline")?;
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_control::policies::{Settings, named};
    use ebb_control::{Limits, Policy};
    use ebb_units::Time;
    use serde_json::Value;

    fn record(turns: u32) -> (String, u32) {
        let limits = Limits { cores: 2, frequencies: 2 };
        let mut policy = named("powersave", limits, &Settings::default()).expect("known");
        let (mut text, mut received) = (String::new(), 0);
        for turn in 0..turns {
            let (at, worker) =
                (Time::from_nanos(5_000 + u64::from(turn) * 1_000), (turn % 2) as u16);
            let own_queue_len = turn / 8 % 100;
            let seen = Observation {
                queue_len: own_queue_len,
                own_queue_len,
                received: 3,
                worker,
                ..Observation::default()
            };
            received += 3;
            let decision = Decision { at, seen, action: policy.decide(at, &seen) };
            text += &(serde_json::to_string(&decision).expect("plain data") + "\n");
        }
        (text, received)
    }

    fn drawn(text: &str, most: u64) -> Result<(Value, Drawn)> {
        let mut file = Vec::new();
        let drawn = draw("decisions.jsonl", text.as_bytes(), &mut file, most)?;
        Ok((serde_json::from_slice(&file)?, drawn))
    }

    #[test]
    fn a_record_is_drawn_whole() {
        let (text, received) = record(2_000);
        let (json, _) = drawn(&text, 1_000_000).expect("a timeline");
        let events = json["traceEvents"].as_array().expect("events");
        let number = |event: &Value, key: &str| event[key].as_f64().expect("a number");
        let named = |event: &&Value, part: &str| {
            event["name"].as_str().is_some_and(|name| name.contains(part))
        };
        let batches = events.iter().filter(|event| named(event, "packets received"));
        let sum: f64 = batches.map(|event| number(&event["args"], "value")).sum();
        assert_eq!(sum, f64::from(received));
        // The tracks have no gaps and no overlaps, from the first decision to the last.
        let slices = |track: [u64; 2]| -> Vec<&Value> {
            let of = |event: &&Value| {
                event["ph"] == "X"
                    && [&event["pid"], &event["tid"]] == track.map(Value::from).each_ref()
            };
            events.iter().filter(of).collect()
        };
        for (track, begin) in [([1, 1], 0.0), ([3, 1], 0.0), ([3, 2], 1.0)] {
            let mut end = begin;
            for slice in slices(track) {
                assert!((number(slice, "ts") - end).abs() < 1e-6, "{slice}");
                end = number(slice, "ts") + number(slice, "dur");
            }
            assert!((end - 1999.0).abs() < 1e-6, "{track:?} ends at {end}");
        }
        assert!(slices([1, 1]).len() > 1, "the policy never changed the operating point");
    }

    #[test]
    fn what_is_too_long_is_cut_and_what_is_no_record_refused() {
        let (text, _) = record(100);
        let (json, whole) = drawn(&text, 20).expect("a timeline");
        assert_eq!((whole.events, &json["otherData"]["left_out"]), (20, &whole.left_out.into()));
        let error = drawn("{\"at\":1}\n", 20).expect_err("no decision").to_string();
        assert!(error.contains("decisions.jsonl:1: not a decision"), "{error}");
        assert!(drawn("\n", 20).is_err());
    }
}
