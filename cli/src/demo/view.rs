//! What the terminal shows while a mode is on.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ebb_report::spark_between;

use ebb_routerd::status::Status;

use super::play::{Day, Moment};
use crate::generator::Progress;

/// Characters of a spark line.
const SPARK_LEN: usize = 40;
/// Without a terminal a line this often, in moments.
const LINE_EVERY: usize = 10;

/// What a mode's view knows from the start.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The mode.
    pub mode: String,
    /// Its place among the modes, such as `1/3`.
    pub place: String,
    /// Length of the day.
    pub span: Duration,
    /// The busiest rate, packets per second.
    pub peak_pps: f64,
    /// Worker threads.
    pub workers: usize,
}

/// The live part of the output.
pub struct View {
    live: bool,
    lines: usize,
    told: usize,
}

impl View {
    /// Redraws in place on a terminal; elsewhere prints a line now and then.
    pub fn of_stdout() -> View {
        View { live: std::io::stdout().is_terminal(), lines: 0, told: 0 }
    }

    /// Shows the moments so far.
    pub fn show(
        &mut self,
        scene: &Scene,
        status: &Status,
        moments: &[Moment],
        progress: &Progress,
    ) {
        let Some(now) = moments.last() else { return };
        let mut out = std::io::stdout().lock();
        // A terminal that is gone ends the program through the signal, not here.
        if self.live {
            let text = panel(scene, status, moments, progress);
            let up = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
            let body: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
            self.lines = text.lines().count();
            _ = write!(out, "{up}{body}");
        } else if moments.len() >= self.told + LINE_EVERY {
            self.told = moments.len();
            _ = writeln!(out, "{}", line(scene, status, now, progress));
        }
        _ = out.flush();
    }

    /// Replaces the live part by the mode's result.
    pub fn finish(&mut self, day: &Day) {
        let mut out = std::io::stdout().lock();
        if self.lines > 0 {
            _ = write!(out, "\x1b[{}A\x1b[J", self.lines);
        }
        (self.lines, self.told) = (0, 0);
        _ = writeln!(out, "{}", verdict(day));
        _ = out.flush();
    }
}

fn panel(scene: &Scene, status: &Status, moments: &[Moment], progress: &Progress) -> String {
    let now = moments.last().expect("shown only with a moment");
    let mut text = String::new();
    let (at, span) = (now.at_s.max(0.0), scene.span.as_secs_f64());
    let hour = (at / span).min(1.0) * 24.0;
    let clock = format!("{:02}:{:02}", hour as u32 % 24, (hour.fract() * 60.0) as u32);
    let mut put = |line: String| writeln!(text, "{line}").expect("writing to memory");
    put(format!(
        "\x1b[1m{:<10}\x1b[0m {}   {clock} of the day, {at:.0} of {span:.0} s",
        scene.mode, scene.place
    ));
    let mut row = |name: &str, value: fn(&Moment) -> f64, top: f64, words: String| {
        let spark = spark_between(&resampled(moments, value), 0.0, top);
        put(format!("  {name:<10} {spark:<SPARK_LEN$}  {words}"));
    };
    let peak = scene.peak_pps * 1.1;
    row("offered", |m| m.offered_pps, peak, rate(now.offered_pps));
    row("forwarded", |m| m.carried_pps, peak, rate(now.carried_pps));
    let workers = scene.workers as f64;
    let cores = format!("{} of {}", number(now.cores), scene.workers);
    row("cores on", |m| m.cores, workers, cores);
    row("CPU used", |m| m.cpus.max(0.0), workers, format!("{:.2} cores", now.cpus.max(0.0)));
    let watts_max = moments.iter().map(|m| m.watts).fold(1.0, f64::max);
    row(
        "power",
        |m| m.watts,
        watts_max,
        format!("{:.0} W {}", now.watts, status.energy.basis.name()),
    );
    let slow = moments.iter().map(|m| m.latency_us).filter(|us| us.is_finite()).fold(1.0, f64::max);
    let latency =
        format!("mean {} us, p99 {} us", micros(now.latency_us), micros(now.latency_p99_us));
    row("latency", |m| m.latency_us, slow, latency);
    put(format!("  {:<10} {}", "packets", books(progress)));
    text
}

fn line(scene: &Scene, status: &Status, now: &Moment, progress: &Progress) -> String {
    format!(
        "{:<17} {:>4.0} s  offered {}  forwarded {}  cores {} of {}  CPU {:.2}  {:.0} W {}  \
         latency {} us  {}",
        scene.mode,
        now.at_s.max(0.0),
        rate(now.offered_pps),
        rate(now.carried_pps),
        number(now.cores),
        scene.workers,
        now.cpus.max(0.0),
        now.watts,
        status.energy.basis.name(),
        micros(now.latency_us),
        books(progress),
    )
}

/// One line of at most 80 characters.
fn verdict(day: &Day) -> String {
    let (summary, latency) = (&day.summary, &day.summary.latency_us);
    format!(
        "{:<17}{:>6.2} CPU s{:>6.0} J  lost {} of {}, reordered {}, p99 {} us",
        day.mode,
        day.cpu_seconds,
        day.joules,
        summary.lost,
        summary.sent,
        summary.reordered,
        micros(latency.p99),
    )
}

fn books(progress: &Progress) -> String {
    let (sent, received) = (progress.sent.load(Relaxed), progress.received.load(Relaxed));
    let reordered = progress.reordered.load(Relaxed);
    let open = sent.saturating_sub(received);
    format!("{sent} sent, {open} lost or in flight, {reordered} reordered")
}

fn rate(pps: f64) -> String {
    if pps >= 999_500.0 {
        format!("{:.2} Mpps", pps / 1e6)
    } else {
        format!("{:>4.0} kpps", pps / 1e3)
    }
}

fn number(cores: f64) -> String {
    if cores.is_finite() { format!("{cores:.0}") } else { "-".into() }
}

fn micros(us: f64) -> String {
    match us {
        us if !us.is_finite() => "-".into(),
        us if us < 10.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// At most [`SPARK_LEN`] values: the means of equal stretches.
fn resampled(moments: &[Moment], value: fn(&Moment) -> f64) -> Vec<f64> {
    let stretch = moments.len().div_ceil(SPARK_LEN).max(1);
    let mean = |some: &[Moment]| some.iter().map(value).sum::<f64>() / some.len() as f64;
    moments.chunks(stretch).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panel_fits_a_terminal() {
        let scene = Scene {
            mode: "powersave".into(),
            place: "3/3".into(),
            span: Duration::from_secs(20),
            peak_pps: 2e6,
            workers: 2,
        };
        let moment = Moment { offered_pps: 1.9e6, latency_us: f64::NAN, ..Moment::default() };
        let text = panel(&scene, &Status::default(), &vec![moment; 333], &Progress::default());
        let plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
        assert!(plain.contains("1.90 Mpps"), "{plain}");
        assert_eq!(plain.lines().count(), 8);
    }

    #[test]
    fn rates_and_times_are_short() {
        assert_eq!(rate(123_456.0), " 123 kpps");
        assert_eq!(rate(1_000_000.0), "1.00 Mpps");
        assert_eq!(micros(f64::NAN), "-");
        assert_eq!(micros(3.21), "3.2");
        assert_eq!(micros(1234.5), "1234");
    }
}
