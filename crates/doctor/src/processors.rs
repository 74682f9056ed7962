//! CPUs: frequency, idle states, threads of a core, who may use them, and what they draw.

use std::collections::BTreeSet;

use ebb_host::energy::Rapl;
use ebb_host::idle;
use ebb_host::topology::Cpu;

use crate::machine::cpus;
use crate::{Finding, Machine, Purpose, State};

const CPUS: &str = "sys/devices/system/cpu";

pub(crate) fn examine(machine: &Machine, purpose: Purpose) -> Vec<Finding> {
    let all = cpus(&machine.files);
    let mut found = vec![count(&all, purpose)];
    found.extend(frequency(machine, &all, purpose));
    found.push(boost(machine, purpose));
    found.extend(idle_states(machine, &all));
    found.push(latency_limit(machine, &all));
    found.push(threads(machine, purpose));
    found.push(isolated(machine));
    found.push(energy(machine));
    found.push(virtualised(machine, purpose));
    found
}

fn count(all: &[Cpu], purpose: Purpose) -> Finding {
    let id = "cpu.count";
    let cores: BTreeSet<_> = all.iter().map(|cpu| (cpu.package, cpu.core)).collect();
    let packages: BTreeSet<_> = all.iter().map(|cpu| cpu.package).collect();
    let one = |number: usize, word: &str| {
        format!("{number} {word}{}", if number == 1 { "" } else { "s" })
    };
    let text = format!(
        "{} on {} of {}",
        one(all.len(), "CPU"),
        one(cores.len(), "core"),
        one(packages.len(), "package")
    );
    match (all.len(), purpose) {
        (0, _) => Finding::new(id, State::Unknown, "the machine does not say which CPUs it has"),
        (1, Purpose::Tor) => Finding::new(id, State::Warning, text)
            .meaning("a switch of circuits keeps a CPU busy: everything else waits for it"),
        (1, _) => Finding::new(id, State::Note, text).meaning(
            "nothing is saved by switching workers off; they share the CPU with everything else",
        ),
        _ => Finding::ok(id, text),
    }
}

/// What a file of each CPU says, each value once.
fn values(machine: &Machine, all: &[Cpu], file: &str) -> Vec<String> {
    let value = |cpu: &Cpu| machine.read(&format!("{CPUS}/cpu{}/{file}", cpu.id));
    all.iter().filter_map(value).collect::<BTreeSet<_>>().into_iter().collect()
}

fn frequency(machine: &Machine, all: &[Cpu], purpose: Purpose) -> Vec<Finding> {
    let id = "cpu.frequency";
    let drivers = values(machine, all, "cpufreq/scaling_driver");
    if drivers.is_empty() {
        return vec![
            Finding::new(id, State::Note, "no control of the CPUs' frequency")
                .meaning("the governor saves by cores and idle states alone")
                .remedy(
                    "on hardware: enable it in the firmware (P-states), then modprobe acpi-cpufreq",
                ),
        ];
    }
    let mut found = vec![Finding::ok(id, format!("driver {}", drivers.join(", ")))];
    let governors = values(machine, all, "cpufreq/scaling_governor");
    let text = format!("governor {}", governors.join(", "));
    let fixed = governors == ["performance"];
    found.push(match purpose {
        Purpose::Measure if !fixed => Finding::new("cpu.governor", State::Warning, text)
            .meaning("the frequency moves while it is measured")
            .remedy("cpupower frequency-set -g performance"),
        _ if governors.iter().any(|name| name == "userspace") => {
            Finding::new("cpu.governor", State::Warning, text)
                .meaning("another program sets the frequency, within the limits that Ebb sets")
                .remedy("cpupower frequency-set -g schedutil")
        }
        Purpose::Router if fixed => Finding::new("cpu.governor", State::Note, text)
            .meaning("within the limits that Ebb sets, CPUs run at the highest frequency"),
        _ => Finding::ok("cpu.governor", text),
    });
    let preference = values(machine, all, "cpufreq/energy_performance_preference");
    if !preference.is_empty() {
        let text = format!("energy preference {}", preference.join(", "));
        let slow = preference.iter().any(|word| word == "power");
        found.push(if slow && purpose != Purpose::Measure {
            Finding::new("cpu.preference", State::Warning, text)
                .meaning("the hardware raises the frequency late: queues fill when load comes")
                .remedy("cpupower set --epp balance_performance")
        } else {
            Finding::ok("cpu.preference", text)
        });
    }
    found
}

fn boost(machine: &Machine, purpose: Purpose) -> Finding {
    let id = "cpu.boost";
    let off = machine.number(&format!("{CPUS}/intel_pstate/no_turbo"));
    let on = machine.number(&format!("{CPUS}/cpufreq/boost"));
    let (on, remedy) = match (off, on) {
        (Some(off), _) => (off == 0, "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"),
        (None, Some(on)) => (on != 0, "echo 0 > /sys/devices/system/cpu/cpufreq/boost"),
        (None, None) => return Finding::ok(id, "no boost above the nominal frequency is known"),
    };
    match (on, purpose) {
        (true, Purpose::Measure) => Finding::new(id, State::Warning, "boost is on")
            .meaning("speed and power depend on the temperature: two runs differ")
            .remedy(remedy),
        (true, _) => Finding::ok(id, "boost is on"),
        (false, _) => Finding::ok(id, "boost is off"),
    }
}

fn idle_states(machine: &Machine, all: &[Cpu]) -> Vec<Finding> {
    let id = "cpu.idle";
    let states = all.first().map(|cpu| idle::states(&machine.files, cpu.id)).unwrap_or_default();
    let driver = machine.read(&format!("{CPUS}/cpuidle/current_driver"));
    if states.is_empty() {
        let found = match driver.as_deref() {
            Some("none") | None => "no idle states".to_owned(),
            Some(name) => format!("driver {name}, no idle states"),
        };
        return vec![
            Finding::new(id, State::Note, found)
                .meaning("the governor cannot choose how deep CPUs sleep")
                .remedy("on hardware: enable C-states in the firmware"),
        ];
    }
    let words =
        |state: &idle::IdleState| format!("{} {} us", state.name, state.latency.as_micros());
    let list: Vec<String> = states.iter().map(words).collect();
    let driver = driver.unwrap_or_else(|| "unknown".to_owned());
    let mut found = vec![Finding::ok(id, format!("driver {driver}: {}", list.join(", ")))];
    let disabled =
        |cpu: &&Cpu| idle::states(&machine.files, cpu.id).iter().any(|state| state.disabled);
    let count = all.iter().filter(disabled).count();
    if count > 0 {
        found.push(
            Finding::new(
                "cpu.idle_disabled",
                State::Warning,
                format!("idle states of {count} CPUs are switched off"),
            )
            .meaning("CPUs without packets draw more than they need to")
            .remedy("cpupower idle-set --enable-all"),
        );
    }
    found
}

fn latency_limit(machine: &Machine, all: &[Cpu]) -> Finding {
    let id = "cpu.latency_limit";
    let limits = values(machine, all, "power/pm_qos_resume_latency_us");
    let set: Vec<&str> = limits.iter().map(String::as_str).filter(|value| *value != "0").collect();
    if set.is_empty() {
        return Finding::ok(id, "nothing limits how deep CPUs sleep");
    }
    Finding::new(id, State::Note, format!("wake-up latency limited to {} us", set.join(", ")))
        .meaning("a running Ebb sets it, and puts it back; otherwise CPUs draw more than they need to")
        .remedy("for file in /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us; do echo 0 > $file; done")
}

fn threads(machine: &Machine, purpose: Purpose) -> Finding {
    let id = "cpu.threads";
    match (machine.number(&format!("{CPUS}/smt/active")), purpose) {
        (Some(1), Purpose::Measure) => {
            Finding::new(id, State::Warning, "cores run two threads each")
                .meaning("what runs on the other thread changes what is measured")
                .remedy("echo off > /sys/devices/system/cpu/smt/control")
        }
        (Some(1), _) => Finding::new(id, State::Note, "cores run two threads each")
            .meaning("workers get whole cores first"),
        (Some(_), _) => Finding::ok(id, "one thread for each core"),
        (None, _) => Finding::ok(id, "the machine knows no threads of a core"),
    }
}

fn isolated(machine: &Machine) -> Finding {
    let list = |file: &str| machine.read(&format!("{CPUS}/{file}")).unwrap_or_default();
    let tickless = list("nohz_full");
    let tickless = if tickless == "(null)" { String::new() } else { tickless };
    match (list("isolated"), tickless) {
        (isolated, tickless) if isolated.is_empty() && tickless.is_empty() => {
            Finding::ok("cpu.isolated", "no CPU is isolated")
        }
        (isolated, tickless) => {
            let mut found = Vec::new();
            if !isolated.is_empty() {
                found.push(format!("CPUs {isolated} isolated"));
            }
            if !tickless.is_empty() {
                found.push(format!("CPUs {tickless} without tick"));
            }
            Finding::new("cpu.isolated", State::Note, found.join(", ")).meaning(
                "the scheduler leaves them alone: workers run there only if `cpus` names them",
            )
        }
    }
}

fn energy(machine: &Machine) -> Finding {
    let id = "cpu.energy";
    match Rapl::open(&machine.files) {
        Ok(counters) => {
            let names: Vec<&str> = counters.domains().map(|(name, _)| name).collect();
            Finding::ok(id, format!("counters {}", names.join(", ")))
        }
        Err(error) if error.is_absent() => {
            Finding::new(id, State::Note, "no energy counters (RAPL)")
                .meaning("watts are modelled, not measured")
                .remedy("on Intel and AMD hardware: modprobe intel_rapl_msr")
        }
        Err(error) => Finding::new(id, State::Unknown, error.to_string())
            .meaning("without counters watts are modelled, not measured"),
    }
}

fn virtualised(machine: &Machine, purpose: Purpose) -> Finding {
    let id = "cpu.virtual";
    let info = machine.read("proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Finding::ok(id, "no hypervisor");
    }
    let state = if purpose == Purpose::Measure { State::Warning } else { State::Note };
    Finding::new(id, state, "a virtual machine")
        .meaning("its host decides on frequencies, idle states and when CPUs run: what is measured is the host's, too")
}
