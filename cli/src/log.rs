//! Messages of the command and its daemons: to the journal with fields where standard error is the journal's, as lines
//! of text elsewhere.
//!
//! Each message has a code (`code = "EBB-..."`, docs/messages.md). Who repeats a message without end is cut short.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ebb_service::{Journal, Record, message_id};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// A kind of message about one thing comes so often at most in [`WINDOW`].
const BURST: u32 = 50;
const WINDOW: Duration = Duration::from_secs(30);
/// Things that are remembered for it.
const KINDS_MAX: usize = 4096;
/// Fields that say what a message is about.
const SUBJECTS: [&str; 5] = ["port", "interface", "name", "worker", "member"];
/// Codes of messages about messages that were left out.
const OWN: [&str; 2] = ["EBB-E002", "EBB-E004"];

/// Starts it; `EBB_LOG` sets the level.
pub fn start() {
    let asked = std::env::var("EBB_LOG").unwrap_or_default();
    let (filter, wrong) = match filter(&asked) {
        Ok(filter) => (filter, None),
        Err(wrong) => (tracing_subscriber::EnvFilter::new("info"), Some(wrong)),
    };
    let base = tracing_subscriber::registry().with(filter).with(Limit::default());
    match Journal::of_standard_error() {
        Some(journal) => base.with(ToJournal(journal)).init(),
        None => base
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_ansi(std::io::stderr().is_terminal())
                    .with_target(false)
                    .without_time(),
            )
            .init(),
    }
    if let Some(wrong) = wrong {
        complain(&format!("EBB_LOG: {wrong}; using info"));
    }
}

/// Says why the command fails: to the journal where that listens, as a line elsewhere.
pub fn complain(words: &str) {
    if Journal::of_standard_error().is_some() {
        tracing::error!(code = "EBB-E003", "{words}");
    } else {
        eprintln!("ebb: {words}");
    }
}

/// Levels of messages.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A level, or levels of parts as `ebb_routerd=debug,info`.
fn filter(asked: &str) -> Result<tracing_subscriber::EnvFilter, String> {
    if asked.is_empty() {
        return Ok(tracing_subscriber::EnvFilter::new("info"));
    }
    for directive in asked.split(',') {
        let level = directive.rsplit('=').next().unwrap_or_default().trim();
        if !LEVELS.contains(&level.to_lowercase().as_str()) {
            return Err(format!("`{level}` is not one of {}", LEVELS.join(", ")));
        }
    }
    tracing_subscriber::EnvFilter::try_new(asked).map_err(|error| error.to_string())
}

/// An event's fields, in order.
#[derive(Default)]
struct Fields {
    message: String,
    code: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    fn of(event: &Event<'_>) -> Fields {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }

    /// The message with its fields, as a line.
    fn line(&self) -> String {
        let mut line = self.message.clone();
        for (name, value) in &self.others {
            _ = write!(line, " {name}={value}");
        }
        line
    }

    fn record(&self, level: Level) -> Record {
        let priority = match level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            Level::DEBUG | Level::TRACE => "7",
        };
        let mut record = Record::default();
        record.field("MESSAGE", &self.line());
        record.field("PRIORITY", priority);
        record.field("SYSLOG_IDENTIFIER", "ebb");
        if !self.code.is_empty() {
            record.field("MESSAGE_ID", &message_id(&self.code));
            record.field("EBB_CODE", &self.code);
        }
        for (name, value) in &self.others {
            record.field(&format!("EBB_{name}"), value);
        }
        record
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            "code" => self.code = value.to_owned(),
            name => self.others.push((name, value.to_owned())),
        }
    }
}

/// Sends events to the journal.
struct ToJournal(Journal);

impl<S: Subscriber> Layer<S> for ToJournal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let fields = Fields::of(event);
        let metadata = event.metadata();
        let mut record = fields.record(*metadata.level());
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            record.field("CODE_FILE", file);
            record.field("CODE_LINE", &line.to_string());
        }
        if self.0.send(&record).is_err() {
            // The journal is away, or the message too large for it: a line still gets there.
            _ = writeln!(std::io::stderr(), "{} {}", fields.line(), fields.code);
        }
    }
}

/// How often a kind of message came.
struct Came {
    since: Instant,
    times: u32,
}

/// What is to happen to a message.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    /// It passes, and so many before it did not.
    After(u32),
    /// It is left out, the first one.
    First,
    LeftOut,
}

/// Leaves messages out that repeat without end.
#[derive(Default)]
struct Limit(Mutex<HashMap<String, Came>>);

impl Limit {
    fn judge(&self, kind: String, now: Instant) -> Fate {
        let mut kinds = self.0.lock().expect("no panic while judging");
        if kinds.len() >= KINDS_MAX {
            kinds.retain(|_, came| now.duration_since(came.since) < WINDOW);
        }
        let came = kinds.entry(kind).or_insert(Came { since: now, times: 0 });
        let left_out = came.times.saturating_sub(BURST);
        if now.duration_since(came.since) >= WINDOW {
            *came = Came { since: now, times: 1 };
            return if left_out > 0 { Fate::After(left_out) } else { Fate::Pass };
        }
        came.times = came.times.saturating_add(1);
        match came.times {
            0..=BURST => Fate::Pass,
            times if times == BURST + 1 => Fate::First,
            _ => Fate::LeftOut,
        }
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        // Who asks for details wants them all.
        if *event.metadata().level() > Level::INFO {
            return true;
        }
        let fields = Fields::of(event);
        if fields.code.is_empty() || OWN.contains(&fields.code.as_str()) {
            return true;
        }
        let about = |name: &&'static str| {
            fields.others.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
        };
        let subject = SUBJECTS.iter().find_map(about).unwrap_or_default();
        let code = fields.code.as_str();
        match self.judge(format!("{code} {subject}"), Instant::now()) {
            Fate::Pass => true,
            Fate::After(times) => {
                tracing::warn!(
                    about = code,
                    subject,
                    times,
                    code = "EBB-E002",
                    "such messages were left out"
                );
                true
            }
            Fate::First => {
                let seconds = WINDOW.as_secs();
                tracing::warn!(
                    about = code,
                    subject,
                    code = "EBB-E004",
                    "more than {BURST} such messages in {seconds} s: the rest is left out"
                );
                false
            }
            Fate::LeftOut => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn unknown_levels_are_named() {
        for good in ["", "debug", "WARN", "ebb_routerd=trace,info"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["verbose", "ebb=loud", "info,1"] {
            assert!(filter(bad).expect_err(bad).contains("is not one of error, warn"), "{bad}");
        }
    }

    #[test]
    fn what_repeats_without_end_is_cut_short_and_counted() {
        let limit = Limit::default();
        let begin = Instant::now();
        let fates = |kind: &str, seconds, times: u32| {
            let now = begin + Duration::from_secs(seconds);
            (0..times).map(|_| limit.judge(kind.to_owned(), now)).last().expect("one")
        };
        assert_eq!(fates("a", 0, BURST), Fate::Pass);
        assert_eq!(fates("a", 1, 1), Fate::First);
        assert_eq!(fates("a", 2, 9), Fate::LeftOut);
        assert_eq!(fates("b", 2, 1), Fate::Pass, "another thing");
        assert_eq!(fates("a", 30, 1), Fate::After(10));
        assert_eq!(fates("a", 60, 1), Fate::Pass);
    }

    /// An event with fields arrives in a journal with its identifier, once.
    #[test]
    fn an_event_reaches_the_journal_with_its_fields() {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("journal");
        let heard = UnixDatagram::bind(&socket).expect("a socket");
        heard.set_nonblocking(true).expect("a socket");
        let layer = ToJournal(Journal::at(&socket).expect("it listens"));
        let subscriber = tracing_subscriber::registry().with(Limit::default()).with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let error = std::io::Error::other("why");
            tracing::warn!(port = "eth1", %error, code = "EBB-P003", "the interface was {}", "removed");
        });
        let mut bytes = [0; 2048];
        let length = heard.recv(&mut bytes).expect("a message");
        let text = String::from_utf8_lossy(&bytes[..length]);
        let id = format!("MESSAGE_ID={}", message_id("EBB-P003"));
        for line in [
            "MESSAGE=the interface was removed port=eth1 error=why",
            "PRIORITY=4",
            "SYSLOG_IDENTIFIER=ebb",
            &id,
            "EBB_CODE=EBB-P003",
            "EBB_PORT=eth1",
            "EBB_ERROR=why",
            "CODE_FILE=cli/src/log.rs",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        assert!(heard.recv(&mut bytes).is_err(), "it came twice");
    }
}
