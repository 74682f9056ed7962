//! Threads, cores and switches in simulated time.
//!
//! Every core serves one job after the other; interrupts go before threads, and nothing is preempted. A
//! thread goes through its cycle: program, system call (on its core, or on another with a switch before
//! and after), waiting, and an interrupt that the call caused.

use std::collections::VecDeque;

use ebb_des::{Calendar, Seed};
use ebb_report::{Timeline, Timelines, Track};
use ebb_units::Time;
use rand::Rng as _;
use rand_distr::Exp1;

use crate::cores::{Code, Core, Kind, Machine};
use crate::costs::{self, Mechanism, Rule};
use crate::workload::{Interrupts, Workload};

/// Where system calls run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// On the program's core, with the interrupts.
    Unmodified,
    /// On the program's core; interrupts on the system's.
    Bound,
    /// On the system's core.
    Switched(Mechanism),
}

/// What switches cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Costs {
    /// The published kernel's, on cores that take so many cycles to wake.
    Published {
        /// From asleep to the first instruction.
        wake_cycles: f64,
    },
    /// So many ns one way, whatever the cores: measured, the wake-up in it.
    Measured {
        /// One way.
        one_way_ns: f64,
    },
}

/// One simulation.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The cores.
    pub machine: &'a Machine,
    /// Where system calls run.
    pub way: Way,
    /// What a thread does.
    pub workload: &'a Workload,
    /// Pairs of program and system time that replace the workload's, in turn, µs; none to keep them.
    pub phases: &'a [(f64, f64)],
    /// Whether phases are drawn from exponential distributions with their mean.
    pub drawn: bool,
    /// What switches cost.
    pub costs: Costs,
    /// Threads, spread over the program's cores.
    pub threads: usize,
    /// Cycles of all threads together.
    pub cycles: u64,
    /// Whether it is drawn.
    pub timelines: Timelines,
    /// A rule that is left out, to see what it does.
    pub without: Option<Rule>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Until the last cycle ended, s.
    pub seconds: f64,
    /// Cycles.
    pub cycles: u64,
    /// Busy time of each of the program's cores, s.
    pub app_busy: Vec<f64>,
    /// Busy time of each of the system's cores, s.
    pub os_busy: Vec<f64>,
    /// Switches from one core to another.
    pub switches: u64,
    /// Time in which cores ran the code of switches, s.
    pub switching: f64,
    /// What the cores drew, J: as busy while they work or poll, nothing while they sleep.
    pub joules: f64,
    /// What happened when, if that was asked for.
    pub timeline: Option<Timeline<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Program,
    Depart,
    Call,
    Leave,
    Return,
    Idle,
    Interrupt,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    /// The thread that goes on when it is done; none for an interrupt that nobody waits for.
    thread: Option<usize>,
    span: u64,
    /// Part of `span` that is a switch's code.
    switching: u64,
    /// The thread that an interrupt frees of what it has outstanding.
    frees: Option<usize>,
}

#[derive(Debug)]
struct Server {
    core: Core,
    queue: VecDeque<Job>,
    running: Option<Job>,
    /// When what runs ends.
    until: u64,
    /// Of all jobs that have begun.
    busy_ns: u64,
}

impl Server {
    /// Whether a thread runs here or waits to.
    fn busy(&self) -> bool {
        self.running.iter().chain(&self.queue).any(|job| job.thread.is_some())
    }

    /// How long it has been busy until `now`, ns.
    fn busy_until(&self, now: u64) -> u64 {
        self.busy_ns - if self.running.is_some() { self.until - now } else { 0 }
    }

    /// How many of the jobs that wait are interrupts: they go first.
    fn interrupts(&self) -> usize {
        self.queue.iter().take_while(|job| job.thread.is_none()).count()
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Done(usize, Job),
    Ready(usize),
}

#[derive(Debug)]
struct Thread {
    step: Step,
    home: usize,
    os: usize,
    began: u64,
    spans: (f64, f64),
    /// The handler of the interrupt that woke it, ns.
    woken: u64,
    /// Interrupts that it has outstanding, and whether it waits for them.
    outstanding: u32,
    waits: bool,
    /// When its last interrupt was due, how long its core had been busy then, and the share of the time since the one
    /// before in which it was.
    last: (u64, u64, f64),
}

struct State<'a> {
    run: &'a Run<'a>,
    servers: Vec<Server>,
    threads: Vec<Thread>,
    calendar: Calendar<Event>,
    random: ebb_des::Rng,
    now: u64,
    begun: u64,
    done: u64,
    switches: u64,
    switching: u64,
    watch: Option<Watch>,
}

impl Run<'_> {
    /// Simulates. `going` is asked now and then whether to go on, with what is done of 1.
    pub fn carry_out(&self, seed: Seed, going: &mut dyn FnMut(f64) -> bool) -> Outcome {
        let cores = self.machine.app.iter().chain(&self.machine.os);
        let server = |core: &Core| Server {
            core: *core,
            queue: VecDeque::new(),
            running: None,
            until: 0,
            busy_ns: 0,
        };
        let (apps, systems) = (self.machine.app.len(), self.machine.os.len());
        let thread = |index: usize| {
            let home = index % apps;
            let os = if systems == 0 { home } else { apps + index % systems };
            Thread {
                step: Step::Program,
                home,
                os,
                began: 0,
                spans: (0.0, 0.0),
                woken: 0,
                outstanding: 0,
                waits: false,
                last: (0, 0, 1.0),
            }
        };
        let mut state = State {
            run: self,
            servers: cores.map(server).collect(),
            threads: (0..self.threads.max(1)).map(thread).collect(),
            calendar: Calendar::new(),
            random: seed.stream("phases"),
            now: 0,
            begun: 0,
            done: 0,
            switches: 0,
            switching: 0,
            watch: self.timelines.begin().map(|timeline| Watch::new(timeline, self.machine)),
        };
        (0..state.threads.len()).for_each(|thread| state.begin(thread));
        let mut events = 0_u64;
        while let Some((at, event)) = state.calendar.pop() {
            state.now = at.as_nanos();
            match event {
                Event::Done(server, job) => state.finished(server, job),
                Event::Ready(thread) => state.advance(thread),
            }
            events += 1;
            let look = events.is_multiple_of(4096);
            if look && !going(state.done as f64 / self.cycles as f64) {
                break;
            }
        }
        state.outcome(apps)
    }
}

fn ns(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

impl State<'_> {
    /// Starts a thread's next cycle, unless there are enough.
    fn begin(&mut self, thread: usize) {
        if self.begun >= self.run.cycles {
            return;
        }
        let (workload, phases) = (self.run.workload, self.run.phases);
        let mut spans = (workload.user_us, workload.moved_us);
        if !phases.is_empty() {
            spans = phases[(self.begun % phases.len() as u64) as usize];
        } else if self.run.drawn {
            let mut draw = |mean: f64| mean * self.random.sample::<f64, _>(Exp1);
            spans = (draw(spans.0), draw(spans.1));
        }
        self.begun += 1;
        let core = self.servers[self.threads[thread].home].core;
        let own = &mut self.threads[thread];
        (own.step, own.began, own.spans) = (Step::Program, self.now, spans);
        let home = own.home;
        let own = if core.kind == Kind::Simple { workload.simple_user } else { 1.0 };
        let user = spans.0 * core.slowdown(Code::User) * own;
        let woken = std::mem::take(&mut self.threads[thread].woken);
        let span = woken + ns(user + workload.kernel_us * self.slow(home));
        self.enqueue(home, Job { thread: Some(thread), span, switching: 0, frees: None });
    }

    /// A thread has finished its step: the next one.
    fn advance(&mut self, thread: usize) {
        let (home, os) = (self.threads[thread].home, self.threads[thread].os);
        let next = match (self.threads[thread].step, self.run.way) {
            (Step::Program, Way::Switched(_)) if home != os => Step::Depart,
            (Step::Program | Step::Depart, _) => Step::Call,
            (Step::Call, Way::Switched(_)) if home != os => Step::Leave,
            (Step::Leave, _) => Step::Return,
            (Step::Call | Step::Return, _) => Step::Idle,
            (Step::Idle, _) => Step::Interrupt,
            (Step::Interrupt, _) => return self.complete(thread),
        };
        self.threads[thread].step = next;
        match next {
            Step::Depart => self.leave(thread, home, os),
            Step::Call if matches!(self.run.way, Way::Switched(_)) && home != os => {
                let call = self.threads[thread].spans.1 * self.slow(os) * 1000.0;
                self.enter(thread, home, os, call);
            }
            Step::Call => {
                let mut call = self.threads[thread].spans.1;
                if self.interrupts_at(home) != home {
                    call = (call - self.freed_us(thread)).max(0.0);
                }
                let span = call * self.slow(home);
                self.enqueue(
                    home,
                    Job { thread: Some(thread), span: ns(span), switching: 0, frees: None },
                );
            }
            Step::Leave => self.leave(thread, os, home),
            Step::Return => self.enter(thread, os, home, 0.0),
            Step::Idle => {
                let at = Time::from_nanos(self.now + ns(self.run.workload.idle_us));
                self.calendar.schedule(at, Event::Ready(thread));
            }
            Step::Interrupt | Step::Program => self.interrupt(thread, home),
        }
    }

    /// How much longer the workload's system code takes on `server`.
    fn slow(&self, server: usize) -> f64 {
        let core = &self.servers[server].core;
        let own = if core.kind == Kind::Simple { self.run.workload.simple_system } else { 1.0 };
        core.slowdown(Code::Kernel) * own
    }

    /// What the wake-up of `to`, if it sleeps, adds to a switch from `from`, ns.
    fn waking(&self, from: usize, to: usize) -> f64 {
        let asleep = self.servers[to].running.is_none();
        let (Way::Switched(mechanism), Costs::Published { wake_cycles }, true) =
            (self.run.way, self.run.costs, asleep)
        else {
            return 0.0;
        };
        let (from, to) = (&self.servers[from].core, &self.servers[to].core);
        costs::wake_ns(mechanism, from, to, wake_cycles / to.mhz * 1000.0)
    }

    /// Whether a thread of `server` meets others.
    fn meets(&self, server: &Server) -> bool {
        self.run.without != Some(Rule::Direct) && server.busy()
    }

    /// The source's part of a switch. From the system's core it follows the call at once.
    fn leave(&mut self, thread: usize, from: usize, to: usize) {
        let Way::Switched(mechanism) = self.run.way else { return };
        let (source, busy) = (&self.servers[from], self.meets(&self.servers[to]));
        let waits = self.meets(source);
        let switching = match self.run.costs {
            Costs::Published { .. } => costs::leave_ns(mechanism, &source.core, waits, busy),
            Costs::Measured { one_way_ns } => one_way_ns / 2.0,
        };
        self.switches += 1;
        let switching = switching.round() as u64;
        let job = Job { thread: Some(thread), span: switching, switching, frees: None };
        if self.threads[thread].step == Step::Leave {
            self.go_on(from, job);
        } else {
            self.enqueue(from, job);
        }
    }

    /// The target's part of a switch, and what the thread does there, ns.
    fn enter(&mut self, thread: usize, from: usize, to: usize, work: f64) {
        let Way::Switched(mechanism) = self.run.way else { return };
        let target = &self.servers[to];
        let patient = mechanism.waits_its_turn() || self.run.without == Some(Rule::SleepersFirst);
        let queued = patient && self.meets(target);
        let switching = match self.run.costs {
            Costs::Published { .. } => costs::enter_ns(mechanism, &target.core, queued),
            Costs::Measured { one_way_ns } => one_way_ns / 2.0,
        };
        let span = (switching + work + self.waking(from, to)).round() as u64;
        let switching = switching.round() as u64;
        self.enqueue(to, Job { thread: Some(thread), span, switching, frees: None });
    }

    /// The interrupt that the call caused, at the core that has the network card's: the system's first. Whoever need
    /// not wait for it goes on; whoever slept on another core is woken there.
    fn interrupt(&mut self, thread: usize, home: usize) {
        let server = self.interrupts_at(home);
        let waits = self.run.workload.interrupts == Interrupts::Wait;
        let slept = waits || self.run.workload.idle_us > 0.0;
        let asleep = slept && server != home && !self.servers[home].busy();
        let mut work = self.run.workload.interrupt_us;
        if server != home {
            let (then, busy, _) = self.threads[thread].last;
            let now_busy = self.servers[home].busy_until(self.now);
            let share = (now_busy - busy) as f64 / ((self.now - then) as f64).max(1.0);
            self.threads[thread].last = (self.now, now_busy, share.min(1.0));
            work += self.freed_us(thread);
        }
        let mut span = ns(work * self.slow(server));
        if span > 0 && asleep && self.run.without != Some(Rule::Wakes) {
            let (send, handle) = self.wake_thread(server, home);
            span += send;
            self.threads[thread].woken = handle;
        }
        let frees = (!waits).then_some(thread);
        let job = Job { thread: waits.then_some(thread), span, switching: 0, frees };
        self.threads[thread].outstanding += u32::from(span > 0 && !waits);
        if span > 0 {
            let place = self.servers[server].interrupts();
            self.servers[server].queue.insert(place, job);
            self.serve(server);
        }
        if span == 0 || !waits {
            self.complete(thread);
        }
    }

    /// What waking a thread at `to` takes at `from` and there, ns.
    fn wake_thread(&self, from: usize, to: usize) -> (u64, u64) {
        let Costs::Published { .. } = self.run.costs else { return (0, 0) };
        let mechanism = match self.run.way {
            Way::Switched(mechanism) => Some(mechanism),
            _ => None,
        };
        let (from, to) = (&self.servers[from].core, &self.servers[to].core);
        let (send, handle) = costs::wake_thread_ns(mechanism, from, to);
        (send.round() as u64, handle.round() as u64)
    }

    /// Ends a cycle, once the network has taken what it made.
    fn complete(&mut self, thread: usize) {
        let own = &mut self.threads[thread];
        own.step = Step::Interrupt;
        let due = own.began + ns(self.run.workload.least_us);
        if due > self.now {
            self.calendar.schedule(Time::from_nanos(due), Event::Ready(thread));
            return;
        }
        self.done += 1;
        let window = self.run.workload.window;
        let own = &mut self.threads[thread];
        own.waits = window > 0 && own.outstanding >= window;
        if !own.waits {
            self.begin(thread);
        }
    }

    /// The core that has the network card's interrupts: the system's first, unless the kernel is unmodified.
    fn interrupts_at(&self, home: usize) -> usize {
        let first = self.run.machine.app.len();
        let bound = self.run.way != Way::Unmodified && first < self.servers.len();
        if bound { first } else { home }
    }

    /// Protocol work that a call of `thread` leaves to interrupts, since the program was not in one when they came,
    /// µs on a complex core at 3 GHz.
    fn freed_us(&self, thread: usize) -> f64 {
        let own = &self.threads[thread];
        let apart = self.run.way == Way::Bound && self.run.without != Some(Rule::Backlog);
        let part = if apart { 1.0 - own.last.2 } else { 0.0 };
        self.run.workload.backlog_us * part
    }

    fn enqueue(&mut self, server: usize, job: Job) {
        self.servers[server].queue.push_back(job);
        self.serve(server);
    }

    /// What a thread does next where it is: before other threads, since nothing takes the core from it.
    fn go_on(&mut self, server: usize, job: Job) {
        let place = self.servers[server].interrupts();
        self.servers[server].queue.insert(place, job);
        self.serve(server);
    }

    fn serve(&mut self, server: usize) {
        let own = &mut self.servers[server];
        if own.running.is_some() {
            return;
        }
        if let Some(job) = own.queue.pop_front() {
            own.running = Some(job);
            own.until = self.now + job.span;
            own.busy_ns += job.span;
            self.switching += job.switching;
            if let Some(watch) = &mut self.watch {
                let step = job.thread.map_or(Step::Interrupt, |thread| self.threads[thread].step);
                watch.job(server, self.now, own.queue.len(), &job, step);
            }
            let at = Time::from_nanos(self.now + job.span);
            self.calendar.schedule(at, Event::Done(server, job));
        }
    }

    fn finished(&mut self, server: usize, job: Job) {
        self.servers[server].running = None;
        if let Some(thread) = job.frees {
            let own = &mut self.threads[thread];
            own.outstanding -= 1;
            if std::mem::take(&mut own.waits) {
                self.begin(thread);
            }
        }
        if let Some(thread) = job.thread {
            self.advance(thread);
        }
        self.serve(server);
    }

    fn outcome(self, apps: usize) -> Outcome {
        let second = |ns: u64| ns as f64 / 1e9;
        let seconds = second(self.now);
        let polls = self.run.way == Way::Switched(Mechanism::V4);
        let joules = self.servers.iter().map(|server| {
            let awake = if polls { seconds } else { second(server.busy_ns) };
            awake * server.core.watts()
        });
        let joules = joules.sum();
        let busy: Vec<f64> = self.servers.iter().map(|server| second(server.busy_ns)).collect();
        let (app_busy, os_busy) = (busy[..apps].to_vec(), busy[apps..].to_vec());
        Outcome {
            seconds,
            cycles: self.done,
            app_busy,
            os_busy,
            switches: self.switches,
            switching: second(self.switching),
            joules,
            timeline: self.watch.map(|watch| watch.timeline),
        }
    }
}

/// Draws what the cores do.
struct Watch {
    timeline: Timeline<Vec<u8>>,
    cores: Vec<(Track, String)>,
    queues: Track,
}

impl Watch {
    fn new(mut timeline: Timeline<Vec<u8>>, machine: &Machine) -> Watch {
        let of = |whose: &'static str, cores: &[Core]| {
            (0..cores.len()).map(move |at| format!("{whose} core {at}"))
        };
        let names = of("program's", &machine.app).chain(of("system's", &machine.os));
        let cores =
            names.map(|name| (timeline.track("cores", &name), name + ": jobs waiting")).collect();
        let queues = timeline.track("queues", "queues");
        Watch { timeline, cores, queues }
    }

    fn job(&mut self, server: usize, now: u64, waiting: usize, job: &Job, step: Step) {
        const PICOS: u64 = 1000;
        let (track, queue) = &self.cores[server];
        let name = match step {
            Step::Program => "program",
            Step::Depart => "switch to the system's core",
            Step::Call => "system call",
            Step::Leave | Step::Return => "switch back",
            Step::Idle => "idle",
            Step::Interrupt => "interrupt",
        };
        let mut details = vec![("switching_ns", job.switching as f64)];
        details.extend(job.thread.map(|thread| ("thread", thread as f64)));
        let until = now + job.span;
        self.timeline.slice(*track, name, now * PICOS, until * PICOS, &details);
        self.timeline.counter(self.queues, queue, now * PICOS, waiting as f64);
    }
}

impl Outcome {
    /// Units per second.
    pub fn rate(&self, workload: &Workload) -> f64 {
        self.cycles as f64 * workload.units / self.seconds
    }

    /// Units per joule.
    pub fn efficiency(&self, workload: &Workload) -> f64 {
        self.cycles as f64 * workload.units / self.joules
    }
}
