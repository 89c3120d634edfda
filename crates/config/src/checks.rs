//! What is wrong with a configuration whose every line is right.
use crate::config::Config;
use crate::load::Places;
use crate::problem::{Place, Problem};

pub(crate) fn check(_config: &Config, _places: &Places, _file: &Place, _problems: &mut Vec<Problem>) {}
