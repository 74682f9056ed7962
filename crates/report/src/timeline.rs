//! What happened when, for programs that draw it: the JSON of the Trace Event Format, which Perfetto
//! (ui.perfetto.dev) and chrome://tracing open.
//!
//! Events go to the sink as they come; nothing is kept but the names of tracks. After `most` events the rest is left
//! out, which the file says itself: an event at the cut, and `otherData` with how many there were.

use std::io::{self, Write};

use ebb_scenario::Described;
use serde::Deserialize;

/// Picoseconds since the start: what the timelines of all systems count.
pub type Picos = u64;

/// Whether a run leaves a timeline: the table `[output]` of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Timelines {
    /// Most events of `timeline.json`, a file beside the report that Perfetto and chrome://tracing draw; the rest of
    /// the run is left out; 0 for no such file.
    // Some 100 bytes each.
    #[schema(most = 5_000_000)]
    pub timeline: u64,
}

impl Timelines {
    /// A timeline in memory, if one is wanted.
    pub fn begin(self) -> Option<Timeline<Vec<u8>>> {
        (self.timeline > 0).then(|| Timeline::new(Vec::new(), self.timeline))
    }
}

/// A row of the drawing, of a group that is called a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    process: u32,
    thread: u32,
}

/// How much of a run a timeline has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Events that were written.
    pub events: u64,
    /// Events that were not.
    pub left_out: u64,
    /// When the first of them happened.
    pub cut_ps: Option<Picos>,
}

impl Drawn {
    /// For a report, in a sentence.
    pub fn words(&self) -> String {
        let Drawn { events, left_out, cut_ps } = self;
        match cut_ps {
            None => format!("timeline.json has all {events} events of the run."),
            Some(at) => format!(
                "timeline.json has the first {events} events, until {:.6} s; {left_out} later ones are left out \
                 (output.timeline).",
                *at as f64 / 1e12
            ),
        }
    }
}

/// Writes a timeline.
///
/// ```
/// use ebb_report::Timeline;
/// let mut timeline = Timeline::new(Vec::new(), 1000);
/// let core = timeline.track("cores", "core 0");
/// timeline.slice(core, "work", 0, 1_500_000, &[("packets", 32.0)]);
/// timeline.counter(core, "queue", 1_500_000, 4.0);
/// let (json, drawn) = timeline.finish()?;
/// assert_eq!(drawn.events, 2);
/// assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline<W: Write> {
    sink: W,
    most: u64,
    drawn: Drawn,
    /// Names of processes, and how many tracks each has.
    processes: Vec<(String, u32)>,
    is_empty: bool,
    /// Kept until the end: whoever draws does not look at each event.
    error: Option<io::ErrorKind>,
}

impl<W: Write> Timeline<W> {
    /// Begins one of at most so many events.
    pub fn new(sink: W, most: u64) -> Timeline<W> {
        let (drawn, processes) = (Drawn::default(), Vec::new());
        Timeline { sink, most, drawn, processes, is_empty: true, error: None }
    }

    /// A new track, below those that its process has.
    pub fn track(&mut self, process: &str, name: &str) -> Track {
        let known = self.processes.iter().position(|(known, _)| known == process);
        let place = known.unwrap_or_else(|| {
            self.processes.push((process.to_owned(), 0));
            let id = self.processes.len();
            self.write(&format!(
                r#"{{"ph":"M","name":"process_name","pid":{id},"args":{{"name":{}}}}}"#,
                quoted(process)
            ));
            id - 1
        });
        self.processes[place].1 += 1;
        let track = Track { process: place as u32 + 1, thread: self.processes[place].1 };
        let Track { process, thread } = track;
        let name = quoted(name);
        self.write(&format!(
            r#"{{"ph":"M","name":"thread_name","pid":{process},"tid":{thread},"args":{{"name":{name}}}}}"#
        ));
        self.write(&format!(
            r#"{{"ph":"M","name":"thread_sort_index","pid":{process},"tid":{thread},"args":{{"sort_index":{thread}}}}}"#
        ));
        track
    }

    /// Something that lasted, with numbers that say more of it. Those of a track do not overlap.
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        from_ps: Picos,
        until_ps: Picos,
        details: &[(&str, f64)],
    ) {
        let span = until_ps.saturating_sub(from_ps);
        self.event(from_ps, |at| {
            let Track { process, thread } = track;
            let (span, name) = (micros(span), quoted(name));
            let details: Vec<String> =
                details.iter().map(|(key, value)| format!("{}:{}", quoted(key), number(*value))).collect();
            let args = details.join(",");
            format!(
                r#"{{"ph":"X","pid":{process},"tid":{thread},"ts":{at},"dur":{span},"name":{name},"args":{{{args}}}}}"#
            )
        });
    }

    /// Something that happened at once.
    pub fn instant(&mut self, track: Track, name: &str, at_ps: Picos) {
        self.event(at_ps, |at| {
            let (Track { process, thread }, name) = (track, quoted(name));
            format!(
                r#"{{"ph":"i","s":"t","pid":{process},"tid":{thread},"ts":{at},"name":{name}}}"#
            )
        });
    }

    /// What a number of the track's process is from now on. Each name is a curve.
    pub fn counter(&mut self, track: Track, name: &str, at_ps: Picos, value: f64) {
        self.event(at_ps, |at| {
            let (Track { process, .. }, name) = (track, quoted(name));
            let value = number(value);
            format!(
                r#"{{"ph":"C","pid":{process},"ts":{at},"name":{name},"args":{{"value":{value}}}}}"#
            )
        });
    }

    /// Whether nothing more will be taken.
    pub fn is_full(&self) -> bool {
        self.drawn.events >= self.most
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What the sink refused first.
    pub fn finish(mut self) -> io::Result<(W, Drawn)> {
        let Drawn { events, left_out, cut_ps } = self.drawn;
        let cut = cut_ps.map(micros);
        if let Some(at) = &cut {
            let name = quoted(&format!("cut here: {left_out} more events are left out"));
            self.write(&format!(r#"{{"ph":"i","s":"g","pid":1,"tid":1,"ts":{at},"name":{name}}}"#));
        }
        let start = if self.is_empty { "{\"traceEvents\":[" } else { "" };
        let cut = cut.map_or(String::new(), |at| format!(r#","cut_at_us":{at}"#));
        let end = format!(
            "{start}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"events\":{events},\"left_out\":{left_out}{cut}}}}}\n"
        );
        self.put(end.as_bytes());
        self.error.map_or(Ok(()), |kind| Err(io::Error::from(kind)))?;
        self.sink.flush()?;
        Ok((self.sink, self.drawn))
    }

    fn event(&mut self, at_ps: Picos, text: impl FnOnce(&str) -> String) {
        if self.is_full() {
            self.drawn.left_out += 1;
            self.drawn.cut_ps.get_or_insert(at_ps);
            return;
        }
        self.drawn.events += 1;
        self.write(&text(&micros(at_ps)));
    }

    fn write(&mut self, event: &str) {
        let start: &[u8] = if self.is_empty { b"{\"traceEvents\":[\n" } else { b",\n" };
        self.is_empty = false;
        self.put(start);
        self.put(event.as_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.sink.write_all(bytes).err().map(|error| error.kind());
        }
    }
}

/// The format's microseconds, to the picosecond.
fn micros(picos: Picos) -> String {
    let (whole, part) = (picos / 1_000_000, picos % 1_000_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:06}").trim_end_matches('0').to_owned()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// JSON has no infinity.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "null".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn read(timeline: Timeline<Vec<u8>>) -> (Value, Drawn) {
        let (json, drawn) = timeline.finish().expect("memory");
        (serde_json::from_slice(&json).expect("JSON"), drawn)
    }

    #[test]
    fn every_kind_of_event_is_as_the_format_says() {
        let mut timeline = Timeline::new(Vec::new(), 10);
        let core = timeline.track("a \"router\"", "core 0");
        let other = timeline.track("a \"router\"", "core 1");
        assert_eq!((core.process, core.thread, other.process, other.thread), (1, 1, 1, 2));
        timeline.slice(core, "work", 1_500_000, 2_000_001, &[("packets", 3.0), ("odd", f64::NAN)]);
        timeline.instant(other, "woken", 7);
        timeline.counter(core, "queue", 2_000_000, 2.5);
        let (json, drawn) = read(timeline);
        let events = json["traceEvents"].as_array().expect("a list");
        assert_eq!(events[0]["args"]["name"], "a \"router\"");
        let slice = &events[5];
        assert_eq!((&slice["ts"], &slice["dur"]), (&1.5.into(), &0.500_001.into()));
        assert_eq!((&slice["args"]["packets"], &slice["args"]["odd"]), (&3.into(), &Value::Null));
        assert_eq!((&events[6]["ph"], &events[6]["ts"]), (&"i".into(), &0.000_007.into()));
        assert_eq!((&events[7]["ph"], &events[7]["args"]["value"]), (&"C".into(), &2.5.into()));
        assert_eq!(drawn, Drawn { events: 3, left_out: 0, cut_ps: None });
    }

    #[test]
    fn the_cut_is_said_in_the_file() {
        let mut timeline = Timeline::new(Vec::new(), 2);
        let track = timeline.track("p", "t");
        (0..5).for_each(|turn| timeline.counter(track, "n", turn * 1_000_000, 1.0));
        let (json, drawn) = read(timeline);
        assert_eq!(drawn, Drawn { events: 2, left_out: 3, cut_ps: Some(2_000_000) });
        assert_eq!(
            (&json["otherData"]["left_out"], &json["otherData"]["cut_at_us"]),
            (&3.into(), &2.into())
        );
        let last =
            json["traceEvents"].as_array().and_then(|events| events.last()).expect("an event");
        assert!(last["name"].as_str().is_some_and(|name| name.contains("3 more events")));
        assert!(drawn.words().contains("3 later ones"));
    }

    #[test]
    fn nothing_at_all_is_a_timeline_too() {
        let (json, _) = read(Timeline::new(Vec::new(), 2));
        assert_eq!(json["traceEvents"], Value::Array(Vec::new()));
    }

    #[test]
    fn a_sink_that_refuses_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut timeline = Timeline::new(Full, 2);
        timeline.track("p", "t");
        assert_eq!(
            timeline.finish().err().map(|error| error.kind()),
            Some(io::ErrorKind::StorageFull)
        );
    }
}
