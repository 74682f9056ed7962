//! Everything that can be simulated, planned and reproduced, a line for each.
//!
//! Room: the only crate that names all systems. Faces ask it what there is and know no system.

use ebb_report::Experiment;
use ebb_study::{Import, Kind, Study, StudyError, Work};

/// All studies, each kind in the order in which it is shown.
pub static STUDIES: &[&Study] = &[
    &ebb_system_router::studies::SIM,
    &ebb_system_noc::studies::SIM,
    &ebb_system_fabric::studies::SIM,
    &ebb_system_coreswitch::studies::SIM,
    &ebb_system_circuit::studies::SIM,
    &ebb_system_gating::studies::SIM,
    &ebb_system_cluster::studies::SIM,
    &ebb_system_router::studies::PLAN,
    &ebb_system_noc::studies::PLAN,
    &ebb_system_fabric::studies::PLAN,
    &ebb_system_coreswitch::studies::PLAN,
    &ebb_system_cluster::studies::PLAN,
    &ebb_system_circuit::studies::PLAN,
    &ebb_system_gating::studies::PLAN,
    &ebb_system_router::studies::REPRODUCE,
    &ebb_system_noc::studies::REPRODUCE,
    &ebb_system_fabric::studies::REPRODUCE,
    &ebb_system_coreswitch::studies::REPRODUCE,
    &ebb_system_cluster::studies::REPRODUCE,
    &ebb_system_circuit::studies::REPRODUCE,
    &ebb_system_gating::studies::REPRODUCE,
    &ebb_system_noc::studies::BOOKSIM,
    &ebb_system_noc::studies::NOXIM,
    &ebb_system_fabric::commands::CHECK,
    &ebb_system_fabric::commands::CHECK_TRANSITION,
    &ebb_system_fabric::commands::ROUTE,
    &ebb_system_fabric::commands::CONVERT,
];

/// The studies of a kind.
pub fn of(kind: Kind) -> impl Iterator<Item = &'static Study> {
    STUDIES.iter().copied().filter(move |study| study.kind() == kind)
}

/// The study of a kind and a system.
pub fn find(kind: Kind, system: &str) -> Option<&'static Study> {
    of(kind).find(|study| study.system == system)
}

/// All experiments.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    let all = of(Kind::Reproduce).map(|study| study.work);
    let all = all.filter_map(|work| if let Work::Reproduce(all) = work { Some(all) } else { None });
    all.flat_map(|experiments| experiments()).collect()
}

/// How another program's file, whose name ends so and which holds this text, becomes a scenario of a study.
pub fn import(study: &Study, extension: &str, text: &str) -> Option<Import> {
    let of_system = of(Kind::Import).filter(|import| import.system == study.system);
    let mut imports = of_system.filter_map(|import| match import.work {
        Work::Import(import) => Some(import),
        _ => None,
    });
    imports.find(|import| {
        let known = import.extension == extension || (import.recognises)(text);
        import.kind == study.kind() && known
    })
}

/// A scenario's text from the text of the file `name`, which another program may have written.
///
/// # Errors
/// When it is such a file and cannot be read as one.
pub fn scenario_text(study: &Study, name: &str, text: String) -> Result<String, StudyError> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let extension =
        file.rsplit_once('.').map_or("", |(stem, end)| if stem.is_empty() { "" } else { end });
    match import(study, extension, &text) {
        None => Ok(text),
        Some(import) => (import.read)(&text).map_err(|error| StudyError::in_file(name, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_study_and_no_flag_has_the_name_of_another() {
        // Imports of one system are told apart by their files.
        let name = |study: &&Study| match study.work {
            Work::Import(import) => format!("{} {}", study.name(), import.extension),
            _ => study.name(),
        };
        let names: BTreeSet<String> = STUDIES.iter().map(name).collect();
        assert_eq!(names.len(), STUDIES.len());
        for study in STUDIES {
            let flags: BTreeSet<&str> = study.named_settings().map(|flag| flag.name).collect();
            assert_eq!(flags.len(), study.named_settings().count(), "{}", study.name());
        }
    }

    #[test]
    fn what_has_a_scenario_has_examples() {
        for study in STUDIES.iter().filter(|study| study.has_scenario()) {
            assert!(!study.examples.is_empty(), "{} shows no example", study.name());
            assert!(!study.about.ends_with('.'), "{}: {}", study.name(), study.about);
        }
    }
}
