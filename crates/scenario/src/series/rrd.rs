//! What `rrdtool dump` writes: data sources and archives of them, each of other steps. A series is a data
//! source, with the archives' function where that is not the average, such as `traffic_in.MAX`. Of its
//! archives the one with the shortest steps is read.

use roxmltree::{Document, Node};

use super::even::Rows;
use super::{Ask, Series, choose, fault};
use crate::ScenarioError;

pub(super) fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    let wrong =
        |message: String| fault(ask.file, None, message, "use the file that rrdtool dump wrote");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))?;
    // The name of the document's type is in a comment's place and of no use.
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        fault(ask.file, Some(error.pos().row as usize), format!("is not XML: {error}"), "")
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "rrd" {
        let message = format!("is XML with the root `{}`", root.tag_name().name());
        return Err(fault(ask.file, None, message, "expected `rrd`, as rrdtool dump writes it"));
    }
    let number = |of: Node<'_, '_>, tag: &str| -> Result<f64, ScenarioError> {
        let text = text_of(of, tag);
        text.parse().map_err(|_| wrong(format!("`{tag}` is `{text}`, which is not a number")))
    };
    let (step, updated) = (number(root, "step")?, number(root, "lastupdate")?);
    let sources: Vec<&str> = named(root, "ds").map(|source| text_of(source, "name")).collect();
    let mut archives = Vec::new();
    for archive in named(root, "rra") {
        archives.push((text_of(archive, "cf"), number(archive, "pdp_per_row")?, archive));
    }
    let mut functions: Vec<&str> = archives.iter().map(|archive| archive.0).collect();
    functions.sort_unstable();
    functions.dedup();
    // Averages first, under the source's own name.
    let mut names: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
    let with =
        |function: &&str| sources.iter().map(|source| format!("{source}.{function}")).collect();
    let more: Vec<Vec<String>> = functions.iter().map(with).collect();
    names.extend(more.concat());
    if ask.value.is_none() {
        names.truncate(sources.len());
    }
    let chosen = choose(ask, &names)?;
    let source = chosen % sources.len();
    let function = match chosen / sources.len() {
        0 => "AVERAGE",
        place => functions[place - 1],
    };
    let finest = archives.iter().filter(|(cf, ..)| *cf == function);
    let finest = finest.min_by(|one, two| one.1.total_cmp(&two.1)).ok_or_else(|| {
        let remedy = format!("set `value` to one of: {}", functions.join(", "));
        fault(ask.file, None, format!("has no archive of {function}"), remedy)
    })?;
    let length = step * finest.1;
    let mut values = Vec::new();
    for row in named(finest.2, "database").flat_map(|database| named(database, "row")) {
        let value = named(row, "v").nth(source).and_then(|value| value.text()).unwrap_or("").trim();
        let value: f64 = value.parse().map_err(|_| wrong(format!("`{value}` is not a value")))?;
        if value < 0.0 || value.is_infinite() {
            return Err(wrong(format!("{value} is not a rate")));
        }
        values.push((!value.is_nan()).then_some(value));
    }
    // A row is called by its end; the last is the last that was over (rrddump(1)).
    let end = (updated / length).floor() * length;
    let count = values.len();
    let times = (0..count).map(|row| end - (count - row) as f64 * length).collect();
    let notes = vec![format!("the series is {}, {function} of {length} s", sources[source])];
    let fault = |row: usize, message: &str, remedy: &str| {
        fault(ask.file, None, format!("row {} of {function}: {message}", row + 1), remedy)
    };
    Rows { times, values, certain: true, fault: &fault }.even(None, notes)
}

fn named<'a, 'b>(of: Node<'a, 'b>, tag: &'static str) -> impl Iterator<Item = Node<'a, 'b>> {
    of.children().filter(move |child| child.tag_name().name() == tag)
}

fn text_of<'a>(of: Node<'a, '_>, tag: &str) -> &'a str {
    let child = of.children().find(|child| child.tag_name().name() == tag);
    child.and_then(|child| child.text()).unwrap_or("").trim()
}
