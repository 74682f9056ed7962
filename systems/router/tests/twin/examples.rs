//! The scenarios in `examples/` run.

use std::path::Path;

use ebb_scenario::{Document, FileError, Files, Setting, Silent};

/// The folder of the examples.
struct Folder(std::path::PathBuf);

impl Files for Folder {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        std::fs::read(self.0.join(name))
            .map_err(|error| FileError { name: name.to_owned(), message: error.to_string() })
    }
}

#[test]
fn every_example_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("examples")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("router-") && name.ends_with(".toml"))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    let files = Folder(folder.clone());
    for name in names {
        let text = std::fs::read_to_string(folder.join(&name)).expect("readable");
        let short =
            ["duration_s=0.05", "warmup_s=0"].map(|set| Setting::parse(set).expect("a setting"));
        let document = Document::parse(&name, &text).expect("TOML").with(&short).expect("settable");
        let report = ebb_system_router::simulate(&document, &files, 1, &Silent);
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(report.figures["power_w"].as_f64() > Some(115.0), "{name}");
    }
}

#[test]
fn powersave_saves_on_the_traffic_of_the_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = std::fs::read_to_string(folder.join("router-my-traffic.toml")).expect("readable");
    let document = Document::parse("router-my-traffic.toml", &text).expect("TOML");
    let joules = |policy: &str| {
        let settings = [format!("policy.name={policy}"), "traffic.compress=1440".to_owned()];
        let settings = settings.map(|set| Setting::parse(&set).expect("a setting"));
        let document = document.with(&settings).expect("settable");
        let files = Folder(folder.clone());
        let report = ebb_system_router::simulate(&document, &files, 1, &Silent).expect("runs");
        assert_eq!(report.figures["lost"], 0, "{policy}");
        report.figures["energy_j"].as_f64().expect("a number")
    };
    let (poll, napi, powersave) = (joules("poll"), joules("napi"), joules("powersave"));
    assert!(powersave < napi && napi < poll, "{powersave} {napi} {poll}");
}
