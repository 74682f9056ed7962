//! Colours and dashes of plots.

use core::fmt::Write;

/// Colours of one appearance.
struct Scheme {
    page: &'static str,
    card: &'static str,
    ink: &'static str,
    muted: &'static str,
    grid: &'static str,
    area: &'static str,
    series: [&'static str; HUES],
}

/// Hues of series; further ones differ by their dashes too.
pub(crate) const HUES: usize = 8;

/// Series that look different from all others.
pub(crate) const SERIES: usize = HUES * DASHES.len();

/// Dashes, in quarters of a pixel. Lines that coincide are told apart by what shows between them.
const DASHES: [&str; 4] = ["", "40 26", "10 18", "56 18 10 18"];

/// Told apart by people who confuse red and green (after Okabe and Ito), dark enough on white.
const LIGHT: Scheme = Scheme {
    page: "#f6f7f9",
    card: "#ffffff",
    ink: "#1b2330",
    muted: "#5b6675",
    grid: "#e4e8ee",
    area: "#b9c4d2",
    series: [
        "#c2410c", "#0f6fb8", "#04806a", "#a3378f", "#8a6a00", "#4b5563", "#7a4a21", "#4f46a5",
    ],
};

/// The same hues, light enough on near black.
const DARK: Scheme = Scheme {
    page: "#10151d",
    card: "#18202b",
    ink: "#e8edf4",
    muted: "#9aa7b8",
    grid: "#2a3543",
    area: "#435266",
    series: [
        "#ff9153", "#5fb4f5", "#35c9a7", "#e78fd3", "#e3b93c", "#a5b0bf", "#d0a577", "#aba6ff",
    ],
};

/// What a mark of a picture is, hence its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ink,
    Muted,
    Grid,
    Area,
    Series(usize),
    /// What others published: ink, so that no series of ours looks like it.
    Published(usize),
}

/// Published series that look different from each other.
pub(crate) const PUBLISHED: usize = DASHES.len();

impl Role {
    pub(crate) fn all() -> impl Iterator<Item = Role> {
        [Role::Ink, Role::Muted, Role::Grid, Role::Area]
            .into_iter()
            .chain((0..SERIES).map(Role::Series))
            .chain((0..PUBLISHED).map(Role::Published))
    }

    /// The name of its variable and the end of its class.
    pub(crate) fn name(self) -> String {
        match self {
            Role::Ink | Role::Published(_) => "ink".to_owned(),
            Role::Muted => "muted".to_owned(),
            Role::Grid => "grid".to_owned(),
            Role::Area => "area".to_owned(),
            Role::Series(index) => format!("s{}", index % HUES),
        }
    }

    /// The dashes of its lines; empty where they are solid.
    pub(crate) fn dashes(self) -> &'static str {
        match self {
            Role::Series(index) => DASHES[(index + index / HUES) % DASHES.len()],
            Role::Published(index) => DASHES[(index + 2) % DASHES.len()],
            _ => "",
        }
    }

    /// The same hue without dashes.
    pub(crate) fn solid(self) -> Role {
        let alike = |role: &Role| role.name() == self.name() && role.dashes().is_empty();
        Role::all().find(alike).unwrap_or(self)
    }

    /// Those with a variable of their own.
    fn named() -> impl Iterator<Item = Role> {
        Role::all().filter(|role| !matches!(role, Role::Series(HUES..) | Role::Published(_)))
    }

    /// Its colour for programs that ignore style sheets.
    pub(crate) fn plain(self) -> &'static str {
        self.of(&LIGHT)
    }

    fn of(self, scheme: &Scheme) -> &'static str {
        match self {
            Role::Ink | Role::Published(_) => scheme.ink,
            Role::Muted => scheme.muted,
            Role::Grid => scheme.grid,
            Role::Area => scheme.area,
            Role::Series(index) => scheme.series[index % HUES],
        }
    }
}

/// Rules that colour the marks of pictures, as `.f-` (fill) and `.l-` (line) classes, and follow
/// the reader's preference.
pub(crate) fn picture_rules() -> String {
    let mut rules = format!(
        ".ebb{{{}}}\n@media(prefers-color-scheme:dark){{.ebb{{{}}}}}\n",
        variables(&LIGHT),
        variables(&DARK)
    );
    for name in Role::named().map(Role::name) {
        let _ = write!(rules, ".f-{name}{{fill:var(--{name})}}.l-{name}{{stroke:var(--{name})}}");
    }
    rules += "\n.ebb text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n.ebb .card{fill:var(--card)}.ebb polyline{stroke-linejoin:round}\n";
    rules
}

fn variables(scheme: &Scheme) -> String {
    let mut out = format!("--page:{};--card:{};", scheme.page, scheme.card);
    for role in Role::named() {
        let _ = write!(out, "--{}:{};", role.name(), role.of(scheme));
    }
    out
}

/// Rules of the page around tables and pictures.
pub(crate) const PAGE_RULES: &str = "\
:root{color-scheme:light dark}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
main{max-width:72rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 1.25rem;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem}
p{margin:.6rem 0;max-width:46rem;white-space:pre-line}
figure{margin:1.25rem 0;padding:1rem 1.1rem;background:var(--card);border:1px solid var(--grid);border-radius:10px;overflow-x:auto}
figure.t{background:linear-gradient(90deg,var(--card) 40%,transparent) 0 0/3rem 100% no-repeat local,linear-gradient(270deg,var(--card) 40%,transparent) 100% 0/3rem 100% no-repeat local,linear-gradient(90deg,color-mix(in srgb,var(--ink) 28%,transparent),transparent) 0 0/1rem 100% no-repeat,linear-gradient(270deg,color-mix(in srgb,var(--ink) 28%,transparent),transparent) 100% 0/1rem 100% no-repeat,var(--card)}
figure svg{display:block;width:100%;height:auto;min-width:32rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:0 0 .6rem}
th,td{padding:.42rem .7rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid);overflow-wrap:break-word}
td{min-width:4.5rem;max-width:30rem}
td.n,th .unit{white-space:nowrap}
th{font-weight:600;vertical-align:bottom}
th .unit{display:block;font-weight:400;font-size:.82em;color:var(--muted)}
tbody tr:last-child td{border-bottom:0}
tbody tr:hover td{background:color-mix(in srgb,var(--grid) 45%,transparent)}
.n{text-align:right}
@media print{body{background:#fff}main{max-width:none}figure{break-inside:avoid;overflow:visible}table{font-size:.7rem}}
";

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast, WCAG 2.1.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let channel = |at: usize| {
                let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal");
                let share = f64::from(value) / 255.0;
                if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn no_two_series_look_alike() {
        let look = |index| (Role::Series(index).name(), Role::Series(index).dashes());
        let looks: std::collections::BTreeSet<_> = (0..SERIES).map(look).collect();
        assert_eq!(looks.len(), SERIES);
        assert!((0..3).all(|index| look(index).1 != look(index + 1).1), "neighbours may coincide");
    }

    #[test]
    fn text_and_lines_stand_out_in_both_schemes() {
        for scheme in [&LIGHT, &DARK] {
            for ground in [scheme.page, scheme.card] {
                assert!(contrast(scheme.ink, ground) >= 7.0);
                assert!(contrast(scheme.muted, ground) >= 4.5);
                for line in scheme.series {
                    assert!(contrast(line, ground) >= 4.5, "{line} on {ground}");
                }
            }
        }
    }
}
