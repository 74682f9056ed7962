//! Other programs that set what Ebb sets, or take what it needs.

use crate::{Finding, Machine, State};

/// The program's name as the kernel cuts it (15 bytes), identifier, what it does to Ebb, and what ends that.
type Rival = (&'static str, &'static str, &'static str, &'static str);

const RIVALS: [Rival; 6] = [
    (
        "irqbalance",
        "service.irqbalance",
        "it moves interrupts away from the CPUs that Ebb gives them, every ten seconds",
        "systemctl disable --now irqbalance",
    ),
    (
        "tuned",
        "service.tuned",
        "it sets frequencies, idle states and network settings, which Ebb sets by the load",
        "tuned-adm off, or systemctl disable --now tuned",
    ),
    (
        "power-profiles-",
        "service.power_profiles",
        "it sets the CPUs' energy preference and frequency governor",
        "systemctl disable --now power-profiles-daemon",
    ),
    (
        "tlp",
        "service.tlp",
        "it sets frequencies and idle states, which Ebb sets by the load",
        "systemctl disable --now tlp",
    ),
    (
        "thermald",
        "service.thermald",
        "it lowers frequencies below what Ebb asks for when the machine is warm",
        "leave it where the cooling needs it",
    ),
    (
        "auto-cpufreq",
        "service.auto_cpufreq",
        "it sets frequencies, which Ebb sets by the load",
        "systemctl disable --now auto-cpufreq",
    ),
];

pub(crate) fn examine(machine: &Machine) -> Vec<Finding> {
    let running = running(machine);
    if running.is_empty() {
        return vec![Finding::new("service.rivals", State::Unknown, "processes are not shown")];
    }
    let mut found: Vec<Finding> = RIVALS
        .iter()
        .filter(|(program, ..)| running.iter().any(|name| name == program))
        .map(|(program, id, meaning, remedy)| {
            let state = if *program == "thermald" { State::Note } else { State::Warning };
            Finding::new(id, state, format!("{} runs", program.trim_end_matches('-')))
                .meaning(*meaning)
                .remedy(*remedy)
        })
        .collect();
    if found.is_empty() {
        found.push(Finding::ok("service.rivals", "no other program sets what Ebb sets"));
    }
    found.extend(network_manager(machine, &running));
    found
}

/// The names of all processes.
fn running(machine: &Machine) -> Vec<String> {
    let numbers = machine.files.list("proc").into_iter();
    let numbers = numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.filter_map(|number| machine.read(&format!("proc/{number}/comm"))).collect()
}

fn network_manager(machine: &Machine, running: &[String]) -> Vec<Finding> {
    if !running.iter().any(|name| name == "NetworkManager") {
        return Vec::new();
    }
    let id = "service.network_manager";
    let managed = machine.interfaces.iter().filter(|interface| {
        let file = format!("run/NetworkManager/devices/{}", interface.index);
        machine.read(&file).is_some_and(|text| text.lines().any(|line| line == "managed=true"))
    });
    let finding = |name: &str| {
        Finding::new(id, State::Warning, "NetworkManager manages it")
            .of(name)
            .meaning(
                "it changes addresses and routes, and sets the link down when it is reconfigured",
            )
            .remedy(format!("nmcli device set {name} managed no"))
    };
    let mut found: Vec<Finding> = managed.map(|interface| finding(&interface.name)).collect();
    if found.is_empty() {
        found.push(Finding::ok(id, "NetworkManager runs and leaves these interfaces alone"));
    }
    found
}
