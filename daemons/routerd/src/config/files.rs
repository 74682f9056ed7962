//! The files that a configuration names, looked at before they are needed.

use anyhow::{Context, Result};

use super::types::Config;

pub(super) fn check(config: &Config) -> Result<()> {
    if let Some(path) = &config.router.routes_file {
        std::fs::File::open(path).with_context(|| {
            format!("router.routes_file: {}: make it or leave the field out", path.display())
        })?;
    }
    if let Some(path) = &config.power.model {
        crate::power::Fitted::check(path)
            .context("power.model: write it with `ebb calibrate` or leave the field out")?;
    }
    Ok(())
}
