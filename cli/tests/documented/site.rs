//! The documentation as a site, as `make site` builds it: without a warning, and without a network to be read.

use std::path::Path;
use std::process::Command;

use crate::root;

const SPHINX: &str = "/usr/bin/sphinx-build";

fn page(site: &Path, name: &str) -> String {
    let path = site.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_site_builds_without_a_warning_and_needs_no_network() {
    let theme = Path::new("/usr/lib/python3/dist-packages/furo").exists();
    let markdown = Path::new("/usr/lib/python3/dist-packages/myst_parser").exists();
    if !(Path::new(SPHINX).exists() && theme && markdown) {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{SPHINX} is needed");
        eprintln!(
            "skipped: install python3-sphinx, python3-myst-parser and furo (make tools-site)"
        );
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let site = place.path().join("site");
    let built = Command::new(root().join("scripts/site")).arg(&site).output().expect("a script");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert!(page(&site, "index.html").contains("docs/index.html"));
    let front = page(&site, "docs/index.html");
    for word in ["By reader", "By kind", "readers/operator.html", "kinds/tutorials.html"] {
        assert!(front.contains(word), "{word}");
    }
    // The search reads an index of its own.
    let index = page(&site, "searchindex.js");
    assert!(index.contains("docs/first-day") && index.contains("grafana"), "the index of words");
    for name in ["docs/index.html", "docs/first-day.html", "search.html"] {
        let text = page(&site, name);
        for loaded in ["src=\"http", "src=\"//", "href=\"http"] {
            let style = text.split(loaded).nth(1).map(|rest| &rest[..rest.len().min(80)]);
            let linked = loaded.starts_with("href");
            assert!(linked || style.is_none(), "{name} loads {style:?}");
        }
        let styles = text.split("<link ").skip(1).filter_map(|rest| rest.split_once('>'));
        assert!(styles.clone().count() > 2, "{name} has no style");
        assert!(styles.into_iter().all(|(link, _)| !link.contains("://")), "{name} loads a style");
    }
    // A directory that a page links to has its files in the site.
    let benchmarks = page(&site, "docs/benchmarks.html");
    let run = benchmarks.split("href=\"../bench/runs/").nth(1).expect("a recorded run");
    let (name, _) = run.split_once('"').expect("a link");
    let listed = page(&site, &format!("bench/runs/{name}"));
    assert!(listed.contains("machine.json"), "{name}");
    let directory = site.join("bench/runs").join(name.trim_end_matches(".html"));
    assert!(directory.join("machine.json").exists());
}
