//! A report as a page of HTML.

use core::fmt::Write;

use crate::escape::escape;
use crate::style::{PAGE_RULES, picture_rules};
use crate::{Report, Section, Table, svg};

impl Report {
    /// As one page that loads nothing: styles and pictures are inside.
    pub fn to_html(&self) -> String {
        render(self)
    }
}

fn render(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\" class=\"ebb\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}{PAGE_RULES}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n",
        picture_rules()
    );
    for section in &report.sections {
        let _ = match section {
            Section::Heading(text) => writeln!(out, "<h2>{}</h2>", escape(text)),
            Section::Text(text) => writeln!(out, "<p>{}</p>", escape(text)),
            Section::Table(table) => {
                writeln!(out, "<figure class=\"t\" tabindex=\"0\">{}</figure>", self::table(table))
            }
            Section::Plot(plot) => writeln!(out, "<figure>\n{}</figure>", svg::inline(plot)),
            Section::Drawing { title, svg } => {
                writeln!(out, "<figure><figcaption>{}</figcaption>\n{svg}</figure>", escape(title))
            }
        };
    }
    out += "</main>\n</body>\n</html>\n";
    out
}

fn table(table: &Table) -> String {
    let class = |at: usize| if table.columns[at].numeric { " class=\"n\"" } else { "" };
    let mut out = "<table>\n".to_owned();
    if !table.title.is_empty() {
        let _ = writeln!(out, "<caption>{}</caption>", escape(&table.title));
    }
    out += "<thead><tr>";
    for (at, column) in table.columns.iter().enumerate() {
        let name = escape(&column.name);
        let _ = write!(out, "<th scope=\"col\"{}>{name}", class(at));
        if !column.unit.is_empty() {
            let _ = write!(out, "<span class=\"unit\">{}</span>", escape(&column.unit));
        }
        out += "</th>";
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in 0..table.rows.len() {
        out += "<tr>";
        for at in 0..table.columns.len() {
            let _ = write!(out, "<td{}>{}</td>", class(at), escape(&table.shown(row, at)));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Column, Plot, Series};

    #[test]
    fn nothing_in_the_data_becomes_markup() {
        let evil = "<script>alert('x')</script>&\"";
        let mut table = Table::new(evil, [Column::text(evil), Column::number("n", evil, 1)]);
        table.row([evil.into(), 1.0.into()]);
        let axis = || Axis::new(evil, evil);
        let plot = Plot::new(evil, axis())
            .panel(axis())
            .series(Series::line(evil, vec![(0.0, 1.0), (1.0, 2.0)]));
        let html = Report::new(evil).heading(evil).text(evil).table(table).plot(plot).to_html();
        assert!(!html.contains("<script") && !html.contains("\"\""), "{html}");
        assert!(html.matches("&lt;script&gt;").count() >= 9);
    }

    #[test]
    fn the_page_loads_nothing() {
        let plot = Plot::new("p", Axis::new("x", "")).panel(Axis::new("y", ""));
        let html = Report::new("r").plot(plot).to_html();
        let addresses = html.replace("http://www.w3.org/2000/svg", "");
        for way in ["http:", "https:", "src=", "href=", "url(", "@import", "<link"] {
            assert!(!addresses.contains(way), "{way}");
        }
    }

    #[test]
    fn tables_align_numbers_and_show_units() {
        let mut table = Table::new("", [Column::text("mode"), Column::number("energy", "J", 1)]);
        table.row(["poll".into(), 15720.04.into()]);
        assert_eq!(
            super::table(&table),
            "<table>\n<thead><tr><th scope=\"col\">mode</th><th scope=\"col\" class=\"n\">energy\
             <span class=\"unit\">J</span></th></tr></thead>\n<tbody>\n\
             <tr><td>poll</td><td class=\"n\">15,720.0</td></tr>\n</tbody>\n</table>"
        );
    }
}
