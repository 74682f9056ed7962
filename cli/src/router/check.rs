//! `ebb router check`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_graph::PortId;
use ebb_routerd::config::{Config, ConfigError};
use ebb_routerd::live::{self, Preflight};
use ebb_routerd::policy;
use ebb_routerd::status::PolicyObject;
use serde_json::json;

/// Check a configuration and list all its problems
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router check -c router.toml
  ebb router check -c router.toml --json | jq '.problems[]'
  ebb router check --example > router.toml        a commented file with every field

The exit status is 1 when there is a problem, that is, when the router would not start. All problems
are reported, not only the first; what the router can do without is a warning. For a valid file the
effect of this machine's own policy (forwarding switches, rules, packet filters, ...) on packets follows;
it is not a problem of the file and does not change the exit status.")]
pub struct Check {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = "/etc/ebb/router.toml")]
    config: PathBuf,
    /// Print a commented configuration with every field instead
    #[arg(long)]
    example: bool,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Reads the file and prints what is wrong with it.
    pub fn run(self) -> Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if self.example {
            out.write_all(Config::example().as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let checked = Config::load(&self.config);
        let found = checked.as_ref().map_or_else(|_| Preflight::default(), live::preflight);
        let policy = checked.as_ref().ok().map(survey);
        if self.json {
            let mut verdict = verdict(&checked, &found);
            if let Some(Ok(objects)) = &policy {
                verdict["policy"] = json!(objects);
            }
            writeln!(out, "{verdict:#}")?;
        } else {
            let file = self.config.display();
            found.warnings.iter().for_each(|text| eprintln!("{file}: warning: {text}"));
            found.problems.iter().for_each(|text| eprintln!("{file}: {text}"));
        }
        match checked {
            Ok(_) if !found.problems.is_empty() => Ok(ExitCode::FAILURE),
            Ok(config) => {
                if !self.json {
                    writeln!(out, "{}: {}", self.config.display(), summary(&config))?;
                    for path in &found.paths {
                        writeln!(out, "{path}")?;
                    }
                    match policy {
                        Some(Ok(objects)) => {
                            for object in &objects {
                                writeln!(out, "policy: {object}")?;
                            }
                        }
                        Some(Err(error)) => writeln!(out, "policy: cannot be read: {error:#}")?,
                        None => {}
                    }
                }
                Ok(ExitCode::SUCCESS)
            }
            Err(_) if self.json => Ok(ExitCode::FAILURE),
            Err(error) => {
                eprintln!("{error}");
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// What the kernel's own policy would make of packets, as far as the ports exist here.
fn survey(config: &Config) -> Result<Vec<PolicyObject>> {
    let names = (0u8..).zip(&config.ports);
    let ports: Vec<_> = names.map(|(slot, port)| (PortId(slot), port.name.clone())).collect();
    policy::survey(&ports, &config.kernel.ignore)
}

fn summary(config: &Config) -> String {
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    let workers = match (config.router.workers, config.router.cpus.len()) {
        (Some(count), _) => count.to_string(),
        (None, 0) => "one per CPU".to_owned(),
        (None, count) => count.to_string(),
    };
    let ports = if names.len() == 1 { "port" } else { "ports" };
    format!(
        "configuration OK: {ports} {}, mode {}, workers {workers}",
        names.join(", "),
        config.router.mode
    )
}

fn verdict(checked: &Result<Config, ConfigError>, found: &Preflight) -> serde_json::Value {
    match checked {
        Ok(_) => {
            let message = |text: &String| json!({ "message": text });
            let problems: Vec<_> = found.problems.iter().map(message).collect();
            json!({ "good": problems.is_empty(), "problems": problems, "warnings": found.warnings,
                    "paths": found.paths })
        }
        Err(ConfigError::Invalid(problems)) => {
            let problems: Vec<_> = problems
                .iter()
                .map(|problem| {
                    json!({
                        "file": problem.file,
                        "line": problem.line,
                        "column": problem.column,
                        "field": problem.field,
                        "message": problem.message,
                        "remedy": problem.remedy,
                    })
                })
                .collect();
            json!({ "good": false, "problems": problems })
        }
        Err(other) => json!({ "good": false, "problems": [{ "message": other.to_string() }] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_file_is_summed_up() {
        let config = Config::from_str("x", Config::example()).expect("the example is right");
        assert_eq!(
            summary(&config),
            "configuration OK: ports eth1, eth2, mode powersave, workers 2"
        );
    }

    #[test]
    fn a_bad_file_yields_its_problems() {
        let verdict = verdict(
            &Config::from_str("x", "[[port]]\nname = \"a\"\ncolour = 1\n"),
            &Preflight::default(),
        );
        assert_eq!(verdict["good"], false);
        assert!(verdict["problems"][0].to_string().contains("colour"), "{verdict}");
    }
}
