//! Tests of the router: one program, so that what they share is compiled and linked once.

mod common;
mod flows;
mod order;
mod plane_any_config;
mod plane_api;
mod plane_config;
mod plane_kernel;
mod plane_live;
mod plane_scale;
mod sequence;
