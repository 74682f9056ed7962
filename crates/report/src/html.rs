use core::fmt::Write;

use crate::{Report, Section, Table, svg};

pub(crate) fn render(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!("<!doctype html>\n<title>{title}</title><h1>{title}</h1>\n");
    for section in &report.sections {
        match section {
            Section::Heading(text) => {
                let _ = writeln!(out, "<h2>{}</h2>", escape(text));
            }
            Section::Text(text) => {
                let _ = writeln!(out, "<p>{}</p>", escape(text));
            }
            Section::Table(t) => table(t, &mut out),
            Section::Plot(plot) => out.push_str(&svg::standalone(plot)),
        }
    }
    out
}

fn table(_table: &Table, _out: &mut String) {}

/// Text that means itself in HTML and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() && char != '\n' => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}
