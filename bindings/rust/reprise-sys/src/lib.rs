//! The C declarations of libreprise (`reprise/reprise.h`) and libreprise_nn (`reprise/nn.h`), as they are. The headers in
//! `include/reprise/` document them; the crate `reprise` has safe wrappers.
//!
//! Calls that take a struct which can grow are `NAME_sized`: pass `size_of` of the struct of this crate. Fill structs with
//! `std::mem::zeroed()`, because 0 is the default of every member.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]

#[rustfmt::skip]
mod nn;
#[rustfmt::skip]
mod reprise;
pub use nn::*;
pub use reprise::*;

#[cfg(test)]
#[rustfmt::skip]
mod layout;
