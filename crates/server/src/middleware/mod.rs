//! The checks of every request before its route, at every listener: the host name, the origin of the page,
//! the size, the rate and the number of wrong keys.

pub(crate) mod checks;
pub(crate) mod endpoint;
mod origin;
mod proxies;
