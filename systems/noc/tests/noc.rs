//! Tests of networks on chip: one program, so that what they share is compiled and linked once.

mod booksim;
mod booksim_files;
mod booksim_public;
mod experiments;
mod mapping;
mod noxim_files;
mod proof;
mod scipy;
mod several_planes;
mod two_planes;
