//! Examples as a start for forms: command lines at the heads of the files in examples/.

use ebb_study::Study;
use serde_json::{Value, json};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../examples/", $name)))),*]
    };
}

static EXAMPLES: &[(&str, &str)] = embedded![
    "circuit-plan.toml",
    "circuit-sim.toml",
    "cluster-outlook.toml",
    "cluster-placement.toml",
    "cluster-plan-run.toml",
    "cluster-plan.toml",
    "cluster-run.toml",
    "cluster-sim.toml",
    "coreswitch-measured.toml",
    "coreswitch-web.toml",
    "fabric-collective.toml",
    "fabric-deadlock.toml",
    "fabric-plan.toml",
    "fabric-regulator.toml",
    "fabric-torus.toml",
    "gating-plan.toml",
    "gating-profile.toml",
    "gating-stream.toml",
    "noc-hotspot.toml",
    "noc-planes.toml",
    "noc-removed-link.toml",
    "noc-sim-booksim.toml",
    "noc-sim-butterfly.toml",
    "noc-sim-control.toml",
    "noc-sim-dvfs.toml",
    "noc-sim-planned.toml",
    "noc-sim-planes.toml",
    "noc-sim-requests.toml",
    "noc-sim-uniform.toml",
    "router-applications.toml",
    "router-bursts.toml",
    "router-clocks.toml",
    "router-day.toml",
    "router-my-traffic.toml",
    "router-second.toml",
];

/// Files that examples name.
static DATA: &[&str] = &[
    "circuit-demand.csv",
    "cluster-catalogue.csv",
    "cluster-demand-flat.csv",
    "cluster-demand.csv",
    "cluster-packets.csv",
    "cluster-servers.csv",
    "cluster-site.toml",
    "cluster-tariff.csv",
    "my-traffic.csv",
    "noc-plan.json",
    "switch-measured.json",
];

/// A command line at the head of an example, as what a form asks for.
#[derive(Debug, Default, PartialEq)]
struct Line<'a> {
    /// Settings on top.
    set: Vec<&'a str>,
    seeds: Option<&'a str>,
    until: Option<&'a str>,
}

/// Reads what stands behind the file's name; nothing where it asks for what forms do not have.
fn line(words: &str) -> Option<Line<'_>> {
    // Behind more than a space stands what the line is for.
    let words = words.split("  ").next().unwrap_or_default();
    let mut line = Line::default();
    let mut rest = words.split_whitespace();
    while let Some(flag) = rest.next() {
        let value = rest.next()?.trim_matches('\'');
        match flag {
            "--set" => line.set.push(value),
            "--seeds" => line.seeds = Some(value),
            "--until" => line.until = Some(value),
            _ => return None,
        }
    }
    Some(line)
}

/// What an example is: the first sentence at its head that is no command.
fn title(text: &str) -> String {
    let heads = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let words = heads.skip_while(|head| head.starts_with("ebb "));
    let words: Vec<&str> = words.take_while(|head| !head.starts_with("ebb ")).collect();
    let words = words.join(" ");
    let is_end = |&(at, _): &(usize, &str)| {
        words[at + 2..].starts_with(|letter: char| letter.is_uppercase() || letter == '`')
    };
    let end = words.match_indices(". ").find(is_end).map_or(words.len(), |(at, _)| at);
    words[..end].trim_end_matches(['.', ':']).to_owned()
}

/// All that a study's examples offer, each with its values as JSON, for a form, and as text.
pub(crate) fn of(study: &Study) -> Vec<Value> {
    let mut found = Vec::new();
    for (name, text) in EXAMPLES {
        let start = format!("ebb {} {} examples/{name}", study.kind().name(), study.system);
        let heads = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let lines = heads.filter_map(|head| line(head.strip_prefix(start.as_str())?));
        let Ok(table) = toml::from_str::<toml::Table>(text) else { continue };
        let needs: Vec<&str> = DATA.iter().copied().filter(|name| text.contains(name)).collect();
        let mut lines: Vec<Line<'_>> = lines.collect();
        // The file alone is a start, too, wherever a line of it is for this study.
        if !lines.is_empty() && !lines.contains(&Line::default()) {
            lines.insert(0, Line::default());
        }
        for line in lines {
            found.push(json!({
                "name": name.trim_end_matches(".toml"),
                "title": title(text),
                "set": line.set,
                "seeds": line.seeds,
                "until": line.until,
                "needs": needs,
                "text": text,
                "values": table,
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::offered;
    use ebb_scenario::{Document, Setting};

    #[test]
    fn all_examples_are_embedded_and_offered_by_the_study_that_they_are_for() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
        let mut there: Vec<String> = std::fs::read_dir(place)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        there.sort_unstable();
        let mut known: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        known.extend(DATA);
        known.sort_unstable();
        assert_eq!(there, known);
        let all: Vec<Value> = offered().flat_map(of).collect();
        for (name, _) in EXAMPLES.iter().filter(|(name, _)| *name != "cluster-run.toml") {
            let name = name.trim_end_matches(".toml");
            let preset = all.iter().find(|preset| preset["name"] == name);
            assert!(
                preset.is_some_and(|preset| preset["title"] != ""),
                "{name} is offered nowhere"
            );
        }
    }

    /// What is chosen can be run: its settings are settings of the study.
    #[test]
    fn what_is_offered_is_a_scenario_of_its_study() {
        for study in offered() {
            let presets = of(study);
            assert!(!presets.is_empty(), "{} {} has no example", study.kind().name(), study.system);
            for preset in presets {
                let text = preset["text"].as_str().expect("a text");
                let document = Document::parse("e", text).expect("TOML");
                for set in preset["set"].as_array().expect("settings") {
                    let set = set.as_str().expect("a setting");
                    let (path, value) = set.split_once('=').expect("a setting and its value");
                    let first = value.split(',').next().unwrap_or_default();
                    let setting = Setting::parse(&format!("{path}={first}"));
                    assert!(setting.is_ok_and(|one| document.with(&[one]).is_ok()), "{set}");
                }
            }
        }
    }

    #[test]
    fn a_line_is_read_as_a_form_has_it() {
        let read = line(" --set load=0.1,0.2 --set 'schemes=[\"st\"]' --seeds 5     for curves");
        let set = vec!["load=0.1,0.2", "schemes=[\"st\"]"];
        assert_eq!(read, Some(Line { set, seeds: Some("5"), until: None }));
        assert_eq!(line(""), Some(Line::default()));
        assert_eq!(line(" --saturation load=0.1..0.9"), None);
    }
}
