//! The checks that every request passes before its route, at every listener: for a host that is ours, of a
//! page that may, not too large, not too often, not by guessing keys.

pub(crate) mod checks;
mod endpoint;
mod origin;
mod proxies;
