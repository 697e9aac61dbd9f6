//! `/openapi.json`: the description of every route. Typed routes are described by their types, see
//! [`crate::api`]. External protocols, whose requests pass unchanged, are described by files with their
//! published schemas.
//!
//! Such a file contains `paths` as in OpenAPI, and the fields that apply to all of them: `tag`, `security`,
//! and `everywhere` with the responses that every route may return. `common.json` contains the components
//! that files and types share.

mod document;
mod routes;

pub(crate) use routes::{described, routes};
