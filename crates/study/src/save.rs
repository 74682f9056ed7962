//! What a run leaves in its directory: the report, its tables, and what to repeat it with.

use std::path::Path;

use ebb_report::{Report, Section, Table, write_file};
use ebb_scenario::Setting;

use crate::StudyError;
use crate::job::Job;
use crate::repeat::Repeat;

/// Report, tables and what to repeat the run with.
pub(crate) fn save(report: &Report, place: &Path, job: &Job<'_>) -> Result<(), StudyError> {
    report.save(place)?;
    for (name, table) in tables(report) {
        #[cfg(feature = "parquet")]
        write_file(
            &place.join(format!("{name}.parquet")),
            &table.to_parquet().map_err(|error| {
                StudyError::failed(format!("table `{}` as Parquet: {error}", table.title))
            })?,
        )?;
        write_file(&place.join(name + ".csv"), table.to_csv().as_bytes())?;
    }
    let mut fixed = job.sweep.fixed();
    if let (false, Ok(seed)) = (fixed.is_empty(), i64::try_from(job.seed)) {
        // The text with its `seed` gives way to the values, which the document has without it.
        fixed.push(Setting::new("seed", seed));
    }
    let scenario = job.document.with(&fixed)?.to_toml();
    write_file(&place.join("scenario.toml"), scenario.as_bytes())?;
    let run = serde_json::json!({
        "command": format!("ebb {}", job.study.name()),
        "seed": job.seed,
        "seeds": job.repeat.and_then(Repeat::asked),
        "until": job.repeat.and_then(Repeat::until).map(ToString::to_string),
        "set": job.sweep.written(),
        "revision": job.program.revision,
        "version": job.program.version,
    });
    write_file(&place.join("run.json"), (run.to_string() + "\n").as_bytes())?;
    Ok(())
}

/// The tables of a report that become files, each with its file's name without extension.
pub fn tables(report: &Report) -> Vec<(String, &Table)> {
    let shown = report.sections.iter().filter_map(|section| match section {
        Section::Table(table) if !table.rows.is_empty() => Some(table),
        _ => None,
    });
    let mut names = std::collections::BTreeSet::new();
    let named = report.attachments.iter().chain(shown).enumerate().map(|(index, table)| {
        let mut name = file_name(&table.title).unwrap_or_else(|| format!("table-{}", index + 1));
        if !names.insert(name.clone()) {
            name += &format!("-{}", index + 1);
        }
        (name, table)
    });
    named.collect()
}

/// Lower case words with dashes between.
fn file_name(title: &str) -> Option<String> {
    let lower = title.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_file_names() {
        assert_eq!(
            file_name("Watts by component (mean)").as_deref(),
            Some("watts-by-component-mean")
        );
        assert_eq!(file_name("–"), None);
    }
}
