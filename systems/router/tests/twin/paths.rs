//! The twin by either path of the router: what was measured at the least and the highest load comes out again.

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_router::Twin;

/// Microseconds of a core for each packet: 1 to 0.8 in the kernel, 6 to 2.5 by workers.
const COSTS: &str = "\
    kernel = [{ packets_per_s = 2000, cores = 0.002 }, { packets_per_s = 400000, cores = 0.32 }]\n\
    worker = [{ packets_per_s = 2000, cores = 0.012 }, { packets_per_s = 400000, cores = 1.0 }]\n";

fn twin(text: &str) -> Result<Twin, String> {
    let files = MemoryFiles::new().with("paths.toml", COSTS);
    let document = Document::parse("run.toml", text).expect("TOML");
    Twin::new(&document, &files, 1).map_err(|error| error.to_string())
}

/// Busy cores.
fn busy(path: &str, packets_per_s: f64) -> f64 {
    let text = format!(
        "duration_s = 2\nwarmup_s = 0.01\n[policy]\nname = \"napi\"\n[limits]\ncores = 1\nfrequencies_ghz = [3.3]\n\
         [server]\ncosts_file = \"paths.toml\"\npath = \"{path}\"\n[traffic]\nrate_mpps = {}\n",
        packets_per_s / 1e6
    );
    let twin = twin(&text).expect("a scenario");
    let mut policy = twin.policy();
    let states = twin.run(&mut *policy, &Silent).expect("not stopped").states;
    // At work, or waking up for it.
    (states[0] + states[2]) * 12.0
}

#[test]
fn little_and_much_load_cost_what_was_measured() {
    for (path, load, measured) in
        [("kernel", 2_000.0, 0.002), ("worker", 2_000.0, 0.012), ("kernel", 400_000.0, 0.32)]
    {
        let busy = busy(path, load);
        let slack = if load > 1e5 { 0.2 } else { 0.05 };
        assert!((busy / measured - 1.0).abs() < slack, "{path} {load}: {busy} for {measured}");
    }
    assert!(busy("worker", 390_000.0) > 0.95, "one core is full");
}

#[test]
fn what_the_kernel_does_not_do_is_refused() {
    let kernel = "load = 0.1\n[server]\npath = \"kernel\"\n";
    let costs = "costs_file = \"paths.toml\"\n";
    for (text, said) in [
        (kernel.to_owned(), "`server.path`"),
        (kernel.to_owned() + costs, "`policy.name`"),
        (
            kernel.to_owned()
                + costs
                + "[policy]\nname = \"napi\"\n[application]\nname = \"ipsec\"\n",
            "`application`",
        ),
        ("load = 0.1\n[server]\ncosts_file = \"none.toml\"\n".to_owned(), "none.toml"),
    ] {
        let Err(error) = twin(&text) else { panic!("taken: {text}") };
        assert!(error.contains(said), "{error}");
    }
}
