//! Whole configurations, from text to settings, problems and documentation.

mod checks;
mod console;
mod documentation;
mod effective;
mod entries;
mod example_files;
mod hostile_input;
mod idle_files;
mod load;
mod losses;
mod reload;
mod roles;
mod support;
mod tls;
