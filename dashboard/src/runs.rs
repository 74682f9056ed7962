//! Directories of finished runs: which there are, their reports, the points of their sweeps, their files.
//!
//! A run is named by where it was found. Names that come from a browser are looked up among those that were found and
//! never become paths, so that nothing else is read.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ebb_study::Finished;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal, aside};
use crate::shared::Shared;

/// How deep below a directory runs are looked for.
const DEPTH_MAX: usize = 4;
/// Runs that are listed, and entries of directories that are looked at for them.
const RUNS_MAX: usize = 2000;
const LOOKED_AT_MAX: usize = 100_000;
/// Finished points of a sweep that are shown.
const POINTS_MAX: usize = 100_000;
/// Points of a series, at most and where nothing is asked.
const SHOWN_MAX: usize = 20_000;
const SHOWN: usize = 2000;
/// Longest file that is handed out.
const FILE_LEN_MAX: u64 = 512 << 20;

/// A run by where it is.
struct Found {
    id: String,
    place: PathBuf,
}

/// All runs below these directories, which may be runs themselves.
fn find(roots: &[PathBuf]) -> Vec<Found> {
    let (mut found, mut left) = (Vec::new(), LOOKED_AT_MAX);
    for (index, root) in roots.iter().enumerate() {
        look(root, &index.to_string(), DEPTH_MAX, &mut left, &mut found);
    }
    found
}

/// Links are not followed: they lead elsewhere.
fn look(place: &Path, id: &str, depth: usize, left: &mut usize, found: &mut Vec<Found>) {
    if is_file(&place.join("report.json")) || is_file(&place.join("points.jsonl")) {
        found.push(Found { id: id.to_owned(), place: place.to_owned() });
    }
    let Ok(entries) = fs::read_dir(place) else { return };
    let mut folders = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        if *left == 0 || found.len() >= RUNS_MAX {
            return;
        }
        *left -= 1;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.file_name());
        }
    }
    folders.sort();
    for name in folders.iter().filter_map(|name| name.to_str()).filter(|_| depth > 0) {
        if !name.starts_with('.') && name != "target" && name != "node_modules" {
            look(&place.join(name), &format!("{id}/{name}"), depth - 1, left, found);
        }
    }
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

/// The directory of a run that was found.
pub(crate) fn place(roots: &[PathBuf], id: &str) -> Result<PathBuf, Refusal> {
    let found = find(roots).into_iter().find(|found| found.id == id);
    found
        .map(|found| found.place)
        .ok_or_else(|| Refusal::unknown(format!("there is no run `{id}`")))
}

/// What a file of JSON says; null where there is none.
pub(crate) fn json_of(path: &Path) -> Value {
    let text = if is_file(path) { fs::read(path).ok() } else { None };
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// The title is in the report's second line, before series that may be long.
fn title_of(report: &Path) -> Option<String> {
    if !is_file(report) {
        return None;
    }
    let lines = BufReader::new(std::io::Read::take(fs::File::open(report).ok()?, 4096)).lines();
    let line = lines.map_while(Result::ok).nth(1)?;
    let text = line.trim().strip_prefix("\"title\":")?.trim().trim_end_matches(',');
    serde_json::from_str(text).ok()
}

fn about(found: &Found) -> Value {
    let changed =
        |name: &str| fs::metadata(found.place.join(name)).and_then(|about| about.modified());
    let changed = changed("report.json").or_else(|_| changed("points.jsonl")).ok();
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    let run = json_of(&found.place.join("run.json"));
    json!({
        "id": found.id,
        "place": found.place,
        "title": title_of(&found.place.join("report.json")),
        "changed": changed.and_then(since).map(|time| time.as_secs()),
        "command": run["command"],
        "seed": run["seed"],
        "seeds": run["seeds"],
        "set": run["set"],
        "revision": run["revision"],
        "version": run["version"],
        "points": is_file(&found.place.join("points.jsonl")),
        "claims": is_file(&found.place.join("claims.json")),
        "report": is_file(&found.place.join("report.json")),
    })
}

/// All runs, the newest first.
pub(crate) async fn list(State(shared): State<Arc<Shared>>) -> Answer<Value> {
    let all = aside(move || {
        let mut runs: Vec<Value> = find(&shared.runs).iter().map(about).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run["changed"].as_u64()));
        Ok(json!({ "directories": shared.runs, "full": runs.len() >= RUNS_MAX, "runs": runs }))
    });
    Ok(axum::Json(all.await?))
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    run: String,
    points: Option<usize>,
}

/// A run with its report.
pub(crate) async fn report(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
) -> Answer<Value> {
    let read = aside(move || {
        let place = place(&shared.runs, &asked.run)?;
        let mut whole = about(&Found { id: asked.run, place: place.clone() });
        whole["files"] = files(&place).into();
        whole["scenario"] = fs::read_to_string(place.join("scenario.toml")).ok().into();
        if whole["report"] == true {
            let saved = shared.shelf.read(&place.join("report.json")).map_err(Refusal::failed)?;
            let shown = saved.shown(asked.points.unwrap_or(SHOWN).clamp(2, SHOWN_MAX));
            (whole["title"], whole["figures"], whole["sections"]) =
                (shown["title"].clone(), shown["figures"].clone(), shown["sections"].clone());
        }
        Ok(whole)
    });
    Ok(axum::Json(read.await?))
}

#[derive(Deserialize)]
pub(crate) struct Zoomed {
    run: String,
    section: usize,
    from: f64,
    to: f64,
    points: Option<usize>,
}

/// A part of a plot.
pub(crate) async fn plot(
    State(shared): State<Arc<Shared>>,
    Query(zoomed): Query<Zoomed>,
) -> Answer<crate::plots::Plot> {
    let read = aside(move || {
        let path = place(&shared.runs, &zoomed.run)?.join("report.json");
        let saved = shared.shelf.read(&path).map_err(Refusal::failed)?;
        let plot = saved.plot(zoomed.section);
        let plot = plot.ok_or_else(|| Refusal::unknown("there is no such plot in the report"))?;
        let most = zoomed.points.unwrap_or(SHOWN).clamp(2, SHOWN_MAX);
        Ok(plot.window(zoomed.from, zoomed.to, most))
    });
    Ok(axum::Json(read.await?))
}

/// The finished points of a sweep.
pub(crate) async fn points(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
) -> Answer<Value> {
    let read = aside(move || {
        let path = place(&shared.runs, &asked.run)?.join("points.jsonl");
        let file = fs::File::open(&path);
        let file = file.map_err(|_| Refusal::unknown("the run kept no points: it is no sweep"))?;
        let (mut columns, mut rows, mut more) = (Vec::<(String, String)>::new(), Vec::new(), false);
        for line in BufReader::new(file).lines() {
            let line = line.map_err(Refusal::failed)?;
            // The last line of a run that was killed, or that is being written.
            let Ok(run) = serde_json::from_str::<Finished>(&line) else { continue };
            if rows.len() == POINTS_MAX {
                more = true;
                break;
            }
            for column in run.columns {
                if !columns.iter().any(|(name, _)| *name == column.0) {
                    columns.push(column);
                }
            }
            let set: serde_json::Map<String, Value> =
                run.set.into_iter().filter(|(_, value)| !value.is_object()).collect();
            rows.push(json!({ "seed": run.seed, "set": set, "figures": run.figures }));
        }
        Ok(json!({ "columns": columns, "rows": rows, "more": more }))
    });
    Ok(axum::Json(read.await?))
}

/// Names of the files of a run that are handed out.
fn files(place: &Path) -> Vec<String> {
    let ends = [".csv", ".parquet", ".json", ".jsonl", ".toml", ".html"];
    let entries = fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
    let plain = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = plain.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| ends.iter().any(|end| name.ends_with(end))).collect();
    names.sort();
    names.truncate(200);
    names
}

#[derive(Deserialize)]
pub(crate) struct Named {
    run: String,
    name: String,
}

/// A file of a run, to be saved: never shown as a page of the dashboard.
pub(crate) async fn file(
    State(shared): State<Arc<Shared>>,
    Query(named): Query<Named>,
) -> Result<Response, Refusal> {
    let name = named.name.clone();
    let bytes = aside(move || {
        let place = place(&shared.runs, &named.run)?;
        if !files(&place).contains(&named.name) {
            return Err(Refusal::unknown(format!("the run has no file `{}`", named.name)));
        }
        let path = place.join(&named.name);
        if fs::metadata(&path).map_err(Refusal::failed)?.len() > FILE_LEN_MAX {
            return Err(Refusal::wrong(format!("{} is too long: copy it", path.display())));
        }
        fs::read(&path).map_err(Refusal::failed)
    });
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(safe).collect();
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, bytes.await?).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_never_become_paths() {
        let place_ = tempfile::tempdir().expect("a directory");
        let root = place_.path().join("runs");
        fs::create_dir_all(root.join("a/b")).expect("a directory");
        fs::write(root.join("a/b/report.json"), "{\n  \"title\": \"A \\\"b\\\"\",\n}")
            .expect("a file");
        fs::write(root.join("a/b/t.csv"), "x").expect("a file");
        fs::write(place_.path().join("report.json"), "{}").expect("a file");
        std::os::unix::fs::symlink("/etc", root.join("a/etc")).expect("a link");
        std::os::unix::fs::symlink("/etc/passwd", root.join("a/b/passwd.csv")).expect("a link");
        let roots = [root.clone()];
        let ids: Vec<String> = find(&roots).into_iter().map(|found| found.id).collect();
        assert_eq!(ids, ["0/a/b"]);
        for id in ["0/..", "0/a/etc", "..", "/etc", "0/a/b/..", ""] {
            assert!(place(&roots, id).is_err(), "{id}");
        }
        assert_eq!(files(&root.join("a/b")), ["report.json", "t.csv"]);
        assert_eq!(title_of(&root.join("a/b/report.json")).as_deref(), Some("A \"b\""));
    }
}
