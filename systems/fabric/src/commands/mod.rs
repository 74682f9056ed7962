//! What is asked of forwarding tables of InfiniBand fabrics: they are checked, compared, made and converted.
//!
//! Room: scenario, words and figures of the commands of `ebb fabric`; what is judged and made is the rest of
//! this crate's. Every command answers alike: sound or done, not sound, or the input cannot be read.

mod check;
mod check_transition;
mod convert;
mod files;
mod route;

use std::fmt;

use ebb_report::{Answer, Cell, Column, Report, Table};
use ebb_study::StudyError;
use serde::Serialize;

use crate::dependency::ChannelLabel;

pub use check::CHECK;
pub use check_transition::CHECK_TRANSITION;
pub use convert::CONVERT;
pub use route::ROUTE;

/// The group of these commands.
const GROUP: &str = "fabric";

/// Whether packets can deadlock or get lost, in words and for programs; figures for those who compare.
fn answered(
    title: &str,
    words: String,
    verdict: &impl Serialize,
    is_sound: bool,
    figures: &[(&str, serde_json::Value)],
) -> Result<Report, StudyError> {
    let json = serde_json::to_string_pretty(verdict).map_err(StudyError::failed)? + "\n";
    let mut table = Table::new("Figures", [Column::text("figure"), Column::text("value")]);
    let mut report = Report::new(title);
    for (name, value) in figures {
        table.row([Cell::Text(name.replace('_', " ")), Cell::Text(value.to_string())]);
        report = report.figure_in("", *name, value.clone());
    }
    Ok(report.table(table).answer(Answer { words, json, is_sound, ..Answer::default() }))
}

/// GUID, LID and cable of each hop, where that is asked for.
fn hops(out: &mut impl fmt::Write, places: &[ChannelLabel], details: bool) -> fmt::Result {
    for hop in places.iter().filter(|_| details) {
        let ChannelLabel { switch, port, lane, guid, lid, to, to_port } = hop;
        writeln!(
            out,
            "                 {switch} (GUID {guid}, LID {lid}) port {port} -> {to} port {to_port}, lane {lane}"
        )?;
    }
    Ok(())
}

/// Channels as a line: each waits for the next, the last for the first.
fn chain(places: &[ChannelLabel]) -> String {
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" -> ")
}
