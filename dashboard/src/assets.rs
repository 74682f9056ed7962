//! The page and all that it consists of, embedded in the program.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../static/", $name)))),*]
    };
}

static FILES: &[(&str, &[u8])] = embedded![
    "index.html",
    "app.css",
    "app.js",
    "api.js",
    "compare.js",
    "format.js",
    "fleet.js",
    "jobs.js",
    "live.js",
    "panels.js",
    "parts.js",
    "plot.js",
    "published.js",
    "runs.js",
    "form.js",
    "studies.js",
    "icon.svg",
    "vendor/hooks.mjs",
    "vendor/htm.LICENSE",
    "vendor/htm.mjs",
    "vendor/preact.LICENSE",
    "vendor/preact.mjs",
    "vendor/uPlot.LICENSE",
    "vendor/uPlot.esm.js",
    "vendor/uPlot.min.css",
];

/// The SHA-256 digest of the one script that stands in the page itself: the map of names of modules.
pub(crate) const IMPORT_MAP_DIGEST: &str = "sha256-NYY0njUX7R8+p3IUqmrof1feCDkUwkVW9EtyHsTogEA=";

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// The page.
pub(crate) async fn page() -> Response {
    file("index.html")
}

/// A file of the page.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    file(&name)
}

fn file(name: &str) -> Response {
    match FILES.iter().find(|(known, _)| *known == name) {
        // Asked for again at each visit: another version of the program has other files by the same names.
        Some((_, bytes)) => {
            ([(CONTENT_TYPE, kind(name)), (CACHE_CONTROL, "no-cache")], *bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn below(place: &Path, at: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(place).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{at}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                below(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }

    /// What is vendored has its licence beside it, and nothing is asked of another machine.
    #[test]
    fn everything_is_embedded_and_nothing_comes_from_elsewhere() {
        let mut there = Vec::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("static"), "", &mut there);
        let mut embedded: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        there.sort_unstable();
        embedded.sort_unstable();
        assert_eq!(there, embedded);
        for (name, bytes) in FILES.iter().filter(|(name, _)| !name.starts_with("vendor/")) {
            let text = std::str::from_utf8(bytes).expect("text");
            // The namespace of SVG is a name, not an address.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
        }
    }
}
