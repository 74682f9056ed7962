//! What `sadf -j` writes: sysstat's records of a machine, one for every interval, with the interval's end.
//! A series is an interface's and a counter's name, such as `eth1.rxkB`.

use serde_json::Value;

use super::even::Rows;
use super::{Ask, Measure, Series, choose, fault, time};
use crate::ScenarioError;

/// Bytes of what sysstat calls kB (sar(1)).
const KB: f64 = 1024.0;
/// Counters of traffic, what they are and their factor.
const COUNTERS: [(&str, Measure, f64); 4] = [
    ("rxkB", Measure::BytesPerSecond, KB),
    ("txkB", Measure::BytesPerSecond, KB),
    ("rxpck", Measure::PacketsPerSecond, 1.0),
    ("txpck", Measure::PacketsPerSecond, 1.0),
];

pub(super) fn read(ask: &Ask<'_>, root: &Value) -> Result<Series, ScenarioError> {
    let hosts = root["sysstat"]["hosts"].as_array().map_or(&[][..], Vec::as_slice);
    let [host] = hosts else {
        let message = format!("has records of {} machines", hosts.len());
        return Err(fault(ask.file, None, message, "use the records of one machine"));
    };
    let records = host["statistics"].as_array().map_or(&[][..], Vec::as_slice);
    let devices = |record: &'_ Value| -> Vec<Value> {
        record["network"]["net-dev"].as_array().cloned().unwrap_or_default()
    };
    let mut names: Vec<String> = Vec::new();
    for device in records.iter().flat_map(devices) {
        let interface = device["iface"].as_str().unwrap_or("").to_owned();
        let counters = COUNTERS.iter().filter(|(name, ..)| device[*name].is_number());
        for name in counters.map(|(name, ..)| format!("{interface}.{name}")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        let remedy = "use sadf -j FILE -- -n DEV, which writes the counters of interfaces";
        return Err(fault(ask.file, None, "has no `net-dev`", remedy));
    }
    let chosen = &names[choose(ask, &names)?];
    let (interface, counter) = chosen.rsplit_once('.').expect("made of both");
    let (_, measure, factor) =
        COUNTERS.into_iter().find(|(name, ..)| *name == counter).expect("listed");
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for (place, record) in records.iter().enumerate() {
        let stamp = &record["timestamp"];
        let text = |key: &str| stamp[key].as_str().unwrap_or("");
        let date = format!("{} {}", text("date"), text("time"));
        times.push(time::of_date(&date).ok_or_else(|| {
            let message = format!("statistics[{place}].timestamp: `{date}` is not a time");
            fault(ask.file, None, message, "expected a date and a time, as sadf -j writes them")
        })?);
        let device = devices(record).into_iter().find(|device| device["iface"] == *interface);
        values.push(device.and_then(|device| device[counter].as_f64()).map(|value| value * factor));
    }
    let notes = vec![format!("the series is {chosen}")];
    let fault = |row: usize, message: &str, remedy: &str| {
        fault(ask.file, None, format!("statistics[{row}]: {message}"), remedy)
    };
    let certain = records.iter().all(|record| record["timestamp"]["utc"] == 1);
    Rows { times, values, certain, fault: &fault }.even(Some(measure), notes)
}
