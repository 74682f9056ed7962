//! Optical circuit switches that a controller sets itself: real ones, which do not hear sync frames.
//!
//! A switch is told at the begin of each night which circuits the day has, and says when they stand ([`LinkSync`]). The
//! emulated switch of `ebb ocs run` needs none of this: it hears sync frames as racks do.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_scenario::Described;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::clock::now_ns;
use crate::sync::Announced;

/// A switch that says nothing for so long has failed.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// After a failure it is asked again so much later.
const AGAIN: Duration = Duration::from_secs(1);
/// An answer that is longer, in bytes, is none.
const ANSWER_BYTES_MAX: usize = 4096;
/// A switch's thread that is told to end is waited for so long.
const END_MAX: Duration = Duration::from_secs(3);
/// A switch that did not make so many days one after the other makes none for now.
const FAILED_DAYS: u32 = 3;
/// Days that wait for the switch's thread.
const DAYS_WAITING: usize = 64;

/// A switch that connects each input with at most one output.
pub trait OpticalSwitch: Send {
    /// Makes these circuits and no others, pairs of input and output by the numbers of racks, and returns when they
    /// stand.
    ///
    /// # Errors
    /// When the switch does not answer or refuses.
    fn connect(&mut self, circuits: &[(u8, u8)]) -> io::Result<()>;
}

/// What became of a day's circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSync {
    /// They stood so long after their night began, ns, in time for the day.
    Up(u64),
    /// They stood only when the day had begun.
    Late(u64),
    /// The switch did not make them: the day is dark.
    Failed,
}

/// The switch that a controller sets.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Its address and TCP port for SCPI, usually 5025.
    pub scpi: SocketAddr,
    /// Its port that input 0 is at; the others follow.
    #[serde(default = "first_input")]
    pub first_input: u16,
    /// Its port that output 0 is at; the others follow. After all inputs where there is nothing.
    #[serde(default)]
    pub first_output: Option<u16>,
}

fn first_input() -> u16 {
    1
}

/// A switch that is set by SCPI over TCP: the `OXC` commands of Polatis's and others' switches, with IEEE 488.2's
/// `*OPC?`, which is answered once they are carried out.
pub struct ScpiSwitch {
    config: SwitchConfig,
    racks: u8,
    connection: Option<BufReader<TcpStream>>,
}

impl ScpiSwitch {
    /// One with ports for so many racks; it is connected to at the first order.
    pub fn new(config: SwitchConfig, racks: u8) -> ScpiSwitch {
        ScpiSwitch { config, racks, connection: None }
    }

    /// The order that makes circuits.
    fn order(&self, circuits: &[(u8, u8)]) -> String {
        // Past 65,535 the switch has no port, and says so.
        let inputs = u32::from(self.config.first_input);
        let outputs = self.config.first_output.map_or(inputs + u32::from(self.racks), u32::from);
        let list = |ports: Vec<u32>| {
            let ports: Vec<String> = ports.iter().map(u32::to_string).collect();
            ports.join(",")
        };
        if circuits.is_empty() {
            return ":oxc:swit:disc:all".to_owned();
        }
        let from = list(circuits.iter().map(|(from, _)| inputs + u32::from(*from)).collect());
        let to = list(circuits.iter().map(|(_, to)| outputs + u32::from(*to)).collect());
        format!(":oxc:swit:conn:only (@{from}),(@{to})")
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect_timeout(&self.config.scpi, ANSWER_MAX)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(ANSWER_MAX))?;
                BufReader::new(stream)
            }
        };
        connection.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let answer = answer(&mut connection)?;
        // Only what answers is kept: what failed is connected to anew, and no old answer is taken for a new one.
        self.connection = Some(connection);
        Ok(answer.trim().to_owned())
    }
}

/// A line from a switch: all of it within the time and the length that an answer may have.
fn answer(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let begun = monotonic();
    let mut line = Vec::new();
    loop {
        let left = ANSWER_MAX.saturating_sub(monotonic().since(begun));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.get_ref().set_read_timeout(Some(left))?;
        let bytes = match connection.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..taken]);
        connection.consume(taken);
        if line.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other(format!(
                "an answer longer than {ANSWER_BYTES_MAX} bytes"
            )));
        }
        if end.is_some() {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

impl OpticalSwitch for ScpiSwitch {
    fn connect(&mut self, circuits: &[(u8, u8)]) -> io::Result<()> {
        let done = self.ask(&format!("{};*opc?", self.order(circuits)))?;
        if done != "1" {
            self.connection = None;
            return Err(io::Error::other(format!("`*opc?` was answered by {done:?}")));
        }
        // A number of 0 says that nothing went wrong (SCPI 1999, 21.8).
        let error = self.ask(":syst:err?")?;
        if error.starts_with('0') || error.starts_with("+0") {
            return Ok(());
        }
        Err(io::Error::other(error))
    }
}

/// What a controller shows of the switch that it sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Days whose circuits stood in time.
    pub up: u64,
    /// Days whose circuits stood only when they had begun.
    pub late: u64,
    /// Days that the switch did not make.
    pub failed: u64,
    /// How long the last circuits took from the begin of their night, us.
    pub settle_us: f64,
    /// The longest of all.
    pub settle_us_max: f64,
    /// Why the switch failed last.
    pub fault: Option<String>,
}

/// Sets a switch in a thread of its own. Dropping it ends that.
pub struct Setter {
    days: Option<SyncSender<Night>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the switch's thread shares.
#[derive(Default)]
struct Shared {
    status: Mutex<SwitchStatus>,
    /// Days one after the other, the last among them, that the switch did not make.
    failed: AtomicU32,
    stop: AtomicBool,
}

impl Shared {
    fn note(&self, sync: LinkSync, fault: Option<String>) {
        match sync {
            LinkSync::Failed => _ = self.failed.fetch_add(1, Relaxed),
            LinkSync::Up(_) | LinkSync::Late(_) => self.failed.store(0, Relaxed),
        }
        note(&mut self.status.lock().expect("status"), sync, fault);
    }
}

/// A night, and what stands after it.
struct Night {
    begin_ns: u64,
    day_ns: u64,
    end_ns: u64,
    circuits: Vec<(u8, u8)>,
}

impl Setter {
    /// For a switch.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(switch: Box<dyn OpticalSwitch>) -> io::Result<Setter> {
        let (days, nights) = sync_channel(DAYS_WAITING);
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let run = move || set(switch, &nights, &theirs);
        let thread = std::thread::Builder::new().name("ebb-optical".into()).spawn(run)?;
        Ok(Setter { days: Some(days), shared, thread: Some(thread) })
    }

    /// Hands a day on whose night begins at `night_ns`; whether there was room. Where there was none, the switch is far
    /// behind, and the day counts as failed.
    pub fn announce(&self, night_ns: u64, day: &Announced) -> bool {
        let circuits = day.outputs.iter().enumerate();
        let circuits = circuits.filter(|(_, to)| **to != Announced::DARK);
        let night = Night {
            begin_ns: night_ns,
            day_ns: day.begin_ns,
            end_ns: day.begin_ns + u64::from(day.duration_ns),
            circuits: circuits.map(|(from, to)| (from as u8, *to)).collect(),
        };
        let room = self.days.as_ref().is_some_and(|days| days.try_send(night).is_ok());
        if !room {
            self.shared.note(LinkSync::Failed, None);
        }
        room
    }

    /// Whether the switch did not make the last days: no day of now has circuits.
    pub fn is_failing(&self) -> bool {
        self.shared.failed.load(Relaxed) >= FAILED_DAYS
    }

    /// What became of the days so far.
    pub fn status(&self) -> SwitchStatus {
        self.shared.status.lock().expect("status").clone()
    }
}

impl Drop for Setter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.days = None;
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        let begun = monotonic();
        while !thread.is_finished() {
            // It ends when the switch has answered, which nobody waits for.
            if monotonic().since(begun) > END_MAX {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It does nothing that could panic.
        _ = thread.join();
    }
}

fn set(mut switch: Box<dyn OpticalSwitch>, nights: &Receiver<Night>, shared: &Shared) {
    let mut again_ns = 0;
    while !shared.stop.load(Relaxed) {
        let night = match nights.recv_timeout(AGAIN) {
            Ok(night) => night,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while now_ns() < night.begin_ns && !shared.stop.load(Relaxed) {
            let wait_ns = night.begin_ns.saturating_sub(now_ns());
            std::thread::park_timeout(Duration::from_nanos(wait_ns));
        }
        if shared.stop.load(Relaxed) {
            return;
        }
        // A day that is over is not made any more, and a switch that has failed is left alone for a while.
        let passed_over = now_ns() >= night.end_ns || now_ns() < again_ns;
        let made = if passed_over { None } else { Some(switch.connect(&night.circuits)) };
        let now = now_ns();
        let (sync, fault) = match made {
            None => (LinkSync::Failed, None),
            Some(Err(error)) => {
                again_ns = now + AGAIN.as_nanos() as u64;
                (LinkSync::Failed, Some(error.to_string()))
            }
            Some(Ok(())) => {
                let took = now.saturating_sub(night.begin_ns);
                let late = now > night.day_ns;
                (if late { LinkSync::Late(took) } else { LinkSync::Up(took) }, None)
            }
        };
        shared.note(sync, fault);
    }
}

/// Counts what became of a day, and says it when that is new.
fn note(status: &mut SwitchStatus, sync: LinkSync, fault: Option<String>) {
    match sync {
        LinkSync::Up(_) => status.up += 1,
        LinkSync::Late(_) => status.late += 1,
        LinkSync::Failed => status.failed += 1,
    }
    if let LinkSync::Up(took) | LinkSync::Late(took) = sync {
        status.settle_us = took as f64 / 1e3;
        status.settle_us_max = status.settle_us_max.max(status.settle_us);
        status.fault = None;
    }
    if fault.is_some() && status.fault != fault {
        let why = fault.as_deref().unwrap_or_default();
        warn!(why, code = "EBB-T021", "the optical switch fails: days stay dark");
        status.fault = fault;
    }
    if matches!(sync, LinkSync::Late(_)) && status.late == 1 {
        let us = status.settle_us;
        warn!(us, code = "EBB-T022", "circuits stand only after their day began: raise `night_us`");
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::sync::RACKS_MAX;

    /// A day's circuits.
    type Circuits = Vec<(u8, u8)>;

    /// A switch in memory, which takes a while.
    #[derive(Clone, Default)]
    struct Emulated {
        made: Arc<Mutex<Vec<Circuits>>>,
        takes: Duration,
        broken: bool,
    }

    impl OpticalSwitch for Emulated {
        fn connect(&mut self, circuits: &[(u8, u8)]) -> io::Result<()> {
            std::thread::sleep(self.takes);
            if self.broken {
                return Err(io::Error::other("out of order"));
            }
            self.made.lock().expect("made").push(circuits.to_vec());
            Ok(())
        }
    }

    fn day(number: u32, begin_ns: u64) -> Announced {
        let mut outputs = [Announced::DARK; RACKS_MAX];
        (outputs[0], outputs[2]) = (2, 0);
        Announced { number, duration_ns: 2_000_000_000, begin_ns, outputs }
    }

    /// Three days after nights of 20 ms, long enough for a machine that does much else.
    fn play(switch: &Emulated) -> SwitchStatus {
        let setter = Setter::start(Box::new(switch.clone())).expect("a thread");
        let begun = now_ns();
        for number in 0..3u32 {
            let night = begun + 5_000_000 + u64::from(number) * 70_000_000;
            assert!(setter.announce(night, &day(number, night + 20_000_000)));
        }
        let until = ebb_host::clock::monotonic();
        loop {
            let status = setter.status();
            if status.up + status.late + status.failed == 3 {
                return status;
            }
            assert!(ebb_host::clock::monotonic().since(until) < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn days_are_made_in_their_nights_and_what_fails_is_counted() {
        let good = Emulated::default();
        let status = play(&good);
        assert_eq!(status.failed, 0, "{status:?}");
        assert_eq!(*good.made.lock().expect("made"), vec![vec![(0, 2), (2, 0)]; 3]);
        let slow = play(&Emulated { takes: Duration::from_millis(30), ..Emulated::default() });
        assert!(slow.late == 3 && slow.settle_us_max >= 30_000.0, "{slow:?}");
        let broken = play(&Emulated { broken: true, ..Emulated::default() });
        assert_eq!((broken.failed, broken.fault.as_deref()), (3, Some("out of order")));
    }

    /// A stand-in that answers as a switch does: what it was told, and an error for a port that it has not.
    fn stand_in() -> (SocketAddr, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let (told, heard) = sync_channel(64);
        std::thread::spawn(move || {
            let mut wrong = false;
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
                let mut stream = stream;
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let answer = match line.trim() {
                        ":syst:err?" if wrong => "-222,\"Data out of range\"\n",
                        ":syst:err?" => "0,\"No error\"\n",
                        order => {
                            wrong = order.contains("99");
                            "1\n"
                        }
                    };
                    if stream.write_all(answer.as_bytes()).is_err()
                        || told.send(line.trim().to_owned()).is_err()
                    {
                        return;
                    }
                    line.clear();
                }
            }
        });
        (at, heard)
    }

    #[test]
    fn a_switch_is_set_by_scpi_and_its_errors_are_heard() {
        let (scpi, heard) = stand_in();
        let config = SwitchConfig { scpi, first_input: 1, first_output: None };
        let mut switch = ScpiSwitch::new(config.clone(), 16);
        switch.connect(&[(0, 2), (2, 0)]).expect("made");
        switch.connect(&[]).expect("dark");
        let said: Vec<String> = heard.try_iter().filter(|line| line.contains("opc")).collect();
        assert_eq!(said, [":oxc:swit:conn:only (@1,3),(@19,17);*opc?", ":oxc:swit:disc:all;*opc?"]);
        let mut wrong = ScpiSwitch::new(SwitchConfig { first_output: Some(99), ..config }, 16);
        drop(switch);
        let error = wrong.connect(&[(0, 0)]).expect_err("no such port").to_string();
        assert!(error.contains("out of range"), "{error}");
    }

    /// One that never comes to an end of its answer, by length or by time.
    #[test]
    fn an_answer_without_end_is_an_error() {
        for (part, pause_ms, said) in [(&[b'1'; 512][..], 0, "longer than 4096"), (b"1", 100, "")] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let scpi = listener.local_addr().expect("bound");
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("somebody");
                while stream.write_all(part).is_ok() {
                    std::thread::sleep(Duration::from_millis(pause_ms));
                }
            });
            let config = SwitchConfig { scpi, first_input: u16::MAX, first_output: None };
            let begun = monotonic();
            let error = ScpiSwitch::new(config, 16).connect(&[(0, 2)]).expect_err("no end");
            assert!(error.to_string().contains(said), "{error}");
            assert!(monotonic().since(begun) < Duration::from_secs(20));
        }
    }

    /// Days that wait keep nobody from ending, and days for which there is no room have failed.
    #[test]
    fn a_setter_ends_soon_and_says_that_its_switch_fails() {
        let setter = Setter::start(Box::new(Emulated::default())).expect("a thread");
        assert!(!setter.is_failing());
        let far = now_ns() + 3_600_000_000_000;
        while setter.announce(far, &day(0, far + 1_000_000)) {}
        assert_eq!(setter.status().failed, 1);
        assert!(!setter.is_failing());
        while !setter.is_failing() {
            setter.announce(far, &day(0, far + 1_000_000));
        }
        let begun = monotonic();
        drop(setter);
        assert!(monotonic().since(begun) < END_MAX, "it ends at once");
    }

    #[test]
    fn nobody_there_is_an_error() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let config = SwitchConfig { scpi: free, first_input: 1, first_output: Some(5) };
        assert!(ScpiSwitch::new(config, 4).connect(&[(0, 1)]).is_err());
    }
}
