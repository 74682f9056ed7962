//! The mesh as a picture: tiles, and links coloured by their load.

use std::fmt::Write;

use crate::{Direction, Mesh};

/// Pixels between tiles.
const STEP: f64 = 64.0;
const TILE: f64 = 26.0;

/// An `<svg>` element: each link a stroke from pale (empty) to dark red (`full` or more), with its
/// load as a tooltip. Links in opposite directions lie side by side; those that wrap around a torus
/// are drawn as stubs.
pub fn mesh_drawing(mesh: &Mesh, loads: &[f64], full: f64) -> String {
    let (width, height) = (STEP * mesh.columns() as f64, STEP * mesh.rows() as f64 + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n"
    );
    for (link, &load) in mesh.links().iter().zip(loads) {
        let (x, y) = middle(mesh, link.from);
        let (dx, dy) = match link.direction {
            Direction::East => (1.0, 0.0),
            Direction::West => (-1.0, 0.0),
            Direction::South => (0.0, 1.0),
            Direction::North => (0.0, -1.0),
        };
        let (end_x, end_y) = middle(mesh, link.to);
        let wraps = (end_x - x).abs().max((end_y - y).abs()) > 1.5 * STEP;
        let length = if wraps { STEP / 2.0 } else { STEP - TILE / 2.0 };
        let (aside_x, aside_y) = (-dy * 5.0, dx * 5.0);
        let at = |along: f64| (x + aside_x + dx * along, y + aside_y + dy * along);
        let ((x1, y1), (x2, y2)) = (at(TILE / 2.0), at(length));
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" \
             stroke-width=\"6\"><title>{} to {}: {load:.4}</title></line>",
            colour(load / full),
            link.from,
            link.to
        );
    }
    for node in 0..mesh.nodes() {
        let (x, y) = middle(mesh, node);
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{TILE}\" height=\"{TILE}\" rx=\"4\" \
             fill=\"#5b6675\"/><text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"#fff\" \
             text-anchor=\"middle\">{node}</text>",
            x - TILE / 2.0,
            y - TILE / 2.0,
            y + 4.0
        );
    }
    legend(&mut out, height, full);
    out + "</svg>\n"
}

fn middle(mesh: &Mesh, node: usize) -> (f64, f64) {
    let (row, column) = mesh.place(node);
    (STEP * (column as f64 + 0.5), STEP * (row as f64 + 0.5))
}

fn legend(out: &mut String, height: f64, full: f64) {
    for step in 0..5 {
        let part = f64::from(step) / 4.0;
        let x = 6.0 + 46.0 * f64::from(step);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" font-size=\"10\" fill=\"#5b6675\">{:.2}</text>",
            height - 18.0,
            colour(part),
            x + 15.0,
            height - 8.0,
            part * full
        );
    }
}

/// From pale yellow over orange to dark red.
fn colour(part: f64) -> String {
    const STOPS: [[f64; 3]; 3] = [[254.0, 240.0, 200.0], [240.0, 130.0, 40.0], [130.0, 10.0, 20.0]];
    let part = part.clamp(0.0, 1.0) * 2.0;
    let at = if part < 1.0 { 0 } else { 1 };
    let mix = |channel: usize| {
        let (a, b) = (STOPS[at][channel], STOPS[at + 1][channel]);
        (a + (part - at as f64) * (b - a)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_and_tile_is_drawn_once() {
        let mesh = Mesh::torus(3, 4).expect("torus");
        let loads = vec![0.5; mesh.links().len()];
        let svg = mesh_drawing(&mesh, &loads, 1.0);
        assert_eq!(svg.matches("<line").count(), 48);
        assert_eq!(svg.matches("rx=\"4\"").count(), 12);
        assert!(svg.contains("#f08228") && svg.ends_with("</svg>\n"));
    }
}
