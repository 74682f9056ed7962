//! The files that a configuration names, looked at before they are needed.

use anyhow::{Context, Result};

use super::types::Config;

pub(super) fn check(config: &Config) -> Result<()> {
    if let Some(path) = &config.router.routes_file {
        std::fs::File::open(path).with_context(|| {
            format!(
                "router.routes_file: cannot open {}: create the file or remove the field",
                path.display()
            )
        })?;
    }
    config.esp.tunnels()?;
    config.ipfix.tls()?;
    if let Some(path) = &config.power.model {
        crate::power::Fitted::check(path).context(
            "power.model: cannot use the file: write it with `ebb calibrate` or remove \
                the field",
        )?;
    }
    if let Some(path) = &config.power.paths {
        crate::power::path_costs(path).context(
            "power.paths: cannot use the file: write it with `ebb calibrate --paths` or remove \
                the field",
        )?;
    }
    Ok(())
}
