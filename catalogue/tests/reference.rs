//! The reference pages are what the declarations say.

use std::path::Path;

#[test]
fn reference_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let mut pages = 0;
    for study in ebb_catalogue::STUDIES {
        let Some(page) = study.reference() else { continue };
        let (kind, system) = (study.kind().name(), study.system);
        let name = format!("{kind}-{system}.md");
        let kept = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        let again = format!("ebb schema {system} --of {kind} --reference >docs/reference/{name}");
        assert!(kept == page, "docs/reference/{name} is out of date: {again}");
        pages += 1;
    }
    let files = std::fs::read_dir(&folder).expect("docs/reference");
    let files = files.map(|file| file.expect("a page").file_name().to_string_lossy().into_owned());
    // Daemons' are compared by the tests of the command.
    let files = files.filter(|name| !name.starts_with("daemon-")).count();
    assert_eq!(files, pages, "a page without a study in docs/reference");
}

/// What is declared is what is read: every default is in its range, every flag leads to a setting.
#[test]
fn declarations_hold_together() {
    for study in ebb_catalogue::STUDIES {
        for flag in study.named_settings() {
            let (_, about) = flag.declared(study);
            assert!(
                !about.is_empty() && !about.ends_with('.'),
                "{}: --{}",
                study.name(),
                flag.name
            );
        }
        let Some(schema) = study.json_schema() else { continue };
        described(&study.name(), &schema);
    }
}

fn described(path: &str, schema: &serde_json::Value) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}: {name}");
        assert!(field["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
        if let (Some(default), Some(least)) = (field["default"].as_f64(), field["minimum"].as_f64())
        {
            assert!(default >= least, "{path}");
        }
        if let (Some(default), Some(most)) = (field["default"].as_f64(), field["maximum"].as_f64())
        {
            assert!(default <= most, "{path}");
        }
        described(&path, field);
    }
}
