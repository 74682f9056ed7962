//! One published number with what became of it.

use serde::Serialize;

use crate::findings::{Found, What};
use crate::{Bound, Claim, ClaimBasis, ClaimKind, Ours};

/// One claim with what became of it; in JSON exactly these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The claim's.
    pub id: &'static str,
    /// Document and section.
    pub source: &'static str,
    /// What was published; where words are read as a number, with the words.
    pub quantity: String,
    /// The published value; the middle of a range, the value that words are read as.
    pub published: f64,
    /// Of both values and the tolerance.
    pub unit: &'static str,
    /// Our value; absent where there is none.
    pub ours: Option<f64>,
    /// Half the width of its 95 % confidence interval: 0 where nothing is drawn, absent where one
    /// seed drew.
    pub half_width_95: Option<f64>,
    /// How many seeds ours is the mean over; 0 where there is no value.
    pub seeds: u32,
    /// How far ours may be off.
    pub tolerance: f64,
    /// On which side of the published value.
    pub bound: Bound,
    /// What agreement proves.
    pub basis: ClaimBasis,
    /// Whether a number was printed.
    pub kind: ClaimKind,
    /// Whether it came out.
    pub verdict: Verdict,
    /// What there is to say; for a missed claim the reason.
    pub note: String,
    /// Of a shorter run whose numbers mean little; only there.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub quick: bool,
    /// For people: the quantity alone, what was printed, and what ours is held to.
    #[serde(skip)]
    pub(crate) shown: [String; 3],
}

/// Whether a published number came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Within the tolerance.
    #[serde(rename = "met")]
    Met,
    /// Not.
    #[serde(rename = "missed")]
    Missed,
    /// Left out of this run: neither.
    #[serde(rename = "not run")]
    NotRun,
}

impl Verdict {
    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotRun => "not run",
        }
    }
}

/// What is said of a number whose interval has both met and missed values in it.
const ACROSS: &str = "undecided: the 95 % interval contains the limit";

/// Whether the verdict on the mean is not that on all of its interval.
fn reaches_across(claim: &Claim, ours: Ours) -> bool {
    let half = ours.half_width_95.unwrap_or(0.0);
    let (least, most) = (ours.mean - half, ours.mean + half);
    // What was printed is met, if anything is: the interval may have it between two ends that are missed.
    [least, claim.published.clamp(least, most), most]
        .into_iter()
        .any(|value| claim.met(value) != claim.met(ours.mean))
}

impl Row {
    pub(crate) fn new(claim: &Claim, found: Option<&Found>, quick: bool) -> Row {
        let ours = found.and_then(|found| match found.what {
            What::Number(ours) => Some(ours),
            What::Nothing | What::NotRun => None,
        });
        let verdict = match found.map(|found| found.what) {
            Some(What::NotRun) => Verdict::NotRun,
            _ if ours.is_some_and(|ours| claim.met(ours.mean)) => Verdict::Met,
            _ => Verdict::Missed,
        };
        let note = found.map_or("the experiment gives no number", |found| {
            let note = &found.note;
            match verdict {
                Verdict::Missed if note.missed.is_empty() => "no reason found",
                Verdict::Missed | Verdict::NotRun => &note.missed,
                Verdict::Met => &note.met,
            }
        });
        let words =
            claim.words.map_or(String::new(), |words| format!(" (\u{201c}{words}\u{201d})"));
        let reach = ours.is_some_and(|ours| reaches_across(claim, ours));
        let note = match (reach, note.is_empty()) {
            (false, _) => note.to_owned(),
            (true, true) => ACROSS.to_owned(),
            (true, false) => format!("{note}; {ACROSS}"),
        };
        Row {
            id: claim.id,
            source: claim.source,
            quantity: format!("{}{words}", claim.quantity),
            published: claim.published,
            unit: claim.unit,
            ours: ours.map(|ours| ours.mean),
            half_width_95: ours.and_then(|ours| ours.half_width_95),
            seeds: ours.map_or(0, |ours| ours.seeds),
            tolerance: claim.tolerance,
            bound: claim.bound,
            basis: claim.basis,
            kind: claim.kind(),
            verdict,
            note,
            quick,
            shown: [claim.quantity.to_owned(), claim.printed(), claim.held_to(true)],
        }
    }
}
