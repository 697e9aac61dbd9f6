//! `/openapi.json`: every route, described. Typed routes are described by their types, see [`crate::api`]; each protocol
//! of others, whose requests pass through as they are, has a file of published shapes.
//!
//! Such a file has `paths` as OpenAPI writes them, and beside them what holds for all of them: `tag`, `security`, and
//! `everywhere`, the answers that any of its routes may give. `common.json` has what files and types share.

mod document;
mod routes;

pub(crate) use routes::{described, routes};
