//! Probes, pins and RESET: conversations in virtual time, each naming what it guards against.

mod as_much_as_is_kept;
mod beyond_ascii;
mod deallocate_and_discard;
mod function_plans;
mod pins;
mod prepared_elsewhere;
mod probes;
mod refused;
mod reset;
mod restored_settings;
mod session;
mod startup_settings;
mod untracked;
