//! A switch's racks on several threads: each serves those that it was dealt as a process of its own would, and the first one
//! shows and hears for all.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, ensure};

use super::{Switch, place};
use crate::api::Shared;
use crate::config::{Remote, TorConfig};
use crate::seal::Keys;
use crate::status::TorStatus;

/// A thread that has shown nothing for so long stands still.
const STILL_SECONDS: f64 = 2.0;

/// Deals racks out to as many threads as the configuration says; to each, the others' racks are remote.
pub(crate) fn deal(config: &TorConfig) -> Vec<TorConfig> {
    let deal = |thread: usize| {
        let mut dealt = config.clone();
        dealt.tor.cpu = config.tor.cpu.map(|cpu| cpu + thread);
        dealt.rack.clear();
        for (at, rack) in config.rack.iter().enumerate() {
            if at % config.tor.threads == thread {
                dealt.rack.push(rack.clone());
                continue;
            }
            let prefixes = rack.host.iter().flat_map(|host| host.prefixes.clone()).collect();
            dealt.remote.push(Remote { rack: rack.number, prefixes });
        }
        dealt
    };
    (0..config.tor.threads).map(deal).collect()
}

/// Another configuration, and its keys.
type Told = (TorConfig, Keys);

/// A thread beside the first.
pub(crate) struct Beside {
    told: Sender<Told>,
    shown: Arc<Mutex<TorStatus>>,
    thread: JoinHandle<()>,
}

impl Beside {
    /// Serves a switch's racks until the program stops.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(
        number: usize,
        mut tor: Switch,
        config: &TorConfig,
        shared: Arc<Shared<TorStatus>>,
    ) -> Result<Beside> {
        let shown = Arc::new(Mutex::new(tor.status()));
        let (told, hears) = channel();
        let (show, cpu, realtime) = (shown.clone(), config.tor.cpu, config.tor.realtime);
        let serve = move || {
            place(cpu, realtime);
            serve(&mut tor, &shared, &show, &hears);
            tor.close();
        };
        let name = format!("ebb-tor{number}");
        let thread = std::thread::Builder::new().name(name).spawn(serve);
        Ok(Beside { told, shown, thread: thread.context("cannot start a thread")? })
    }

    /// Has it take over another configuration.
    pub(crate) fn tell(&self, config: &TorConfig, keys: &Keys) {
        // Only a thread that has ended does not hear.
        _ = self.told.send((config.clone(), keys.clone()));
    }

    /// Adds what it does, and says whether it gets on.
    fn add_to(&self, status: &mut TorStatus) -> Result<bool> {
        ensure!(!self.thread.is_finished(), "a thread of the switch has ended");
        let shown = self.shown.lock().expect("no panic while shown");
        status.racks.extend_from_slice(&shown.racks);
        status.rounds += shown.rounds;
        status.cpu_seconds += shown.cpu_seconds;
        status.waited_seconds += shown.waited_seconds;
        status.looks.add_all(&shown.looks);
        status.woken_late.add_all(&shown.woken_late);
        Ok(status.uptime_seconds - shown.uptime_seconds < STILL_SECONDS)
    }

    /// Waits until it has given everything back, after the program was told to stop.
    pub(crate) fn end(self) {
        // What it panicked of has been said.
        _ = self.thread.join();
    }
}

/// Adds what the others do to what the first thread shows, and says whether all get on: what stands still is not to look as if
/// it did.
///
/// # Errors
/// When one has ended: its racks are served by nobody.
pub(crate) fn gather(beside: &[Beside], status: &mut TorStatus) -> Result<bool> {
    let mut get_on = true;
    for one in beside {
        get_on &= one.add_to(status)?;
    }
    status.racks.sort_by_key(|rack| rack.rack);
    Ok(get_on)
}

fn serve(
    tor: &mut Switch,
    shared: &Shared<TorStatus>,
    show: &Mutex<TorStatus>,
    hears: &Receiver<Told>,
) {
    while !shared.stopped() {
        let now = tor.round();
        if !tor.shows_at(now) {
            continue;
        }
        let status = tor.status();
        // Where it is just read, the next one shows as much.
        if let Ok(mut shown) = show.try_lock() {
            *shown = status;
        }
        while let Ok((config, keys)) = hears.try_recv() {
            tor.take_over(&config, keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TOR_EXAMPLE;

    /// What stands still is not shown as if it got on, and what has ended is an error.
    #[test]
    fn a_thread_that_stands_still_or_has_ended_is_noticed() {
        let (told, _hears) = channel();
        let (wait, waits) = channel::<()>();
        let thread = std::thread::spawn(move || _ = waits.recv());
        let beside = [Beside { told, shown: Arc::default(), thread }];
        let look = |uptime_seconds: f64| {
            gather(&beside, &mut TorStatus { uptime_seconds, ..TorStatus::default() })
        };
        assert!(look(1.0).expect("it runs"));
        assert!(!look(60.0).expect("it runs"));
        drop(wait);
        while !beside[0].thread.is_finished() {
            std::thread::yield_now();
        }
        assert!(look(1.0).expect_err("it ended").to_string().contains("has ended"));
    }

    #[test]
    fn racks_are_dealt_out_and_everybody_knows_where_all_are() {
        let mut text = TOR_EXAMPLE.replace("threads = 1 ", "threads = 2 ");
        for rack in 2..5 {
            text += &format!(
                "[[rack]]\nnumber = {rack}\nuplink = \"up{rack}\"\n[[rack.host]]\nname = \"h{rack}\"\n\
                 prefixes = [\"10.77.{rack}.0/24\"]\n"
            );
        }
        let config = TorConfig::parse("tor.toml", &text).expect("sound");
        let dealt = deal(&config);
        let own = |of: &TorConfig| of.rack.iter().map(|rack| rack.number).collect::<Vec<_>>();
        assert_eq!(dealt.iter().map(own).collect::<Vec<_>>(), [vec![0, 3], vec![2, 4]]);
        assert_eq!(dealt.iter().map(|of| of.tor.cpu).collect::<Vec<_>>(), [Some(1), Some(2)]);
        for of in &dealt {
            let mut all: Vec<u8> = own(of);
            all.extend(of.remote.iter().map(|remote| remote.rack));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
        let too_many = text.replace("threads = 2", "threads = 5");
        let error = TorConfig::parse("tor.toml", &too_many).expect_err("four racks").to_string();
        assert!(error.contains("tor.threads") && error.contains("1 to 4"), "{error}");
    }
}
