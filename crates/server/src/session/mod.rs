//! `/api/v1/session`: who sits at the page.
//!
//! Operators sign in with their key once; from then on a cookie that no script can read stands for it.
//! Where there is no key, whoever opens the page on this machine has a session from the start: it carries
//! the token by which we know that a change comes from our page.

pub(crate) mod cookie;
mod sign_in;

pub(crate) use sign_in::routes;
