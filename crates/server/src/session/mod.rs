//! `/api/v1/session`: the session of the operators' page.
//!
//! An operator signs in with the key once; from then on, an HTTP-only cookie identifies the session. Without
//! a key, opening the page on this machine starts a session. Its CSRF token proves that a change comes from
//! this page.

pub(crate) mod cookie;
mod sign_in;

pub(crate) use sign_in::routes;
