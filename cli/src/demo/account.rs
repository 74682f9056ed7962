//! What forwarding cost the whole machine: processor time above that of the same load over a cable, and the power that goes
//! with it.
//!
//! Whoever sends and receives works on the same machine, and the kernel works for packets in the sender's time, in
//! interrupts and in the router's. Told apart by process, none of these is right: so the load is played once without
//! anybody who forwards, and what the processors do beyond that is the forwarder's.

use std::time::Duration;

use ebb_power::{Server, ServerModel, idle};
use ebb_routerd::status::{Status, WorkerState};

use super::play::{Day, MODERATION, Moment};

/// Parts of a day that are compared by themselves.
pub const PARTS: usize = 8;

/// A power model of the machine, for machines without energy counters.
pub struct Model {
    server: ServerModel,
}

impl Model {
    /// The published server with as many cores as may forward at most.
    pub fn new(cores: usize) -> Model {
        Model { server: scaled(cores) }
    }

    /// Power in watts while forwarding takes `cpus` processors' worth of time and `offered` packets come a second.
    ///
    /// Where workers forward, they tell what their cores draw; work of the kernel beyond their threads' `own`
    /// time is a busy core's. Where the kernel forwards, one core wakes for each burst of packets, and sleeps in between as
    /// deeply as that is long; the others are in C6.
    pub fn watts(&self, status: &Status, cpus: f64, own: f64, offered: f64) -> f64 {
        let server = &self.server;
        let floor = server.power(&[]).0;
        let work = (server.core_active - server.core_c6).0;
        if forwards_in_kernel(status) {
            let busy = cpus.clamp(0.0, f64::from(server.cores));
            let bursts = offered.clamp(0.0, 1.0 / MODERATION.as_secs_f64());
            let asleep = Duration::from_secs_f64(1.0 - busy.min(1.0));
            let states = Server::niccolini2012().c_states;
            let pauses = idle::sleeping(server, &states, (bursts as u64, asleep), Duration::MAX);
            return floor + busy * work + pauses.0 - server.core_c6.0 * asleep.as_secs_f64();
        }
        let workers =
            status.workers.iter().filter(|worker| worker.state != WorkerState::Kernel).count();
        let cores = status.energy.watts - scaled(workers).power(&[]).0;
        floor + cores + (cpus - own).max(0.0) * work
    }
}

fn scaled(cores: usize) -> ServerModel {
    ServerModel::niccolini2012().scaled_to(u16::try_from(cores).unwrap_or(u16::MAX))
}

/// Whether no packet is a worker's.
pub fn forwards_in_kernel(status: &Status) -> bool {
    let mut ports = status.ports.iter().map(|port| port.path == "kernel").peekable();
    status.workers.is_empty() || (ports.peek().is_some() && ports.all(|kernel| kernel))
}

/// What `value` is at a time, from moments in time order: that of the nearest one.
pub fn at(moments: &[Moment], at_s: f64, value: fn(&Moment) -> f64) -> f64 {
    let next = moments.partition_point(|moment| moment.at_s < at_s);
    let near = |moment: &&Moment| (moment.at_s - at_s).abs();
    let around = moments[next.saturating_sub(1)..].iter().take(2);
    around.min_by(|one, other| near(one).total_cmp(&near(other))).map_or(0.0, value)
}

/// Processor time of each part of a day that lasted `span_s`, in seconds.
pub fn parts(moments: &[Moment], span_s: f64) -> [f64; PARTS] {
    let mut parts = [0.0; PARTS];
    for moment in moments {
        // A sample tells of the time before it.
        let middle = (moment.at_s - moment.span_s / 2.0) / span_s;
        let part = (middle * PARTS as f64).clamp(0.0, PARTS as f64 - 1.0) as usize;
        parts[part] += moment.cpus * moment.span_s;
    }
    parts
}

/// Of several days of a series that of median processor time, with the median of each part.
pub fn median(mut days: Vec<Day>) -> Option<Day> {
    let middle = days.len().checked_sub(1)? / 2;
    let part = |at: usize| {
        let mut times: Vec<f64> = days.iter().map(|day| day.parts[at]).collect();
        times.sort_by(f64::total_cmp);
        times[middle]
    };
    let parts = (0..PARTS).map(part).collect();
    days.sort_by(|one, other| one.cpu_seconds.total_cmp(&other.cpu_seconds));
    Some(Day { parts, ..days.swap_remove(middle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_routerd::status::{Port, Worker};

    fn moment(at_s: f64, cpus: f64) -> Moment {
        Moment { at_s, cpus, span_s: 0.2, ..Moment::default() }
    }

    #[test]
    fn the_nearest_moment_counts() {
        let moments = [moment(0.2, 1.0), moment(0.4, 2.0), moment(0.6, 3.0)];
        let cpus = |at_s| at(&moments, at_s, |moment| moment.cpus);
        assert_eq!([cpus(0.0), cpus(0.29), cpus(0.31), cpus(9.0)], [1.0, 1.0, 2.0, 3.0]);
        assert_eq!(at(&[], 1.0, |moment| moment.cpus), 0.0);
    }

    #[test]
    fn parts_add_up_to_the_day() {
        let moments: Vec<Moment> =
            (1..=60).map(|step| moment(f64::from(step) / 5.0, 0.5)).collect();
        let parts = parts(&moments, 12.0);
        assert!((parts.iter().sum::<f64>() - 6.0).abs() < 1e-9);
        assert!(parts.iter().all(|part| *part > 0.0), "{parts:?}");
    }

    #[test]
    fn the_kernels_work_is_charged_on_either_path() {
        let model = Model::new(2);
        let kernel = Status::default();
        let watts = |cpus| model.watts(&kernel, cpus, 0.0, 1e5);
        assert!(watts(0.0) < watts(0.1) && watts(0.1) < watts(1.0));
        let mut workers = Status::default();
        workers.ports.push(Port { path: "worker".into(), ..Port::default() });
        workers.workers = vec![Worker::default(); 2];
        workers.energy.watts = scaled(2).power(&[]).0 + 10.0;
        let own = model.watts(&workers, 0.5, 0.5, 1e5);
        let more = model.watts(&workers, 0.7, 0.5, 1e5);
        assert!(own < more, "the kernel's part of 0.2 cores");
    }
}
